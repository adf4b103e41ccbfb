"""What the pages tell a reader to type is typed, in a copy of the course and an empty environment.

The lines are collected from the Markdown. One is typed as it stands, or `INSTEAD` says what is run
for it, and why. The environment is installed once, by pip as the pages say, which takes minutes
and a network.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

import documented
import nbformat
import pytest
import tiny_course

from course import building, built, sections
from course.prose.cells import ROOT

pytestmark = pytest.mark.once
needs_posix = pytest.mark.skipif(
    os.name == "nt", reason="the pages show the lines of a POSIX shell"
)

LINES = documented.typed()
# Typed first and in this order: a package alone is imported before anything else is installed.
INSTALLING = [
    r"python3 -m venv \.venv",
    r"pip install \.",
    r"from chapter18 import .*",
    r"\.venv/bin/pip install .*-e '\.\[course\]'",
    r"\.venv/bin/pip install .*-e '\.\[test\]'",
    r"python3 -m pip wheel .*",
]
# What is run for a line: `{}` stands for the line itself.
INSTEAD = {
    r"(.* )?make (?!lab)\w+( .*)?": ("dry run", "installs and runs for minutes or hours"),
    r".*jupyter lab .*|make lab": ("serve", "waits for a person: asked for its status, ended"),
    r".*/papermill .*": ("{} --prepare-only", "runs for four minutes; `run` executes below"),
    r".* course run": ("{} 06 --quick", "the whole course runs for twenty minutes"),
    r".* course run 01 -p .*": ("tiny course", "runs for four minutes"),
    r".* -m pytest.*": ("{} --collect-only", "is this very run"),
    r".* course (links|build)( .*)?": ("tiny course", "changes files that others read"),
    r"pip install '\.\[tpu-plan\]'": ("{} --dry-run", "fetches half a gigabyte"),
    r"%pip install --no-deps course\.zip": (
        "python -m pip install --dry-run course.zip",
        "is for Colab",
    ),
    r".*pip install --no-index .*": ("{} --dry-run --ignore-installed", "installs all once more"),
    r"\.ci/run": ("bash -n {}", "repeats all tests, these too, for an hour"),
}
# What conftest.py, make or the shell of whoever runs the tests may set, and a reader has not.
OURS = ("GIT_", "JAX_", "KERAS_", "MAKE", "MFLAGS", "MPL", "PYTEST_", "PYTHON", "VIRTUAL_", "XLA_")
OURS_TOO = ("BIN", "JUPYTER_PATH", "NPROC")


class Place(NamedTuple):
    """A copy of the course, and the variables that a reader's shell has there."""

    root: Path
    environment: dict

    def run(self, line, *, cwd=None, timeout=600, **variables):
        """Type the line into a shell; return what it printed, or fail with all that it said."""
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=cwd or self.root,
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return done.stdout


def rule(line):
    """What is run for the line, and why it is not the line itself."""
    for pattern, instead in INSTEAD.items():
        if re.fullmatch(pattern, line):
            return instead
    return "{}", ""


def installing(pattern):
    return [line for line in LINES if re.fullmatch(pattern, line)]


LEFT = [line for line in LINES if not any(re.fullmatch(one, line) for one in INSTALLING)]


@pytest.fixture(scope="module")
def place():
    """A copy of the course with a `.venv` that the documented lines have filled."""
    with tempfile.TemporaryDirectory() as folder:
        place = _copy(Path(folder))
        asked = (
            f"{sys.executable} -m pip download --no-deps --no-cache-dir --retries 0 -d {folder}/try"
        )
        if subprocess.run(
            ["sh", "-c", f"{asked} 'setuptools>=77'"], capture_output=True
        ).returncode:
            pytest.skip("pip reaches no package index, from which an empty environment is filled")
        for pattern in INSTALLING:
            for line in installing(pattern):
                _install(place, line)
        yield place


def _copy(folder):
    root, home = folder / "course", folder / "home"
    home.mkdir()
    for name in _files():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, root / name)
    shutil.make_archive(str(folder / "course"), "zip", folder, "course")
    shutil.move(folder / "course.zip", root)
    environment = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(OURS) and name not in OURS_TOO
    }
    # pip's cache, because a reader waits for a download once; compiling is done on first import.
    cache = subprocess.run(
        [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True
    )
    python = Path(sys._base_executable).parent
    environment |= {
        "HOME": str(home),
        "PATH": f"{root}/.venv/bin:{python}:/usr/local/bin:/usr/bin:/bin",
        "PIP_CACHE_DIR": cache.stdout.strip(),
        "PIP_NO_COMPILE": "1",
        "JUPYTER_CONFIG_PATH": str(home / "jupyter"),
    }
    return Place(root, environment)


def _files():
    """What git would give a reader, and what it would give once all is committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        pytest.skip("this copy of the course is no git repository, whose files could be told apart")
    return [name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]


def _install(place, line):
    if documented.is_import(line):
        # Away from the course's folder, where the package would be found without being installed.
        place.run(f'python -c "{line}"', cwd=place.environment["HOME"])
    else:
        place.run(line)


def test_every_page_has_lines_and_those_that_install_are_among_them():
    assert len(LINES) > 25
    for pattern in INSTALLING:
        assert installing(pattern), f"no page says any more: {pattern}"
    for pattern in INSTEAD:
        assert any(re.fullmatch(pattern, line) for line in LEFT), f"no page says: {pattern}"


@needs_posix
@pytest.mark.parametrize("line", LEFT)
def test_what_a_page_tells_to_type_works(place, line):
    instead, _ = rule(line)
    if instead == "serve":
        _serve(place, line)
    elif instead == "dry run":
        place.run(line.replace("make ", "make --dry-run ", 1))
    elif instead == "tiny course":
        _on_a_tiny_course(place, line)
    elif documented.is_import(line):
        _install(place, line)
    else:
        place.run(instead.format(line))


def _on_a_tiny_course(place, line):
    with tempfile.TemporaryDirectory(dir=place.root.parent) as folder:
        root = tiny_course.write(Path(folder), first=_with_max_trials())
        for section in sections.sections(root):
            notebook = building.assemble(section.source)
            built.seal(notebook)
            nbformat.write(notebook, section.notebook)
        if "--discard" in line:
            notebook.cells[0].source += "\nMine."
            nbformat.write(notebook, section.notebook)
        # The tooling is not installed: a reader's own lies in the course's folder.
        place.run(line.removeprefix(".venv/bin/"), cwd=root, PYTHONPATH=str(place.root))
        assert building.check(root) == []
        assert ("OWNER/NAME" in line) == ("OWNER/NAME" in (root / "pyproject.toml").read_text())


def _with_max_trials():
    """The text of a section that has the parameter that the pages set."""
    body = tiny_course.SETUP + tiny_course.PARAMETERS + tiny_course.PRINT
    return body.replace("rows", "max_trials")


def _serve(place, line):
    """Start a JupyterLab as typed, ask for its status and its page, and have it end itself."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"port": port, "port_retries": 0, "open_browser": False, "allow_root": True}
    settings |= {"answer_yes": True}
    config = {"ServerApp": settings, "IdentityProvider": {"token": "secret"}}
    sections.write_whole(
        Path(place.environment["JUPYTER_CONFIG_PATH"], "jupyter_server_config.json"),
        json.dumps(config),
    )
    with tempfile.TemporaryFile("w+") as said:
        server = subprocess.Popen(
            ["sh", "-c", f"exec {line}"],
            cwd=place.root,
            env=place.environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            assert "started" in json.loads(_answer(server, port, "/api/status", said))
            assert b"<title>JupyterLab</title>" in _ask(port, "/lab")
            _ask(port, "/api/shutdown", method="POST")
            assert server.wait(60) == 0
        finally:
            _end(server)


def _end(server):
    server.terminate()  # make passes it on, and JupyterLab ends
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _ask(port, address, method="GET"):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{address}",
        headers={"Authorization": "token secret"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


def _answer(server, port, address, said, limit=120):
    end = time.monotonic() + limit
    while time.monotonic() < end and server.poll() is None:
        try:
            return _ask(port, address)
        except OSError:
            time.sleep(0.2)
    said.seek(0)
    raise AssertionError(f"no answer from JupyterLab:\n{said.read()[-3000:]}")


def test_lines_are_told_from_other_code():
    for code in (
        "make course",
        "pip install .",
        "A=1 make x",
        ".ci/run",
        "from a import b",
        "%pip x",
    ):
        assert documented.is_command(code), code
    for code in ("make", "build/site", "usage limits", "A=1", "already in use", "pip's x"):
        assert not documented.is_command(code), code


def test_comments_offer_other_ways():
    block = "# first\na run # all; or: run 01 -p x 3\na e --lang fa --out b   # or: --lang en\n\n"
    assert documented.in_block(block) == [
        *("a run", "a run 01 -p x 3", "a e --lang fa --out b", "a e --lang en --out b")
    ]
    with pytest.raises(AssertionError, match=r"\.venv\\Scripts\\pip is not"):
        documented.in_block("bin/pip install x # on Windows: .venv\\Scripts\\pip")
