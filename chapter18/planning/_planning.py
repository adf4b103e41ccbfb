"""Plan a training step: compiled, never run, nothing allocated, no trace left."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np

from chapter18 import devices
from chapter18 import mesh as meshes
from chapter18._shared import abstract, elsewhere, isolation
from chapter18.planning import _estimate, _request, _step
from chapter18.planning._plan import Plan

# Without these, libtpu asks the network which TPU it runs on, and complains at length.
_NO_TPU_HERE = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_MIN_LOG_LEVEL": "3",
    "TPU_STDERR_LOG_LEVEL": "3",
}


def plan(
    build: Callable[[], keras.Model],
    *,
    mesh: keras.distribution.DeviceMesh | dict[str, int],
    batch_size: int,
    layout: str | meshes.Rules = "replicated",
    optimizer: Any = "adam",
    loss: Any = "mse",
    metrics: Any = None,
    policy: Any = None,
    sample: Any = None,
    targets: Any = None,
    data_axis: str = "data",
    target: str | None = None,
    estimate: bool = True,
    timeout: float = 600,
) -> Plan:
    """Return the `Plan` of one training step of the model that `build()` returns, uncompiled.

    `mesh` is a `keras.distribution.DeviceMesh`, or axis sizes such as `{"data": 2, "model": 4}`
    for devices that need not exist; `layout` a scheme's name or rules, as for `mesh.build`.
    `batch_size` is the global one. `optimizer`, `loss` and `metrics` are as for `compile`, and
    none of them is touched; `policy` is the current dtype policy unless given.

    `sample` is a batch of inputs, `targets` one of targets; only shapes and dtypes are read. The
    model must be given a sample unless its inputs are fixed (a functional or Sequential model with
    `keras.Input`, several inputs as a list). Targets are inferred from the loss unless given.

    `estimate=False` asks no compiler: only the exact part, in a fraction of the time. `target`
    names a TPU slice to compile for without having it, such as "v5e:2x4" (extra `tpu-plan`).

    Nothing is allocated and nothing is left behind: names, random numbers, policy and distribution
    stay as they were. A mesh with more devices than JAX has, a JAX that is still asleep, and a
    `target` are planned in a child process, with `timeout` seconds to do it: `build` must then be
    able to travel by cloudpickle, as a function of a notebook or of an importable module does.

    Raises ValueError for a mesh, a batch or a target that cannot be, or a model with an open axis
    and no sample; ImportError for a target without libtpu; what `mesh.build` raises for its
    layout. In a child process also TypeError when something cannot travel there, TimeoutError, and
    RuntimeError with its last words when it dies.
    """
    sizes = _request.sizes_of(mesh, data_axis)
    batch = _request.batch(batch_size, sizes[data_axis])
    request = _request.Request.of(
        *(build, batch, layout, optimizer, loss, metrics, policy, sample, targets),
        data_axis=data_axis,
        estimate=estimate,
    )
    if target is not None:
        _request.check_target(target, sizes)
        job = functools.partial(_plan_for_target, request, sizes, target)
        return elsewhere.call(job, devices=1, timeout=timeout, environment=_NO_TPU_HERE)
    if isinstance(mesh, keras.distribution.DeviceMesh):
        return _plan_here(request, mesh)
    job = functools.partial(plan_on_sizes, request, sizes)
    n = math.prod(sizes.values())
    if devices.is_awake() and len(jax.devices()) >= n:
        return job()
    return elsewhere.call(job, devices=n, timeout=timeout)


def _plan_here(request, mesh):
    """Plan in this process, on devices that exist (or that a topology describes)."""
    policy = keras.dtype_policies.get(request.policy)

    def then(model):
        state = _step.of(model, request, mesh)
        guess = _estimate.compile_step(state, mesh) if request.estimate else None
        return state.arrays, state.parameters, guess

    with isolation.random_numbers_kept():
        arrays, parameters, guess = abstract.build(
            request.build, request.sample, then, policy=policy
        )
    return Plan(
        mesh=dict(zip(mesh.axis_names, mesh.shape, strict=True)),
        data_axis=request.data_axis,
        layout=request.layout if isinstance(request.layout, str) else "rules",
        policy=policy.name,
        compute_dtype=policy.compute_dtype,
        batch_size=request.batch_size,
        parameters=parameters,
        arrays=arrays,
        estimate=guess,
    )


def plan_on_sizes(request, sizes):
    """Return the `Plan` of a `Request` on this process's first devices."""
    shape = tuple(sizes.values())
    some = np.array(jax.devices()[: math.prod(shape)]).reshape(shape)
    return _plan_here(request, _mesh(sizes, some))


def _plan_for_target(request, sizes, target):
    from jax.experimental import mesh_utils, topologies

    described = topologies.get_topology_desc(target, "tpu").devices
    shape = tuple(sizes.values())
    placed = mesh_utils.create_device_mesh(shape, described, allow_split_physical_axes=True)
    return _plan_here(request, _mesh(sizes, placed))


def _mesh(sizes, placed):
    return keras.distribution.DeviceMesh(placed.shape, list(sizes), placed)
