"""Training with matrix products in float8: what becomes float8, what is scaled and remembered.

    report = float8.convert(model, "adam", loss="mse")
    model.fit(x, y)
    float8.scales_table(model)

Keras rounds the inputs and the kernel of a product to float8 e4m3 and the gradient of its output
to e5m2, each divided by a scale of its own that comes from the largest values of past steps
(delayed scaling, arXiv:2209.05433). Weights, sums and everything else stay as they were.
"""

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import keras
import ml_dtypes
import numpy as np
import pandas as pd

from chapter18._shared import checks, layers

_TENSORS = {"inputs": "float8_e4m3fn", "kernel": "float8_e4m3fn", "outputs_grad": "float8_e5m2"}


def convert(
    model: keras.Model,
    optimizer: str | keras.optimizers.Optimizer | None = None,
    *,
    filters: str | Sequence[str] | Callable[[keras.layers.Layer], bool] | None = None,
    **compile_options: Any,
) -> pd.DataFrame:
    """Let the built `model` compute its dense products in float8, before training or amid it.

    Conversion adds variables, which a used optimizer would not know: pass `optimizer`, a new one
    or a name, and the model is compiled with it and `compile_options`. Without, it is left as it
    is compiled. `filters` chooses layers as in `model.quantize`. Weights are kept.

    Attention does not reload from a `.keras` file after this (Keras 3.15 and 3.16): use
    `checkpoints.restore` with a `build` that makes the model and converts it.

    Returns a DataFrame with a row for each layer that has weights: `layer` (its path), `class`,
    `parameters`, `float8` (whether its products are float8 now), how many numbers it has
    `remembered` for that, and its `policy`.

    Raises TypeError when `model` is not a Keras model, and ValueError when it is not built, has
    quantized or LoRA layers, when no layer can be converted, when the optimizer accumulates
    gradients or has been used. The model is then as it was.
    """
    _check_model(model)
    optimizer = keras.optimizers.get(optimizer) if optimizer is not None else None
    _check_optimizer(optimizer or (model.compiled and model.optimizer))
    if optimizer:
        # What Keras refuses here must not be refused after the conversion.
        keras.Sequential(name="compiled").compile(optimizer, **compile_options)
    with warnings.catch_warnings():
        # One for each layer that stays as it is; the table names them.
        warnings.simplefilter("ignore")
        model.quantize("float8", filters=filters, **_quiet(model))
    _check_converted(model)
    if optimizer:
        model.compile(optimizer, **compile_options)
    return pd.DataFrame([_row(layer) for layer in _leaves(model) if layer.count_params()])


def scales_table(model: keras.Model) -> pd.DataFrame:
    """Return a DataFrame with what each float8 layer scales and remembers: three rows a layer.

    Columns: `layer`, `tensor`, `format`, `scale` (what the tensor is divided by before it is
    rounded, and multiplied with after), `largest` (absolute value in the history), `limit` (the
    largest value that passes unclipped, scale × the format's largest number) and `steps` (length
    of the history). Before the first step scales are 1 and histories 0.

    Raises ValueError when no layer is float8.
    """
    converted = [layer for layer in _leaves(model) if _is_float8(layer)]
    rows = [_scale_row(layer, tensor) for layer in converted for tensor in _TENSORS]
    if not rows:
        raise ValueError(
            "Scales are those of float8 layers. "
            f"Received: {model.name!r}, which has none. Call float8.convert first."
        )
    return pd.DataFrame(rows)


def _quiet(model):
    # Keras 3.16 prints a report unless told otherwise; 3.15 knows no such option. Can go with 3.15.
    known = "verbose" in inspect.signature(model.quantize).parameters
    return {"verbose": False} if known else {}


def _row(layer):
    # Scales and histories are trainable by name only: each step overwrites them.
    extra = [v for v in layer.variables if v.overwrite_with_gradient]
    return {
        "layer": layer.path,
        "class": type(layer).__name__,
        "parameters": layer.count_params() - sum(_size(variable) for variable in extra),
        "float8": _is_float8(layer),
        "remembered": sum(_size(variable) for variable in extra),
        "policy": layer.dtype_policy.name,
    }


def _scale_row(layer, tensor):
    scale = float(getattr(layer, f"{tensor}_scale").value)
    history = getattr(layer, f"{tensor}_amax_history").value
    largest_number = float(ml_dtypes.finfo(_TENSORS[tensor]).max)
    return {
        "layer": layer.path,
        "tensor": "gradient of the output" if tensor == "outputs_grad" else tensor,
        "format": _TENSORS[tensor],
        "scale": scale,
        "largest": float(history.max()),
        "limit": scale * largest_number,
        "steps": len(history),
    }


def _leaves(model):
    """The layers that hold no others, which are those that Keras converts."""
    return [layer for layer in layers.nested(model) if not layers.inside(layer)]


def _is_float8(layer):
    return isinstance(layer.dtype_policy, keras.dtype_policies.QuantizedFloat8DTypePolicy)


def _size(variable):
    return int(np.prod(variable.shape))


def _check_model(model):
    checks.built(model, rule="What is converted to float8 is a built Keras model.")
    for layer in _leaves(model):
        quantized = layer.dtype_policy.quantization_mode is not None
        if quantized or getattr(layer, "lora_enabled", False):
            raise ValueError(
                "Float8 starts from plain layers. "
                f"Received: {layer.path!r}, {layer.dtype_policy.name if quantized else 'LoRA'}. "
                "Build the model anew and load its float weights."
            )


def _check_optimizer(optimizer):
    if not optimizer:
        return
    _check_accumulation(optimizer)
    if optimizer.built:
        raise ValueError(
            "Converted layers have variables that a used optimizer does not know. "
            f"Received: {type(optimizer).__name__} after {int(optimizer.iterations)} updates. "
            "Pass a new one."
        )


def _check_accumulation(optimizer):
    steps = getattr(optimizer, "inner_optimizer", optimizer).gradient_accumulation_steps
    if steps:
        raise ValueError(
            "Float8 does not go with gradient accumulation: what Keras 3.15 saves of such a "
            "training it cannot load again. "
            f"Received: gradient_accumulation_steps={steps}. Use larger batches instead."
        )


def _check_converted(model):
    if not any(map(_is_float8, _leaves(model))):
        classes = sorted({type(layer).__name__ for layer in _leaves(model)})
        raise ValueError(
            "Keras converts Dense and EinsumDense layers (and attention, made of them) to float8. "
            f"Received: a model of {', '.join(classes)}, none of them chosen. "
            "Keep its policy, or change filters."
        )
