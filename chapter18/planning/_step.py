"""Everything that a training step holds and takes, with shapes and shardings but no arrays."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import keras

from chapter18 import mesh as meshes
from chapter18._shared import abstract

_GROUPS = (("parameters", True), ("parameters", False), ("optimizer", False), ("metrics", False))


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How to make an optimizer, a loss or a metric anew; it travels between processes."""

    kind: type
    config: dict

    @classmethod
    def of(cls, thing):
        """The recipe of `thing`, or itself if it is a name or a function."""
        keeps = not isinstance(thing, type) and hasattr(thing, "get_config")
        return cls(type(thing), thing.get_config()) if keeps else thing


@dataclasses.dataclass(frozen=True)
class Shape:
    """The shape and the dtype of one array of a batch, the first axis being samples."""

    shape: tuple[int, ...]
    dtype: str


class PlannedArray(NamedTuple):
    """One array of the step: what it is part of, its path, shape, dtype and spec.

    `spec` names, for each axis, the mesh axis it is split along, or None; `bytes_per_device` are
    those of one device's shard. `trainable` is true of what the optimizer updates.
    """

    group: str
    trainable: bool
    path: str
    shape: tuple[int, ...]
    dtype: str
    spec: tuple[Any, ...]
    bytes_per_device: int


class TrainingState(NamedTuple):
    """One training step and its arguments, all of them abstract (`jax.ShapeDtypeStruct`).

    `step(state, data)` is Keras' own training step; `parameters` counts the model's weights.
    """

    step: Callable
    state: tuple
    data: tuple
    arrays: tuple[PlannedArray, ...]
    parameters: int


def of(model, request, mesh):
    """Return the `TrainingState` of `model`, which has shapes but no arrays, on `mesh`.

    Call it where `abstract.build` calls `then`. Where the `_request.Request` has no targets, they
    are what the loss takes for the model's outputs. Raises what `mesh.resolve` raises.
    """
    inputs = _tensors(request.sample or _own_inputs(model, request.batch_size))
    with abstract.scope():
        outputs = model(inputs)
    if request.targets is None:
        targets = _targets(model, request.loss, outputs)
    else:
        targets = _tensors(request.targets)
    # Optimizers give their counters a value at once; traced, it takes no memory.
    jax.eval_shape(lambda: _compile(model, request))
    _build_losses(model, inputs, targets, outputs)
    specs = meshes.resolve(model, mesh, request.layout)
    distribution = meshes.distribution(mesh, specs, data_axis=request.data_axis)
    keras.distribution.set_distribution(distribution)
    # JAX remembers what it traced, so each of these must be a new function. Slots copy their
    # variable's layout, which it gets together with its value.
    jax.eval_shape(lambda: abstract.allocate())
    jax.eval_shape(lambda: model.optimizer.build(model.trainable_variables))
    return _state(model, (inputs, targets), distribution)


def _own_inputs(model, batch_size):
    """The inputs that a functional model declares, for `batch_size` samples."""
    inputs = [Shape((batch_size, *tensor.shape[1:]), tensor.dtype) for tensor in model.inputs]
    if any(None in shape.shape for shape in inputs):
        raise ValueError(
            "A plan needs the length of every axis. "
            f"Received: a model whose inputs are {[t.shape for t in model.inputs]}. "
            "Pass sample=, a batch with the lengths you mean."
        )
    return inputs[0] if len(inputs) == 1 else inputs


def _compile(model, request):
    model.compile(
        optimizer=_made(request.optimizer),
        loss=keras.tree.map_structure(_made, request.loss),
        metrics=keras.tree.map_structure(_made, request.metrics),
    )


def _made(thing):
    return thing.kind.from_config(thing.config) if isinstance(thing, Recipe) else thing


def _build_losses(model, inputs, targets, outputs):
    def build(x, y, y_pred):
        # Regularisers read the weights, which here are zeros that only tracing sees.
        zeros = [(v, keras.ops.zeros(v.shape, v.dtype)) for v in model.variables]
        with keras.StatelessScope(state_mapping=zeros, initialize_variables=False):
            model.compute_loss(x, y, y_pred)
            model.compute_metrics(x, y, y_pred)

    jax.eval_shape(build, *map(_arrays, (inputs, targets, outputs)))


def _state(model, data, distribution):
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([_variable(v, distribution) for v in group] for group in groups)
    data = keras.tree.map_structure(lambda leaf: _batch(leaf, distribution), data)
    arrays = [
        _planned(kind, variable.path, array)
        for kind, group, structs in zip(_GROUPS, groups, state, strict=True)
        for variable, array in zip(group, structs, strict=True)
    ]
    for name, part in zip(("x", "y"), data, strict=True):
        arrays += [_planned(("inputs", False), name, array) for array in keras.tree.flatten(part)]
    return TrainingState(model.train_step, state, data, tuple(arrays), model.count_params())


def _variable(variable, distribution):
    sharding = distribution.get_variable_layout(variable).backend_layout
    return jax.ShapeDtypeStruct(variable.shape, variable.dtype, sharding=sharding)


def _batch(leaf, distribution):
    sharding = distribution.get_data_layout(leaf.shape).backend_layout
    # Keras hands float64 and int64 batches to JAX, which narrows them unless told otherwise.
    return jax.ShapeDtypeStruct(
        leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype), sharding=sharding
    )


def _planned(kind, path, array):
    shape = tuple(array.shape)
    spec = tuple(array.sharding.spec) + (None,) * (len(shape) - len(array.sharding.spec))
    size = math.prod(array.sharding.shard_shape(shape)) * array.dtype.itemsize
    return PlannedArray(*kind, path, shape, array.dtype.name, spec, size)


def _tensors(shapes):
    return keras.tree.map_structure(lambda leaf: keras.KerasTensor(leaf.shape, leaf.dtype), shapes)


def _arrays(tensors):
    return keras.tree.map_structure(lambda t: jax.ShapeDtypeStruct(t.shape, t.dtype), tensors)


def _targets(model, loss, outputs):
    """What `loss` takes beside `outputs`: class numbers if it is sparse, else the same shape."""
    if isinstance(loss, dict):
        named = outputs if isinstance(outputs, dict) else _by_name(model, outputs)
        return {name: _target(one, named[name]) for name, one in loss.items()}
    if isinstance(loss, list | tuple):
        pairs = zip(loss, keras.tree.flatten(outputs), strict=True)
        return [_target(one, output) for one, output in pairs]
    return keras.tree.map_structure(lambda output: _target(loss, output), outputs)


def _by_name(model, outputs):
    return dict(zip(model.output_names, keras.tree.flatten(outputs), strict=True))


def _target(loss, output):
    name = getattr(loss, "kind", loss)
    name = name if isinstance(name, str) else getattr(name, "__name__", "")
    if name.lower().startswith("sparse"):
        return keras.KerasTensor(output.shape[:-1], "int32")
    return keras.KerasTensor(output.shape, keras.config.floatx())
