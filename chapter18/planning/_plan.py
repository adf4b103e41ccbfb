"""What a plan of a training step holds, and how it reads."""

import math
from typing import NamedTuple

import pandas as pd

from chapter18.planning import _estimate, _fitting

_GROUPS = {
    "parameters": "parameters",
    "optimizer": "optimizer state",
    "metrics": "metrics",
    "inputs": "inputs",
}


class Plan(NamedTuple):
    """A training step that was planned and never run; all bytes and FLOPs are those of one device.

    `mesh` maps axes to sizes, `batch_size` is the global one and `parameters` counts the model's
    weights. `arrays` is exact: it lists what stays on the devices between steps, and the batch.
    `estimate` is what the compiler named there expects; None where it was not asked.
    """

    mesh: dict
    data_axis: str
    layout: str
    policy: str
    compute_dtype: str
    batch_size: int
    parameters: int
    arrays: tuple
    estimate: _estimate.Estimate | None

    @property
    def devices(self):
        """The number of devices of the mesh."""
        return math.prod(self.mesh.values())

    @property
    def replicas(self):
        """Into how many parts a batch is split."""
        return self.mesh[self.data_axis]

    @property
    def parameter_bytes(self):
        """Exact: all variables of the model, BatchNorm's averages and Dropout's seeds included."""
        return self._bytes("parameters")

    @property
    def optimizer_bytes(self):
        """Exact: the optimizer's slots and counters, the loss scale included."""
        return self._bytes("optimizer")

    @property
    def metric_bytes(self):
        """Exact: the state of the loss tracker and of the compiled metrics."""
        return self._bytes("metrics")

    @property
    def input_bytes(self):
        """Exact: one device's part of one batch of inputs and targets."""
        return self._bytes("inputs")

    @property
    def exact_bytes(self):
        """Exact: parameters, optimizer state, metrics and inputs."""
        return sum(array.bytes_per_device for array in self.arrays)

    @property
    def gradient_bytes(self):
        """What data parallelism must sum in a step: as many bytes as the trainable variables."""
        return sum(array.bytes_per_device for array in self.arrays if array.trainable)

    def fits(self, device) -> _fitting.Fit:
        """Whether the step fits `device`: a `Fit` with "yes", "no" or "too close to call".

        `device` is a name in `hardware.DEVICES` or a `hardware.Device`.
        """
        return _fitting.judge(self.exact_bytes, self.estimate, device)

    def require(self, device):
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
                "device. Split it over more devices (sizing.smallest_mesh), use a smaller "
                "policy or optimizer, or a smaller batch."
            )
        return self

    def table(self):
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
