"""Whether a step fits a device: yes, no, or too close to call."""

from typing import NamedTuple

from chapter18.planning import hardware

# How far off an estimate of the temporaries may be. A compiler of the device's own kind knows its
# buffers but not the allocator's gaps. Another kind's hardly bounds them: compiled for a TPU, the
# same steps took from 0 to 0.5 times what they took on a CPU (`python -m benchmarks.planning`).
_OWN, _FOREIGN = (0.9, 1.1), (0.0, 1.5)


class Fit(NamedTuple):
    """A verdict ("yes", "no" or "too close to call") and the bytes per device behind it.

    The step needs between `low` and `high` bytes (`high` is None where nothing was compiled).
    JAX takes `usable` bytes of the device by default, and the device has `memory` bytes.
    """

    verdict: str
    device: str
    low: int
    high: int | None
    usable: int
    memory: int

    def __bool__(self):
        return self.verdict == "yes"

    def __repr__(self):
        least, most = gigabytes(self.low), "?" if self.high is None else gigabytes(self.high)
        return (
            f"{self.verdict}: the step needs {least} to {most} GB a device; "
            f"{self.device} has {gigabytes(self.memory)} GB, of which "
            f"{gigabytes(self.usable)} GB are usable by default"
        )


def judge(exact, estimate, device) -> Fit:
    """Return the `Fit` of a step that keeps `exact` bytes per device, on `device`.

    `estimate` is a `compiling.Estimate`, or None. "yes" means that even the high end fits into
    what JAX takes by default, "no" that even the low end is more than the device has.
    """
    device = hardware.device(device)
    low, high = exact, None
    if estimate is not None:
        own = estimate.platform == device.kind
        least, most = _OWN if own else _FOREIGN
        moving = estimate.temporaries + (estimate.padding if own else 0)
        low, high = exact + int(least * moving), exact + int(most * moving)
    usable = int(device.usable * device.memory_bytes)
    if low > device.memory_bytes:
        verdict = "no"
    elif high is not None and high <= usable:
        verdict = "yes"
    else:
        verdict = "too close to call"
    return Fit(verdict, device.name, low, high, usable, device.memory_bytes)


def gigabytes(number):
    """`number` of bytes as text in GB (10⁹ bytes), to three significant digits."""
    return f"{number / 10**9:#.3g}".rstrip(".")
