"""A child is ended whole: with its children, those of a session of their own, and the orphans."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from child import all_end

from chapter18._shared import children

# Three sleepers: one as it comes, one with a session and an empty environment, and one that a
# process in between leaves behind as an orphan.
_FAMILY = """
import json, os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(120)"]
between = (
    "import subprocess, sys;"
    "print(subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL).pid)"
)
few = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
quiet = {"stdout": subprocess.DEVNULL}
near = subprocess.Popen(sleep, **quiet)
away = subprocess.Popen(sleep, start_new_session=True, env=few, **quiet)
orphan = subprocess.run([sys.executable, "-c", between, *sleep], stdout=subprocess.PIPE)
print(json.dumps([os.getpid(), near.pid, away.pid, int(orphan.stdout)]), flush=True)
"""


def _started(child):
    return json.loads(child.stdout.readline())


def test_a_family_is_ended_whole():
    command = [sys.executable, "-c", _FAMILY + "time.sleep(120)"]
    with children.Child(command, stdout=subprocess.PIPE) as child:
        pids = _started(child)
        assert all(map(children.is_running, pids))
    assert all_end(pids)
    assert child.returncode != 0


def test_whoever_outlives_a_child_is_ended_too():
    code = _FAMILY + "away.kill(); away.wait()"
    done = children.run([sys.executable, "-c", code], timeout=60, stderr=subprocess.DEVNULL)
    assert done.returncode == 0
    assert all_end(json.loads(done.stdout))


def test_a_child_of_a_child_belongs_to_both():
    code = """
import subprocess, sys, time
from chapter18._shared.children import Child
inner = Child([sys.executable, "-c", "import time; time.sleep(120)"])
print([inner.pid], flush=True)
time.sleep(120)
"""
    with children.Child([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        pids = _started(child)
        # Killed as a crash would, so that only the mark tells whose the other one is.
        child.kill()
        child.wait()
        assert children.is_running(pids[0])
    assert all_end(pids)


def test_a_limit_ends_it(tmp_path):
    code = (
        f"import pathlib, time; pathlib.Path({str(tmp_path / 'here')!r}).touch(); time.sleep(120)"
    )
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        children.run([sys.executable, "-c", code], timeout=1)
    assert time.monotonic() - began < 60


def test_what_has_ended_keeps_its_exit_code():
    with children.Child([sys.executable, "-c", "raise SystemExit(7)"]) as child:
        assert child.wait(60) == 7
    assert child.returncode == 7
    child.end()


def test_text_is_utf_8_whatever_the_system_has():
    code = "import sys; print('فارسی'); print('×', file=sys.stderr)"
    environment = os.environ | {"LC_ALL": "C", "PYTHONIOENCODING": ""}
    done = children.run([sys.executable, "-c", code], timeout=60, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "فارسی\n", "×\n")


def test_a_path_may_stand_in_a_command(tmp_path):
    script = tmp_path / "a b.py"
    script.write_text("print(1)", encoding="utf-8")
    assert children.run([Path(sys.executable), script], timeout=60).stdout == "1\n"


def test_a_command_that_does_not_exist_is_an_error():
    with pytest.raises(FileNotFoundError):
        children.run(["no-such-command"], timeout=1)


def test_a_free_port_is_none_that_the_kernel_hands_out():
    ports = {children.free_port() for _ in range(20)}
    assert len(ports) > 10
    for port in ports:
        assert port < 32_768
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


def test_no_free_port_is_an_error(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(children, "_PORTS", [port] * 100)
        with pytest.raises(OSError, match=r"port of this machine must be free\. Received: none"):
            children.free_port()
