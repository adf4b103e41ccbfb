"""Run code in a fresh Python process that has its own devices, and that cannot outlive its limit.

Importing Keras and JAX costs a child about five seconds, so put many cases into one.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# `-c` puts the working directory, which is ROOT, first on the path; tests/ follows for helpers.
# Warnings are what pytest's own options in pyproject.toml make of them.
_STARTER = """\
import builtins, pathlib, runpy, sys, tomllib, warnings
options = tomllib.loads(pathlib.Path("pyproject.toml").read_text("utf-8"))["tool"]["pytest"]
for line in options["ini_options"]["filterwarnings"]:
    action, message, category = line.split(":") if ":" in line else (line, "", "Warning")
    warnings.filterwarnings(action, message, getattr(builtins, category))
target, devices = sys.argv[1], int(sys.argv[2])
sys.argv[:] = [target, *sys.argv[3:]]
sys.path.insert(1, "tests")
if devices:
    from chapter18.devices import use
    use(devices)
if target.endswith(".py"):
    runpy.run_path(target, run_name="__main__")
else:
    exec(compile(target, "<child>", "exec"), {"__name__": "__main__"})
"""


def run_child(code_or_path, *args, devices=8, timeout=300, env=None):
    """Run a scenario in a child process and return what it printed on stdout.

    `code_or_path` is Python source, or the path of a script (a name without a folder is looked up
    in tests/); `args` become `sys.argv[1:]` as text. The child has `devices` devices, awake before
    the scenario starts; with `devices=0` it chooses for itself. Its warnings are errors, but for
    those that pytest is told to ignore, and `env` adds environment variables to this process's.

    Raises AssertionError, with the end of stderr, when the child exits with anything but 0, and
    when it needs more than `timeout` seconds: then it and its own children got SIGKILL, because
    JAX catches SIGTERM.
    """
    given = [_target(code_or_path), devices, *args]
    child = subprocess.Popen(
        [sys.executable, "-c", _STARTER, *(str(argument) for argument in given)],
        cwd=ROOT,
        env=os.environ | {"KERAS_BACKEND": "jax", "MPLBACKEND": "agg"} | (env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    ending = f"after {timeout} s, killed"
    try:
        out, err = child.communicate(timeout=timeout)
        ending = f"with exit code {child.returncode}"
    except subprocess.TimeoutExpired:
        _kill(child)
        out, err = child.communicate()
    finally:
        _kill(child)
    assert child.returncode == 0, f"The child ended {ending}.\n{out[-2000:]}\n{err[-6000:]}"
    return out


def _target(code_or_path):
    text = os.fspath(code_or_path)
    if "\n" in text or not text.endswith(".py"):
        return text
    path = Path(text)
    return str(path if path.parent.name else ROOT / "tests" / path)


def _kill(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def all_end(pids, limit=30):
    """Whether none of the processes is left after at most `limit` seconds (Linux only).

    SIGKILL is only sent when `kill` returns: the kernel ends the process a moment later.
    """
    end = time.monotonic() + limit
    while any(map(_is_running, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(_is_running, pids))


def _is_running(pid):
    """A killed orphan may stay as a zombie where nothing reaps it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
