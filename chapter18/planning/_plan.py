"""What a plan of a training step holds, how it reads, and whether it fits a device."""

import math
from typing import NamedTuple

import pandas as pd

from chapter18.planning import hardware
from chapter18.planning._estimate import Estimate
from chapter18.planning._step import PlannedArray

_GROUPS = {
    "parameters": "parameters",
    "optimizer": "optimizer state",
    "metrics": "metrics",
    "inputs": "inputs",
}

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


class Plan(NamedTuple):
    """A training step that was planned and never run; all bytes and FLOPs are those of one device.

    `mesh` maps axes to sizes, `batch_size` is the global one and `parameters` counts the model's
    weights. `arrays` is exact: it lists what stays on the devices between steps, and the batch.
    `estimate` is what the compiler named there expects; None where it was not asked.
    """

    mesh: dict[str, int]
    data_axis: str
    layout: str
    policy: str
    compute_dtype: str
    batch_size: int
    parameters: int
    arrays: tuple[PlannedArray, ...]
    estimate: Estimate | None

    @property
    def devices(self) -> int:
        """The number of devices of the mesh."""
        return math.prod(self.mesh.values())

    @property
    def replicas(self) -> int:
        """Into how many parts a batch is split."""
        return self.mesh[self.data_axis]

    @property
    def parameter_bytes(self) -> int:
        """Exact: all variables of the model, BatchNorm's averages and Dropout's seeds included."""
        return self._bytes("parameters")

    @property
    def optimizer_bytes(self) -> int:
        """Exact: the optimizer's slots and counters, the loss scale included."""
        return self._bytes("optimizer")

    @property
    def metric_bytes(self) -> int:
        """Exact: the state of the loss tracker and of the compiled metrics."""
        return self._bytes("metrics")

    @property
    def input_bytes(self) -> int:
        """Exact: one device's part of one batch of inputs and targets."""
        return self._bytes("inputs")

    @property
    def exact_bytes(self) -> int:
        """Exact: parameters, optimizer state, metrics and inputs."""
        return sum(array.bytes_per_device for array in self.arrays)

    @property
    def gradient_bytes(self) -> int:
        """What data parallelism must sum in a step: as many bytes as the trainable variables."""
        return sum(array.bytes_per_device for array in self.arrays if array.trainable)

    def fits(self, device: str | hardware.Device) -> Fit:
        """Whether the step fits `device`: a `Fit` with "yes", "no" or "too close to call".

        `device` is a name in `hardware.DEVICES` or a `hardware.Device`.
        """
        return judge(self.exact_bytes, self.estimate, device)

    def require(self, device: str | hardware.Device) -> "Plan":
        """Return the plan itself; raise MemoryError when the step does not fit `device`.

        Call it between planning and building, and a model that is too large is named before
        anything is allocated. A case that is too close to call passes.
        """
        fit = self.fits(device)
        if fit.verdict == "no":
            largest = max(self.arrays, key=lambda array: array.bytes_per_device)
            raise MemoryError(
                f"A training step must fit the memory of its device. Received: {fit}. "
                f"The largest array is {largest.path!r}, {largest.bytes_per_device:,} bytes a "
                "device. Split it over more devices (planning.smallest_mesh), use a smaller "
                "policy or optimizer, or a smaller batch."
            )
        return self

    def table(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each array: where it is split, and its bytes."""
        return pd.DataFrame(self.arrays)

    def __repr__(self):
        rows = [(name, self._bytes(group), "exact") for group, name in _GROUPS.items()]
        if self.estimate is not None:
            rows += self._estimated_rows()
        lines = [self._title()]
        lines += [f"  {name:<20} {_number(value):>20}  {how}" for name, value, how in rows]
        if self.estimate is not None and self.estimate.refusal:
            lines.append(f"  the compiler refuses: it {self.estimate.refusal}")
        return "\n".join(lines)

    def _title(self):
        mesh = " × ".join(f"{name}={size}" for name, size in self.mesh.items())
        return (
            f"Plan: {self.parameters:,} parameters on {mesh}, layout {self.layout}, "
            f"{self.policy}, batch {self.batch_size:,}; bytes of one device in one step"
        )

    def _estimated_rows(self):
        by = f"estimate, {self.estimate.compiler}"
        rows = [("temporaries", self.estimate.temporaries, by)]
        if self.estimate.padding:
            rows.append(("padding", self.estimate.padding, by))
        if self.estimate.collectives is not None:
            rows.append(("sent to others", self.estimate.collective_bytes, by))
        if self.estimate.flops is not None:
            rows.append(("FLOPs", self.estimate.flops, by))
        return rows

    def _bytes(self, group):
        return sum(array.bytes_per_device for array in self.arrays if array.group == group)


def _number(value):
    return f"{value:,.0f}"


def judge(exact, estimate, device):
    """Return the `Fit` of a step that keeps `exact` bytes per device, on `device`.

    `estimate` is an `Estimate`, or None. "yes" means that even the high end fits into
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
