"""A notebook alone on a host like Colab, which brings an older Keras and a JAX of its own.

CHAPTER18_HOST_PYTHON names the Python of such a host's virtual environment, without the course;
.ci/run makes one. Each test works in a throw-away copy of it. Keras comes from the registry.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook

from course import building, links, sections

ROOT = Path(__file__).parents[2]
REPOSITORY = "ada/course"
ADDRESS = f"https://github.com/{REPOSITORY}"
HOST = os.environ.get("CHAPTER18_HOST_PYTHON")
pytestmark = pytest.mark.skipif(not HOST, reason="CHAPTER18_HOST_PYTHON is not set")

# What conftest.py, make or the shell of whoever runs the tests may set, and a host does not.
OURS = ("GIT_", "JAX_", "KERAS_", "MPLBACKEND", "NPROC", "PYTEST_", "PYTHON", "VIRTUAL_ENV", "XLA_")
VERSIONS = """
import importlib.metadata, json
print(json.dumps({one.name.lower(): one.version for one in importlib.metadata.distributions()}))
"""
ORIGIN = """
import importlib.metadata
print(importlib.metadata.distribution("chapter18").read_text("direct_url.json"))
"""


class Host(NamedTuple):
    """A host's Python, the variables its kernels find set, and the folder where they work."""

    python: Path
    environment: dict
    folder: Path

    def ask(self, code):
        """The JSON that `code` prints in the host's Python."""
        done = subprocess.run(
            [self.python, "-I", "-c", code],
            env=self.environment,
            capture_output=True,
            timeout=60,
            check=True,
        )
        return json.loads(done.stdout)

    def run(self, notebook):
        """Execute a notebook node in a kernel of its own, which does not outlive the call."""
        client = NotebookClient(
            notebook,
            kernel_name="host",
            timeout=900,
            resources={"metadata": {"path": str(self.folder)}},
        )
        client.execute(env=self.environment)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A git repository of the course as its owner would publish it, with its address stamped."""
    root = tmp_path_factory.mktemp("clone")
    for name in ("pyproject.toml", "README.md", "colab_links.md", "LICENSE"):
        shutil.copy(ROOT / name, root)
    for name in ("chapter18", "notebooks/source"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path, text in links.stamped(root, REPOSITORY).items():
        sections.write_whole(path, text)
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    for command in (["init"], ["add", "--all"], [*who, "commit", "--message", "Publish"]):
        git(root, *command)
    return root


@pytest.fixture
def throw_away():
    """The folder of a fresh copy of the host's environment."""
    environment = Path(HOST).parent.parent
    with tempfile.TemporaryDirectory(dir=environment.parent) as folder:
        # A gigabyte, so linked: pip and Python replace files and never write into old ones.
        shutil.copytree(
            environment, folder, symlinks=True, copy_function=os.link, dirs_exist_ok=True
        )
        yield Path(folder)


@pytest.fixture
def host(throw_away, clone, tmp_path, monkeypatch):
    """A host with nothing of the course, where the clone answers to the address on GitHub."""
    python = throw_away / "bin" / Path(HOST).name
    environment = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
    environment |= {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{clone.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": ADDRESS,
        "KERAS_HOME": str(tmp_path / "keras"),
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # as `run --quick` does
    }
    # Hosts start Keras on TensorFlow; NumPy stands for it, being another backend and at hand.
    sections.write_whole(tmp_path / "keras" / "keras.json", '{"backend": "numpy"}')
    kernel = {
        "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Host",
        "language": "python",
    }
    sections.write_whole(tmp_path / "kernels" / "host" / "kernel.json", json.dumps(kernel))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    folder = tmp_path / "empty"
    folder.mkdir()
    return Host(python, environment, folder)


def git(root, *command):
    environment = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *command],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def first_section(clone):
    """The notebook node of section 1 that the clone publishes."""
    (section,) = sections.sections(clone, ["01"])
    return building.assemble(section.source)


def tagged(notebook, tag):
    (cell,) = (cell for cell in notebook.cells if tag in cell.metadata.get("tags", ()))
    return cell


def setup_cell(clone):
    return new_code_cell(tagged(first_section(clone), "setup").source)


def last_line(cell):
    """The last line that a cell printed."""
    printed = "".join(out.text for out in cell.outputs if out.output_type == "stream")
    return printed.splitlines()[-1]


def release(version):
    return tuple(int(part) for part in version.split(".")[:2])


def refusal(host, *cells):
    """The message that the last of the cells, in one kernel, ends with."""
    notebook = new_notebook(cells=list(cells))
    with pytest.raises(CellExecutionError) as caught:
        host.run(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert caught.value.ename == "RuntimeError"
    return caught.value.evalue


def test_a_lone_notebook_installs_the_course_and_runs_to_its_end(host, clone):
    before = host.ask(VERSIONS)
    assert release(before["keras"]) < (3, 15)
    assert "chapter18" not in before

    notebook = first_section(clone)
    small = notebook.metadata.chapter18.quick
    lines = [f"{name} = {value!r}" for name, value in small.items()]
    tagged(notebook, "parameters").source += "\n".join(["", *lines])
    host.run(notebook)
    assert last_line(tagged(notebook, "setup")).startswith("1 CPU device (")
    assert last_line(tagged(notebook, "completion")).startswith("Section 1 holds")

    after = host.ask(VERSIONS)
    assert release(after["keras"]) >= (3, 15)
    replaced = {name for name, version in before.items() if after.get(name) != version}
    assert replaced == {"keras"}, "what the host brings, JAX above all, stays as it was"
    origin = host.ask(ORIGIN)
    assert origin["url"] == ADDRESS
    assert origin["vcs_info"]["commit_id"] == git(clone, "rev-parse", "HEAD")


def test_keras_imported_first_says_restart_and_a_restart_is_enough(host, clone):
    old = host.ask(VERSIONS)["keras"]
    assert refusal(host, new_code_cell("import keras"), setup_cell(clone)) == (
        "The course needs Keras 3.15 or newer. "
        f"Received: Keras {old}, imported before the upgrade. "
        "Restart the kernel and run the setup cell first."
    )
    again = setup_cell(clone)
    host.run(new_notebook(cells=[again]))
    assert last_line(again).startswith("1 CPU device (")
    # The upgraded Keras, again imported first, has the host's backend.
    assert refusal(host, new_code_cell("import keras"), setup_cell(clone)) == (
        "The course runs Keras on JAX. "
        "Received: Keras imported with the numpy backend. "
        "Restart the kernel and run the setup cell first."
    )


def test_a_jax_that_the_package_excludes_is_kept_and_guarded(host, clone):
    """On a host it is the one with the plugins of the accelerator; what it does wrong is known."""
    excluded = ["jax==0.10.2", "jaxlib==0.10.2"]
    command = [host.python, "-m", "pip", "install", "--quiet", *excluded]
    subprocess.run(command, env=host.environment, timeout=300, check=True)
    before = host.ask(VERSIONS)
    cell = setup_cell(clone)
    # The cell again: whatever stopped it halfway, it goes on from there.
    host.run(new_notebook(cells=[cell, setup_cell(clone)]))
    printed = "".join(out.text for out in cell.outputs if out.output_type == "stream")
    assert "JAX 0.10.2 can sum wrongly on a CPU: guarded" in printed
    after = host.ask(VERSIONS)
    assert release(after["keras"]) >= (3, 15)
    replaced = {name for name, version in before.items() if after.get(name) != version}
    assert replaced == {"keras"}
    assert "keras-tuner" in after


def test_a_setup_that_lost_the_network_halfway_goes_on_from_there(host, clone):
    """The package is there, and nothing that it needs."""
    command = [host.python, "-m", "pip", "install", "--quiet", "--no-deps", f"git+{ADDRESS}"]
    subprocess.run(command, env=host.environment, timeout=300, check=True)
    cell = setup_cell(clone)
    host.run(new_notebook(cells=[cell]))
    assert last_line(cell).startswith("1 CPU device (")
    assert {"keras-tuner", "six"} <= set(host.ask(VERSIONS))
