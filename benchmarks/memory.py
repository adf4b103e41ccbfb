"""How much memory this process has ever held."""

from pathlib import Path

import psutil

_STATUS = Path("/proc/self/status")


def peak_bytes():
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
