"""A tuning cluster on one machine: Keras Tuner's chief and its workers as real processes."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from chapter18._shared import checks
from chapter18._shared.children import Child, free_port

_POLL_SECONDS = 0.1
_MEETING, _WORKERS = "CHAPTER18_CLUSTER_MEETING", "CHAPTER18_CLUSTER_WORKERS"


class ClusterProcess(NamedTuple):
    """One process of a cluster that finished: its id, exit code, and what it printed."""

    tuner_id: str
    exit_code: int
    output: str


def run_cluster(script, *, workers=2, timeout=300.0, arguments=(), environment=None):
    """Run the Python file `script` as a chief and `workers` workers on this machine.

    Returns a list of `ClusterProcess`, the chief first. Each process finds in its environment
    `KERASTUNER_TUNER_ID` ("chief", "worker_1", …), `KERASTUNER_ORACLE_IP` and
    `KERASTUNER_ORACLE_PORT`, the same three that are set on a real cluster; `arguments` follow the
    script on its command line, `environment` adds variables. Raises `TimeoutError` after `timeout`
    seconds and `RuntimeError` when a process fails; every process is killed first.
    """
    script = Path(script)
    workers = _check(script, workers)
    with tempfile.TemporaryDirectory() as folder:
        running = {}
        with contextlib.ExitStack() as stack:
            shared = _variables(folder, workers, environment)
            for name in ("chief", *(f"worker_{number}" for number in range(1, workers + 1))):
                command = [sys.executable, str(script), *map(str, arguments)]
                child = _start(command, name, shared, Path(folder))
                running[name] = stack.enter_context(child)
            _wait(running, time.monotonic() + timeout, timeout, Path(folder))
        return [
            ClusterProcess(name, process.returncode, _output(Path(folder), name))
            for name, process in running.items()
        ]


def meet():
    """Wait, in a worker of `run_cluster`, until every worker has come to this point.

    Anywhere else it returns at once. Call it before the first trial: Keras Tuner's chief leaves
    when the workers that it knows have nothing left to do, and a worker that asks for its first
    trial after that waits for an hour.
    """
    name = os.environ.get("KERASTUNER_TUNER_ID", "chief")
    if _MEETING not in os.environ or name == "chief":
        return
    folder = Path(os.environ[_MEETING])
    (folder / f"{name}.here").touch()
    while len(list(folder.glob("*.here"))) < int(os.environ[_WORKERS]):
        time.sleep(_POLL_SECONDS)


def _check(script, workers):
    if not script.is_file():
        raise FileNotFoundError(
            f"`script` must be a Python file. Received: {script}. Write the search to a file first."
        )
    rule = "A cluster needs at least one worker."
    return checks.positive_integer(workers, "workers", rule=rule, remedy="Pass workers=2.")


def _variables(folder, workers, environment):
    return {
        **os.environ,
        "KERASTUNER_ORACLE_IP": "127.0.0.1",
        "KERASTUNER_ORACLE_PORT": str(free_port()),
        _MEETING: folder,
        _WORKERS: str(workers),
        **(environment or {}),
    }


def _start(command, name, shared, folder):
    with (folder / name).open("wb") as output:
        return Child(
            command,
            env={**shared, "KERASTUNER_TUNER_ID": name},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _wait(running, deadline, timeout, folder):
    while any(process.poll() is None for process in running.values()):
        failed = [name for name, process in running.items() if process.poll()]
        if failed:
            break
        if time.monotonic() > deadline:
            waiting = [name for name, process in running.items() if process.poll() is None]
            raise TimeoutError(
                f"A cluster must finish in time. Received: {', '.join(waiting)} still running "
                f"after {timeout:g} s. Search less or allow more time. "
                f"Last lines:\n{_tail(_output(folder, waiting[-1]))}"
            )
        time.sleep(_POLL_SECONDS)
    for name, process in running.items():
        if process.poll():
            raise RuntimeError(
                f"Every process of a cluster must end with exit code 0. Received: "
                f"{process.returncode} from {name}. Repair what its last lines say:\n"
                f"{_tail(_output(folder, name))}"
            )


def _output(folder, name):
    return (folder / name).read_text(encoding="utf-8", errors="replace")


def _tail(text, lines=12):
    return "\n".join(text.strip().splitlines()[-lines:])
