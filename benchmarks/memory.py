"""How much memory this process has ever held."""

from pathlib import Path


def peak_bytes():
    """Return the peak resident size of this process, in bytes (Linux).

    Not `resource.getrusage`: its `ru_maxrss` passes through `exec`, so a child of a large process
    starts with the peak of its parent.
    """
    lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(kilobytes) * 1024
