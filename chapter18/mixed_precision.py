"""In how many bits each layer of a model computes, and which gradients 16 bits lose."""

import contextlib

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pandas as pd

_NARROW = ("float16", "bfloat16")


def policy_table(model):
    """Return a DataFrame with a row for each layer of the built `model`, nested ones included.

    Columns: `layer` (its path), `class`, `policy`, the dtypes `variables`, `compute` and `output`,
    and `parameters`, counting only what is the layer's own, so that they sum to the model's.
    `float32 for` names what must stay float32 there: "weights" that are trained, and "output"
    where the layer's output is the model's. `kept` says whether all of it is float32 (or wider).

    `variables` lists the floating dtypes of the layer's own variables. `output` is what Keras
    recorded when the layer was called, else the compute dtype. The output layers of a subclassed
    model cannot be told from outside: none is named there.

    Raises TypeError when `model` is not a Keras model, and ValueError when it is not built.
    """
    _check_built(model)
    ends = {id(layer) for layer in _output_layers(model)}
    layers = [
        layer for layer in nested_layers(model) if not isinstance(layer, keras.layers.InputLayer)
    ]
    rows = [_row(layer, id(layer) in ends) for layer in layers if not _only_holds_layers(layer)]
    return pd.DataFrame(rows, columns=list(_row(model, False)))


def gradient_underflow(model, x, y, scale):
    """Return which gradient entries of one batch are zero when the loss is multiplied by `scale`.

    `x`, `y`: one batch as for `fit`; `scale`: a positive number, or several. The gradients of the
    compiled loss are taken twice: in the model's own dtypes with the loss multiplied by `scale`,
    as an optimizer with that loss scale sees them, and with every layer computing in float32. The
    result is a DataFrame indexed by scale. `entries` counts all gradient entries, `zero anyway`
    those that are exactly zero in float32 too, `lost` those that are zero in the model's dtypes
    only, `not finite` those that overflowed. `lost share` is `lost` over the entries that are not
    zero anyway.

    The model is left untouched: weights, random seeds, metrics and policies.

    Raises TypeError when `model` is not a Keras model, ValueError when it is not built and
    compiled, when its weights are not float32, or when a scale is no positive finite number.
    """
    _check_built(model)
    scales = _scales(scale)
    if not model.compiled:
        raise ValueError(
            "The gradient is that of a compiled loss. "
            f"Received: {model.name!r}, not compiled. Call model.compile(…) first."
        )
    _check_float32_weights(model)
    own = _gradients(model, x, y)
    values = [variable.value for variable in model.trainable_variables]
    with _computing_in_float32(model):
        exact = _gradients(model, x, y)(values, 1.0)
    rows = [_count(own(values, s), exact) for s in scales]
    return pd.DataFrame(rows, index=pd.Index(scales, name="scale"))


def nested_layers(layer):
    """Return every layer inside `layer`, at any depth, in the order in which Keras holds them.

    A layer that is used twice is named once.
    """
    found = {}
    # Keras has no public way to the layers inside a layer.
    for inner in layer._layers:
        found |= {id(inner): inner} | {id(nested): nested for nested in nested_layers(inner)}
    return list(found.values())


def _row(layer, is_output):
    own = _own_variables(layer)
    floats = [v for v in own if keras.backend.is_float_dtype(v.dtype)]
    weights = [v for v in floats if v.trainable]
    output = _output_dtype(layer)
    needs = {"weights": [v.dtype for v in weights], "output": [output] if is_output else []}
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


def _only_holds_layers(layer):
    return isinstance(layer, keras.Model) and not _own_variables(layer)


def _own_variables(layer):
    nested = {id(variable) for inner in nested_layers(layer) for variable in inner.variables}
    return [variable for variable in layer.variables if id(variable) not in nested]


def _is_seed(variable):
    return variable.dtype == "uint32"


def _output_dtype(layer):
    try:
        dtypes = {tensor.dtype for tensor in keras.tree.flatten(layer.output)}
    except (AttributeError, ValueError):
        return layer.compute_dtype
    return ", ".join(sorted(dtypes))


def _output_layers(model):
    """The layers whose outputs are the model's, going into nested models; [] if unknown."""
    if isinstance(model, keras.Sequential):
        ends = model.layers[-1:]
    elif hasattr(model, "output_names"):
        ends = [model.get_layer(name) for name in model.output_names]
    else:
        return []
    found = []
    for layer in ends:
        found += _output_layers(layer) or [layer] if isinstance(layer, keras.Model) else [layer]
    return found


def _gradients(model, x, y):
    """Return a compiled function of (trainable values, loss scale) to the gradients."""
    x, y = keras.tree.map_structure(jnp.asarray, (x, y))
    fixed = [variable.value for variable in model.non_trainable_variables]
    metrics = [variable.value for variable in model.metrics_variables]
    slots = [variable.value for variable in model.optimizer.variables]

    def scaled_loss(trainable, scale):
        _, (loss, *_) = model.compute_loss_and_updates(
            trainable, fixed, metrics, x, y, None, training=True, optimizer_variables=slots
        )
        return loss * scale

    return jax.jit(jax.grad(scaled_loss))


@contextlib.contextmanager
def _computing_in_float32(model):
    layers = [model, *nested_layers(model)]
    before = [layer.dtype_policy for layer in layers]
    try:
        for layer in layers:
            layer.dtype_policy = "float32"
        yield
    finally:
        for layer, policy in zip(layers, before, strict=True):
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


def _check_built(model):
    if not isinstance(model, keras.Model):
        raise TypeError(
            "Policies and gradients are those of a Keras model. "
            f"Received: {type(model).__name__}. Pass a keras.Model."
        )
    if not model.built:
        raise ValueError(
            "The model must be built, or it has no variables yet. "
            f"Received: {model.name!r}, not built. Call it on a batch first."
        )
