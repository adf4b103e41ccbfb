"""Child processes that can be ended whole, on every system, with all that they started themselves.

A process group would do on POSIX only, and would miss whoever opened a session of its own, as
Jupyter's kernels do. So each child carries a mark in its environment, which its own children
inherit, and psutil finds by it whoever is left.
"""

import contextlib
import os
import random
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

_MARKS = "CHAPTER18_FAMILIES"
_LIMIT_SECONDS = 30
_STATUS = Path("/proc/self/status")
# Below what a kernel hands out to those who ask for any port: 32768 on Linux, more elsewhere.
_PORTS = range(20_000, 32_000)


class Child(subprocess.Popen):
    """A process that was started by `command`, and that no `with` block or `end()` leaves alive.

    The options are those of `subprocess.Popen`. Signals from the keyboard go to this process only,
    and a child in Python reads and prints UTF-8, also where that is not the system's encoding.
    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ):
        self._mark = uuid.uuid4().hex
        env = {"PYTHONUTF8": "1"} | dict(os.environ if env is None else env)
        env[_MARKS] = f"{env.get(_MARKS, '')} {self._mark}".strip()
        # POSIX heeds the first and takes only 0 for the second, Windows the other way round.
        options |= {"start_new_session": True}
        options |= {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
        super().__init__([os.fspath(part) for part in command], env=env, **options)

    def __exit__(self, *error):
        self.end()
        super().__exit__(*error)

    def end(self) -> None:
        """Kill the process and all that it started, and return when none of them runs.

        It cannot be refused: JAX, for one, catches gentler signals. What has ended already keeps
        its exit code.
        """
        descendants = self._descendants()
        self.kill()
        self.wait()
        deadline = time.monotonic() + _LIMIT_SECONDS
        # Whoever was being started during a round is found in the next one.
        while (left := [*descendants, *self._marked()]) and time.monotonic() < deadline:
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            descendants = [process for process in left if is_running(process.pid)]
            time.sleep(0.01)

    def _descendants(self):
        """Those below it now: some may have thrown the mark away with their environment."""
        with contextlib.suppress(psutil.Error):
            # Nobody else has the number of a process that nobody has waited for.
            return psutil.Process(self.pid).children(recursive=True) if self.poll() is None else []
        return []

    def _marked(self):
        marked = []
        for process in psutil.process_iter():
            # Neither a zombie nor another user's process shows its environment.
            with contextlib.suppress(psutil.Error, OSError):
                if self._mark in process.environ().get(_MARKS, "").split():
                    marked.append(process)
        return marked


def run(
    command: Sequence[str | os.PathLike[str]], *, timeout: float, **options: Any
) -> subprocess.CompletedProcess:
    """Run the command to its end and return its exit code and what it printed, as UTF-8 text.

    The options are those of `subprocess.Popen`. Nothing that it started outlives the call. Raises
    subprocess.TimeoutExpired after `timeout` seconds.
    """
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    options = pipes | {"encoding": "utf-8", "errors": "replace"} | options
    with Child(command, **options) as child:
        out, err = child.communicate(timeout=timeout)
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def is_running(pid: int) -> bool:
    """Whether a process has this number and is no zombie, which a killed orphan may stay."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def free_port() -> int:
    """Return a TCP port of this machine that nobody uses, for a process that will bind it later.

    It is none of those that the kernel hands out, so that no other connection takes it meanwhile.
    Raises OSError when a hundred tries find none.
    """
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(
        "A port of this machine must be free. "
        f"Received: none among 100 of {_PORTS}. End what listens on them."
    )


def peak_bytes() -> int:
    """Return the peak resident size of this process, in bytes (Linux and Windows).

    Not `resource.getrusage`: its `ru_maxrss` passes through `exec`, so a child of a large process
    starts with the peak of its parent. Raises OSError on other systems.
    """
    if not _STATUS.exists():
        return _peak_on_windows()
    lines = _STATUS.read_text("ascii", "replace").splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(kilobytes) * 1024


def _peak_on_windows():
    memory = psutil.Process().memory_info()
    if not hasattr(memory, "peak_wset"):
        raise OSError(
            "The peak of a process is read on Linux and Windows. Received: neither of them. "
            "Measure it there."
        )
    return memory.peak_wset
