"""The helper that other tests trust with their child processes."""

import re

import pytest
from child import all_end, run_child


def test_a_child_sees_its_arguments_and_devices():
    code = "import sys, jax\nprint(sys.argv[1:], jax.device_count())"
    assert run_child(code, "a", 3, devices=3) == "['a', '3'] 3\n"


def test_an_exit_code_and_stderr_are_reported():
    with pytest.raises(AssertionError, match=r"exit code 3(?s:.*)last words"):
        run_child("import sys\nprint('last words', file=sys.stderr)\nsys.exit(3)", devices=0)


def test_a_warning_is_an_error():
    with pytest.raises(AssertionError, match="UserWarning: careless"):
        run_child("import warnings\nwarnings.warn('careless')", devices=0)


STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
print(child.pid, flush=True)
time.sleep(120)
"""


def test_a_child_and_its_children_are_killed_after_their_time():
    seconds = 3
    while True:
        with pytest.raises(AssertionError, match=f"after {seconds} s, killed") as failure:
            run_child(STUBBORN, devices=0, timeout=seconds)
        if numbers := re.findall(r"(?m)^(\d+)$", str(failure.value)):
            break
        seconds *= 2  # a busy machine: it was killed before it could start another
    assert all_end(map(int, numbers))
