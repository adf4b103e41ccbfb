"""Find the smallest mesh on which a training step fits a device."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import keras
import pandas as pd

from chapter18 import devices
from chapter18 import mesh as meshes
from chapter18._shared import elsewhere
from chapter18.planning import _planning, _request, hardware
from chapter18.planning._plan import Plan, gigabytes


class SmallestMesh(NamedTuple):
    """The plan on the smallest mesh that fits (None if none does) and every mesh that was tried."""

    plan: Plan | None
    tried: pd.DataFrame

    def __repr__(self):
        found = "none of these meshes fits" if self.plan is None else repr(self.plan)
        return f"{self.tried.to_string(index=False)}\n{found}"


def smallest_mesh(
    build: Callable[[], keras.Model],
    *,
    device: str | hardware.Device,
    batch_size: int,
    layout: str | meshes.Rules = "columns",
    max_devices: int = 64,
    optimizer: Any = "adam",
    loss: Any = "mse",
    metrics: Any = None,
    policy: Any = None,
    sample: Any = None,
    targets: Any = None,
    timeout: float = 600,
) -> SmallestMesh:
    """Return the smallest `data` × `model` mesh on which the step surely fits `device`.

    1, 2, 4, … up to `max_devices` devices are tried; of two meshes with as many, the one with more
    replicas first, since it sends less. A mesh whose exact part alone is too large is not even
    compiled; one that is too close to call does not count as fitting. The other arguments are
    those of `planning.plan`, and so are the errors. Planned in a child process unless JAX has
    `max_devices` devices.

    Raises ValueError when the layout cannot be had on any mesh, and when `batch_size` or
    `max_devices` is no positive integer.
    """
    batch_size = _request.count(batch_size, "batch_size")
    max_devices = _request.count(max_devices, "max_devices")
    device = hardware.device(device)
    request = _request.Request.of(
        *(build, batch_size, layout, optimizer, loss, metrics, policy, sample, targets)
    )
    job = functools.partial(_search, request, device, list(_meshes(max_devices, request)))
    if devices.is_awake() and len(jax.devices()) >= max_devices:
        return job()
    return elsewhere.call(job, devices=max_devices, timeout=timeout)


def _meshes(max_devices, request):
    """Axis sizes to try, the smallest mesh first and the most replicas first."""
    splits_model = request.layout not in ("replicated", "fsdp")
    n = 1
    while n <= max_devices:
        model = 1
        while model <= (n if splits_model else 1):
            if request.batch_size % (n // model) == 0:
                yield {"data": n // model, "model": model}
            model *= 2
        n *= 2


def _search(request, device, meshes):
    rows, refusal = [], None
    for sizes in meshes:
        try:
            plan, fit = _try(request, device, sizes)
        except ValueError as error:
            refusal = error
            rows.append((_name(sizes), "", "the layout does not divide"))
            continue
        rows.append((_name(sizes), gigabytes(plan.exact_bytes), fit.verdict))
        if fit:
            return SmallestMesh(plan, _table(rows))
    if refusal is not None and all(row[1] == "" for row in rows):
        raise refusal
    return SmallestMesh(None, _table(rows))


def _try(request, device, sizes):
    """The plan and its verdict; compiled only if the exact part leaves room."""
    exact = dataclasses.replace(request, estimate=False)
    plan = _planning.plan_on_sizes(exact, sizes)
    if plan.fits(device).verdict != "no":
        plan = _planning.plan_on_sizes(request, sizes)
    return plan, plan.fits(device)


def _name(sizes):
    return " × ".join(f"{axis}={size}" for axis, size in sizes.items())


def _table(rows):
    return pd.DataFrame(rows, columns=["mesh", "exact GB a device", "fits"])
