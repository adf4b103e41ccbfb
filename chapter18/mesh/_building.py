"""Device meshes, and models built straight into a layout that has been checked first."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import keras
import pandas as pd

from chapter18._shared import abstract, checks
from chapter18.mesh import _layouts


def make_mesh(
    *, devices: Iterable[Any] | None = None, **axes: int
) -> keras.distribution.DeviceMesh:
    """Return a `keras.distribution.DeviceMesh` with the named axes, in the order given.

    `make_mesh(data=2, model=4)` arranges eight devices in two rows of four. A lone `model` axis
    gets a `data` axis of size 1 in front, since batches must be split along one. `devices` are
    all of this run's devices unless given (names such as "cpu:0", or `jax.Device`).

    Raises ValueError when an axis is not a positive integer, when there are none, or when their
    product is not the number of devices.
    """
    if not axes:
        raise ValueError(
            "A mesh has at least one axis. Received: none. "
            "Write for example make_mesh(data=2, model=4)."
        )
    axes = {"data": 1} | axes if set(axes) == {"model"} else axes
    axes = {
        name: checks.positive_integer(
            size,
            name,
            rule="The size of a mesh axis is a positive integer.",
            remedy="Write for example make_mesh(data=2, model=4).",
        )
        for name, size in axes.items()
    }
    devices = keras.distribution.list_devices() if devices is None else list(devices)
    if math.prod(axes.values()) != len(devices):
        sizes = " × ".join(f"{name}={size}" for name, size in axes.items())
        raise ValueError(
            "The axes of a mesh multiply to the number of its devices. "
            f"Received: {sizes} for {len(devices)} devices. Change an axis, pass some of "
            "keras.distribution.list_devices() as devices=, or ask for more with devices.use "
            "after a restart."
        )
    return keras.distribution.DeviceMesh(tuple(axes.values()), list(axes), devices)


def build(
    build: Callable[[], keras.Model],
    sample: Any,
    layout: str | _layouts.Rules,
    *,
    mesh: keras.distribution.DeviceMesh,
    data_axis: str = "data",
) -> keras.Model:
    """Return the model of `build()`, each variable allocated where `layout` puts it.

    `layout` is a scheme's name ("columns", "megatron", "fsdp", "replicated") or a dict of rules
    from regular expressions, which must match a whole path, to specs such as `(None, "model")`.
    Paths count Keras' automatic names from the beginning, however often this runs. `build`
    creates and returns the model uncompiled; `sample` is a batch it can be called with, of which
    only shape and dtype are read. What initializers give is made in shards, whatever one device
    holds; values that `build` assigns (loaded weights, `set_weights`, an adapted Normalization)
    wait on the host, after one at a time was whole on a device, and arrive to the bit. On return
    the model's distribution is Keras' global one, as training needs it;
    `keras.distribution.set_distribution(None)` ends that.

    Before anything is allocated, and with the global distribution as it was, raises what `resolve`
    raises for a layout; TypeError when `sample` has no shapes or `build` returns no model;
    ValueError when a sample is missing; RuntimeError when `build` makes a variable from a value.
    Raises ValueError, too, when `build` returns variables that were allocated earlier.
    """

    def allocated(model):
        specs = _layouts.resolve(model, mesh, layout)
        distribution = _layouts.distribution(mesh, specs, data_axis=data_axis)
        keras.distribution.set_distribution(distribution)
        abstract.allocate()
        _check_placed(model, mesh, specs)
        abstract.assign()
        return model, distribution

    model, distribution = abstract.build(build, sample, allocated)
    keras.distribution.set_distribution(distribution)
    return model


def sharding_table(model: keras.layers.Layer | keras.optimizers.Optimizer) -> pd.DataFrame:
    """Return a DataFrame with a row for each variable of `model`, and where its bytes are.

    Columns: `path`, `shape`, `spec` (mesh axis or None for each axis of the shape), `bytes` of the
    whole variable, `bytes_per_device` (of the fullest device) and `replicated` (every device holds
    all of it). Works for anything with `variables`: a layer, an optimizer.
    """
    columns = ["path", "shape", "spec", "bytes", "bytes_per_device", "replicated"]
    return pd.DataFrame([_row(v) for v in model.variables], columns=columns)


def _row(variable):
    value = variable.value
    shape = tuple(value.shape)
    spec = tuple(getattr(value.sharding, "spec", ()))
    spec += (None,) * (len(shape) - len(spec))
    shard = math.prod(value.sharding.shard_shape(shape)) * value.dtype.itemsize
    return variable.path, shape, spec, value.nbytes, shard, value.sharding.is_fully_replicated


def _check_placed(model, mesh, specs):
    for variable in model.variables:
        wanted = keras.distribution.TensorLayout(specs[variable.path], mesh).backend_layout
        if not variable.value.sharding.is_equivalent_to(wanted, len(variable.shape)):
            raise ValueError(
                "build() must create the whole model each time it is called. "
                f"Received: a model whose variable {variable.path!r} was allocated before. "
                "Move what creates it into build()."
            )
