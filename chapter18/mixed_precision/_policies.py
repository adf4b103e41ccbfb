"""In how many bits each layer of a model computes, and which gradients 16 bits lose."""

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pandas as pd

from chapter18._shared import checks, layers

_BUILT = "Policies and gradients are those of a built Keras model."
_NARROW = ("float16", "bfloat16")


def policy_table(model: keras.Model) -> pd.DataFrame:
    """Return a DataFrame with a row for each layer of the built `model`, nested ones included.

    Columns: `layer` (its path), `class`, `policy`, the dtypes `variables`, `compute` and `output`,
    and `parameters`, counting only what is the layer's own, so that they sum to the model's.
    `float32 for` names what must stay float32 there: "weights" that are trained, and "output"
    where the layer's output is the model's, as it is or after operations that are no layers, such
    as `ops.cast`. `kept` says whether all of it is float32 (or wider), those operations included.

    `variables` lists the floating dtypes of the layer's own variables. `output` is what Keras
    recorded when the layer was called, else the compute dtype. The output layers of a subclassed
    model cannot be told from outside: none is named there.

    Raises TypeError when `model` is not a Keras model, and ValueError when it is not built.
    """
    checks.built(model, rule=_BUILT)
    ends = _ends(model)
    shown = [layer for layer in layers.nested(model) if not _is_input_or_holder(layer)]
    rows = [_row(layer, ends.get(id(layer))) for layer in shown]
    return pd.DataFrame(rows, columns=list(_row(model, None)))


def gradient_underflow(
    model: keras.Model,
    x: Any,
    y: Any,
    scale: float | Sequence[float],
    *,
    sample_weight: Any = None,
) -> pd.DataFrame:
    """Return which gradient entries of one batch are zero when the loss is multiplied by `scale`.

    `x`, `y`, `sample_weight`: one batch as for `fit`, arrays or nests of arrays, such as dicts;
    `scale`: a positive number, or several. The gradients of the compiled loss are taken twice: in
    the model's own dtypes with the loss multiplied by `scale`, as an optimizer with that loss scale
    sees them, and with every layer computing in float32 (operations that are no layers keep the
    dtype that the model gives them). The result is a DataFrame indexed by scale. `entries` counts
    all gradient entries, `zero anyway` those that are exactly zero in float32 too, `lost` those
    that are zero in the model's dtypes only, `not finite` those that overflowed. `lost share` is
    `lost` over the entries that are not zero anyway.

    The model is left untouched: weights, random seeds, metrics and policies.

    Raises TypeError when `model` is not a Keras model, ValueError when it is not built and
    compiled, when its weights are not float32, or when a scale is no positive finite number.
    """
    checks.built(model, rule=_BUILT)
    checks.compiled(model, rule="The gradient is that of a compiled loss.")
    scales = _scales(scale)
    _check_float32_weights(model)
    batch = keras.tree.map_structure(
        lambda leaf: None if leaf is None else jnp.asarray(leaf), (x, y, sample_weight)
    )
    _build_loss(model, *batch)
    own = _gradients(model, *batch)
    values = [variable.value for variable in model.trainable_variables]
    with _computing_in_float32(model):
        exact = _gradients(model, *batch)(values, 1.0)
    rows = [_count(own(values, s), exact) for s in scales]
    return pd.DataFrame(rows, index=pd.Index(scales, name="scale"))


def _row(layer, after):
    """`after`: the dtypes between the layer and an output of the model; None if it gives none."""
    own = layers.own_variables(layer)
    floats = [v for v in own if keras.backend.is_float_dtype(v.dtype)]
    weights = [v for v in floats if v.trainable]
    output = _output_dtype(layer)
    needs = {
        "weights": [v.dtype for v in weights],
        "output": [] if after is None else [output, *after],
    }
    return {
        "layer": layer.path or layer.name,
        "class": type(layer).__name__,
        "policy": layer.dtype_policy.name,
        "variables": ", ".join(sorted({v.dtype for v in floats})),
        "compute": layer.compute_dtype,
        "output": output,
        "parameters": sum(int(np.prod(v.shape)) for v in own if not _is_seed(v)),
        "float32 for": ", ".join(name for name, dtypes in needs.items() if dtypes),
        "kept": not any(dtype in _NARROW for dtypes in needs.values() for dtype in dtypes),
    }


def _is_input_or_holder(layer):
    if isinstance(layer, keras.Model):
        return not layers.own_variables(layer)
    return isinstance(layer, keras.layers.InputLayer)


def _is_seed(variable):
    return variable.dtype == "uint32"


def _output_dtype(layer):
    try:
        dtypes = {tensor.dtype for tensor in keras.tree.flatten(layer.output)}
    except (AttributeError, ValueError):
        return layer.compute_dtype
    return ", ".join(sorted(dtypes))


def _ends(model):
    """Map the ids of the layers that give the model's outputs, going into nested models, to the
    dtypes of the operations behind them; {} for a subclassed model."""
    if isinstance(model, keras.Sequential):
        found = [(layer, set()) for layer in model.layers[-1:]]
    elif hasattr(model, "output_names"):
        found = [pair for tensor in model.outputs for pair in _sources(tensor)]
    else:
        return {}
    ends = {}
    for layer, after in found:
        inner = _ends(layer) if isinstance(layer, keras.Model) else {}
        for end, dtypes in (inner or {id(layer): set()}).items():
            ends[end] = ends.get(end, set()) | dtypes | after
    return ends


def _sources(tensor):
    """The layers that `tensor` comes from by operations alone, each with the dtypes of those."""
    found, dtypes, seen, waiting = [], set(), set(), [tensor]
    while waiting:
        tensor = waiting.pop()
        # Keras has no public way from a tensor to what made it (3.15.1, 3.16.0.dev2026102704).
        operation = tensor._keras_history.operation
        if id(operation) in seen:
            continue
        seen.add(id(operation))
        if isinstance(operation, keras.Layer):
            found.append(operation)
        else:
            dtypes.add(tensor.dtype)
            waiting += keras.tree.flatten(operation.input)
    return [(layer, dtypes) for layer in found]


def _build_loss(model, x, y, sample_weight):
    """Make the variables of the compiled loss, which a traced step would make as tracers."""
    if y is None:
        return
    before = {id(v): v.value for v in model.metrics_variables}
    groups = model.trainable_variables, model.non_trainable_variables
    state = [[variable.value for variable in group] for group in groups]
    predictions, _ = model.stateless_call(*state, x, training=False)
    model.compute_loss(x, y, predictions, sample_weight)
    for metric in model.metrics:
        if not all(id(variable) in before for variable in metric.variables):
            metric.reset_state()
    for variable in model.metrics_variables:
        if id(variable) in before:
            variable.assign(before[id(variable)])


def _gradients(model, x, y, sample_weight):
    """Return a compiled function of (trainable values, loss scale) to the gradients."""
    fixed = [variable.value for variable in model.non_trainable_variables]
    metrics = [variable.value for variable in model.metrics_variables]
    slots = [variable.value for variable in model.optimizer.variables]

    def scaled_loss(trainable, scale):
        state = trainable, fixed, metrics
        _, (loss, *_) = model.compute_loss_and_updates(
            *state, x, y, sample_weight, training=True, optimizer_variables=slots
        )
        return loss * scale

    return jax.jit(jax.grad(scaled_loss))


@contextlib.contextmanager
def _computing_in_float32(model):
    every = layers.every(model)
    before = [layer.dtype_policy for layer in every]
    try:
        for layer in every:
            layer.dtype_policy = "float32"
        yield
    finally:
        for layer, policy in zip(every, before, strict=True):
            layer.dtype_policy = policy


def _count(own, exact):
    zero, zero_anyway, finite = (
        np.concatenate([np.ravel(test(np.asarray(g, "float32"))) for g in gradients])
        for test, gradients in ((_is_zero, own), (_is_zero, exact), (np.isfinite, own))
    )
    lost = int((zero & ~zero_anyway).sum())
    return {
        "entries": zero.size,
        "zero anyway": int(zero_anyway.sum()),
        "lost": lost,
        "not finite": int((~finite).sum()),
        "lost share": lost / max(1, int((~zero_anyway).sum())),
    }


def _is_zero(gradient):
    return gradient == 0


def _scales(scale):
    scales = [float(s) for s in np.atleast_1d(scale)]
    if not scales or not all(np.isfinite(s) and s > 0 for s in scales):
        raise ValueError(
            "A loss scale is a positive finite number. "
            f"Received: scale={scale!r}. Pass for example 2.0**15, or several scales."
        )
    return scales


def _check_float32_weights(model):
    for variable in model.trainable_variables:
        if variable.dtype in _NARROW:
            raise ValueError(
                "Loss scaling is for 16-bit gradients of float32 weights. "
                f"Received: {variable.path!r} in {variable.dtype}. "
                f"Build the model under mixed_{variable.dtype}."
            )
