"""A tuning cluster on one machine: Keras Tuner's chief and its workers as real processes."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
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


def run_cluster(
    script: os.PathLike | str,
    *,
    workers: int = 2,
    timeout: float = 300.0,
    arguments: Iterable[str | int | float | os.PathLike] = (),
    environment: Mapping[str, str] | None = None,
) -> list[ClusterProcess]:
    """Run the Python file `script` as a chief and `workers` workers on this machine.

    Returns a list of `ClusterProcess`, the chief first. Each process finds in its environment
    `KERASTUNER_TUNER_ID` ("chief", "worker_1", …), `KERASTUNER_ORACLE_IP` and
    `KERASTUNER_ORACLE_PORT`, the same three that are set on a real cluster; `arguments` follow the
    script on its command line, `environment` adds variables. Raises `TimeoutError` after `timeout`
    seconds and `RuntimeError` when a process fails; every process is killed first. Raises
    `FileNotFoundError` without a script, `ValueError` without a worker.
    """
    if not Path(script).is_file():
        raise FileNotFoundError(
            f"`script` must be a Python file. Received: {Path(script)}. "
            "Write the search to a file first."
        )
    rule = "A cluster needs at least one worker."
    workers = checks.positive_integer(workers, "workers", rule=rule, remedy="Pass workers=2.")
    command = [sys.executable, *map(str, (Path(script), *arguments))]
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        folder, running = Path(temporary), {}
        shared = _variables(folder, workers) | dict(environment or {})
        for name in ("chief", *(f"worker_{number}" for number in range(1, workers + 1))):
            running[name] = stack.enter_context(_start(command, name, shared, folder))
        _wait(running, timeout, folder)
        return [
            ClusterProcess(name, process.returncode, _output(folder, name))
            for name, process in running.items()
        ]


def meet() -> None:
    """Wait, in a worker of `run_cluster`, until every worker has come to this point.

    Keras Tuner's chief leaves when the workers that it knows have nothing left to do, and a worker
    that asks for its first trial after that waits for an hour.
    """
    name = os.environ.get("KERASTUNER_TUNER_ID", "chief")
    if _MEETING not in os.environ or name == "chief":
        return
    folder = Path(os.environ[_MEETING])
    (folder / f"{name}.here").touch()
    while len(list(folder.glob("*.here"))) < int(os.environ[_WORKERS]):
        time.sleep(_POLL_SECONDS)


def _variables(folder, workers):
    return {
        **os.environ,
        "KERASTUNER_ORACLE_IP": "127.0.0.1",
        "KERASTUNER_ORACLE_PORT": str(free_port()),
        _MEETING: str(folder),
        _WORKERS: str(workers),
    }


def _start(command, name, shared, folder):
    with (folder / name).open("wb") as output:
        return Child(
            command,
            env=shared | {"KERASTUNER_TUNER_ID": name},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _wait(running, timeout, folder):
    deadline = time.monotonic() + timeout
    while waiting := [name for name, process in running.items() if process.poll() is None]:
        if any(process.poll() for process in running.values()):
            break
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"A cluster must finish in time. Received: {', '.join(waiting)} still running "
                f"after {timeout:g} s. Search less or allow more time. "
                f"Last lines:\n{_last_lines(folder, waiting[-1])}"
            )
        time.sleep(_POLL_SECONDS)
    for name, process in running.items():
        if process.poll():
            raise RuntimeError(
                f"Every process of a cluster must end with exit code 0. Received: "
                f"{process.returncode} from {name}. Repair what its last lines say:\n"
                f"{_last_lines(folder, name)}"
            )


def _output(folder, name):
    return (folder / name).read_text(encoding="utf-8", errors="replace")


def _last_lines(folder, name):
    return "\n".join(_output(folder, name).strip().splitlines()[-12:])
