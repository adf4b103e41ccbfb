"""Run code in a fresh Python process that has its own devices, and that cannot outlive its limit.

Importing Keras and JAX costs a child about five seconds, so put many cases into one.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from chapter18._shared.children import Child, is_running

ROOT = Path(__file__).resolve().parent.parent

# `-c` puts the working directory, which is ROOT, first on the path; the folders of the tests, as
# pytest has put them on this process's path, follow for helpers.
# Warnings are what pytest's own options in pyproject.toml make of them.
_STARTER = """\
import builtins, os, pathlib, runpy, sys, tomllib, warnings
options = tomllib.loads(pathlib.Path("pyproject.toml").read_text("utf-8"))["tool"]["pytest"]
for line in options["ini_options"]["filterwarnings"]:
    action, message, category = line.split(":") if ":" in line else (line, "", "Warning")
    warnings.filterwarnings(action, message, getattr(builtins, category))
target, devices, helpers = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(os.pathsep)
sys.argv[:] = [target, *sys.argv[4:]]
sys.path[1:1] = helpers
if devices:
    from chapter18.devices import use
    use(devices)
if target.endswith(".py"):
    runpy.run_path(target, run_name="__main__")
else:
    exec(compile(target, "<child>", "exec"), {"__name__": "__main__"})
"""


def run_child(code_or_path, *args, devices=8, timeout=300, env=None, python=sys.executable):
    """Run a scenario in a child process and return what it printed on stdout.

    `code_or_path` is Python source, or the path of a script (a name without a folder is looked up
    beside the tests that run); `args` become `sys.argv[1:]` as text. The child has `devices`
    devices, awake before the scenario starts; with `devices=0` it chooses for itself. Its warnings
    are errors, but for those that pytest is told to ignore. `env` adds environment variables to
    this process's; None takes one away. `python` may be that of another environment.

    Raises AssertionError, with the end of stderr, when the child exits with anything but 0, and
    when it needs more than `timeout` seconds: then it and its own children were killed.
    """
    given = [_target(code_or_path), devices, os.pathsep.join(_helpers()), *args]
    environment = os.environ | {"KERAS_BACKEND": "jax", "MPLBACKEND": "agg"} | (env or {})
    with Child(
        [python, "-c", _STARTER, *(str(argument) for argument in given)],
        cwd=ROOT,
        env={name: value for name, value in environment.items() if value is not None},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as child:
        ending = f"after {timeout} s, killed"
        try:
            out, err = child.communicate(timeout=timeout)
            ending = f"with exit code {child.returncode}"
        except subprocess.TimeoutExpired:
            child.end()
            out, err = child.communicate()
    assert child.returncode == 0, f"The child ended {ending}.\n{out[-2000:]}\n{err[-6000:]}"
    return out


def _helpers():
    """The folders of the tests on this process's path."""
    tests = str(ROOT / "tests")
    return [folder for folder in sys.path if folder.startswith(tests)]


def _target(code_or_path):
    text = os.fspath(code_or_path)
    if "\n" in text or not text.endswith(".py") or Path(text).parent.name:
        return text
    return next(str(path) for path in (Path(f) / text for f in _helpers()) if path.is_file())


def all_end(pids, limit=30):
    """Whether none of the processes is left after at most `limit` seconds."""
    end = time.monotonic() + limit
    while any(map(is_running, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(is_running, pids))
