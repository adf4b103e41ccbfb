"""What `tests/no_posix` takes away is gone, below too; children are still started and ended."""

import os
import sys
from pathlib import Path

import pytest

from chapter18._shared import children

TESTS = Path(__file__).parents[1]

GONE = """
import multiprocessing, os, signal, subprocess, sys
names = [hasattr(os, "fork"), hasattr(os, "killpg"), hasattr(signal, "SIGKILL")]
try:
    import fcntl
except ModuleNotFoundError:
    names.append(multiprocessing.get_all_start_methods())
with open(sys.argv[1], "w", encoding="utf-8") as file:
    try:
        os.remove(sys.argv[1])
    except PermissionError:
        names.append("open")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
child.kill()  # the standard library's own way stays
child.wait()
print(names)
if len(sys.argv) == 2:
    command = [sys.executable, "-c", sys.orig_argv[2], *sys.argv[1:], "below"]
    print(subprocess.check_output(command, encoding="utf-8"), end="")
"""

PLAN = """
from chapter18 import tuning
from chapter18._shared import elsewhere
print(elsewhere.call(int, devices=1, timeout=100))
print(tuning.run_cluster(__import__("sys").argv[1], workers=1)[1].exit_code)
"""


@pytest.fixture
def without():
    """The environment of a process that has nothing of POSIX."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS / "no_posix"), *sys.path])}


@pytest.mark.skipif(sys.platform == "win32", reason="there is nothing to take away")
def test_names_are_gone_from_a_process_and_from_what_it_starts(without, tmp_path):
    command = [sys.executable, "-c", GONE, tmp_path / "a"]
    done = children.run(command, timeout=60, env=without)
    assert (done.returncode, done.stderr) == (0, "")
    line = "[False, False, False, ['spawn'], 'open']\n"
    assert done.stdout == line + line


def test_children_are_ended_without_posix(without, tmp_path):
    (tmp_path / "script.py").write_text("print('here')", encoding="utf-8")
    command = [sys.executable, "-c", PLAN, tmp_path / "script.py"]
    done = children.run(command, timeout=200, env=without, cwd=TESTS.parent)
    assert (done.returncode, done.stdout) == (0, "0\n0\n"), done.stderr
