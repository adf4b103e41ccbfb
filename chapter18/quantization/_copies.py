"""A second model that predicts as the first, to be changed without touching it."""

import contextlib
import warnings
from typing import NamedTuple

import keras
import numpy as np

from chapter18._shared import abstract, checks, derived_state, isolation, layers
from chapter18.quantization import _absmax, _following

TRAINING = ("fit", "train_on_batch")
# What float predictions agree to, in dB, when their sums are rounded in another order.
ROUNDING_FLOOR = 40.0


class Copy(NamedTuple):
    """A copied `model`, and the `outputs` of both on the probe batch: a list of arrays."""

    model: keras.Model
    outputs: list


def copy(model, probe, *, build=None):
    """Return a `Copy` of `model`, proven: on the batch `probe` both predict the same bits.

    The copy is made from the configuration of the model and its layers, or by `build()`, and gets
    the weights, the states of the random generators, and what layers derived from data, as an
    adapted Normalization did. Under a distribution it is laid out by that, and the two may differ
    by rounding. It has no optimizer; if `model` was
    compiled, it is compiled for `evaluate` with the same loss and metrics, unless they are
    functions that Keras cannot serialise. Nothing of `model` changes, nor do Keras' automatic
    names or its seeds for new layers count on.

    Raises ValueError when `model` is not built, is not on the devices of the active distribution,
    cannot be copied from its configuration, or when the copy has other layers, other weights or
    other predictions.
    """
    check_built(model)
    _check_placed(model, keras.distribution.distribution())
    expected = outputs(model, probe)
    anew = build or (lambda: _from_config(model))
    distribution = _following.distribution_for(model, anew, probe)

    def make():
        keras.config.set_dtype_policy(model.dtype_policy)
        keras.distribution.set_distribution(distribution)
        twin = anew()
        if not twin.built:
            outputs(twin, probe)
        _copy_state(model, twin)
        _compile(model, twin)
        return twin

    # A Keras layer draws the seeds of its initializers from Python's own generator.
    with isolation.random_numbers_kept():
        twin = abstract.isolated(make)
    _check_outputs(model, expected, outputs(twin, probe))
    return Copy(twin, expected)


def check_built(model):
    """Raise TypeError unless `model` is a Keras model, ValueError unless it has its weights."""
    checks.built(model, rule="A model is copied once it has weights.")


def outputs(model, probe):
    """Return what `model` predicts for the batch `probe`: a list of NumPy arrays, its outputs.

    Computed without training and without a trace: no variable and no compiled function changes.
    """
    # Keras takes a nest of tensors, not one in which some are NumPy arrays.
    tensors = keras.tree.map_structure(_tensor, probe)
    with keras.StatelessScope():
        predicted = model(tensors, training=False)
    return [np.array(keras.ops.convert_to_numpy(leaf)) for leaf in keras.tree.flatten(predicted)]


def _tensor(leaf):
    return None if leaf is None else keras.ops.convert_to_tensor(leaf)


def is_from_keras(kind):
    """Whether the class `kind` is one of Keras' own."""
    return kind.__module__.split(".")[0] == "keras"


def first_difference(mine, theirs):
    """Return in words where two lists first differ, or "" when they do not."""
    for a, b in zip(mine, theirs, strict=False):
        if a != b:
            return f"{a} against {b}"
    if len(mine) != len(theirs):
        return f"their number, {len(mine)} against {len(theirs)}"
    return ""


def refuse_training(model):
    """Make training `model` one clear error, before anything of it changes."""
    for name in TRAINING:
        setattr(model, name, _refusal(model.name, name))


def _refusal(model_name, method):
    def refuse(*_, **__):
        raise RuntimeError(
            "A quantized model is for inference: its integer kernels have no gradient. "
            f"Received: {method}() of {model_name!r}. "
            "Train the float model, and quantize a copy of it again."
        )

    return refuse


def _from_config(model):
    classes = {type(layer).__name__: type(layer) for layer in layers.every(model)}
    own = {name: each for name, each in classes.items() if not is_from_keras(each)}
    try:
        with keras.saving.custom_object_scope(own):
            return type(model).from_config(model.get_config())
    except Exception as error:
        raise ValueError(
            "A copy is made from the configuration of the model and of its layers. "
            f"Received: {model.name!r} ({type(model).__name__}), which cannot be made from it: "
            f"{type(error).__name__}: {_first_line(error)}. Let every layer of your own return "
            "its arguments from get_config, or pass build=, the function that makes the model."
        ) from error


def _first_line(error):
    return str(error).strip().split("\n")[0][:200]


def _copy_state(model, twin):
    kinds, other = ([type(each).__name__ for each in layers.every(m)] for m in (model, twin))
    shapes, others = ([(*v.shape, v.dtype) for v in m.variables] for m in (model, twin))
    if kinds != other or shapes != others:
        raise ValueError(
            "A copy has the layers and the weights of its original. "
            f"Received: {model.name!r} and a copy that differs first in "
            f"{first_difference(kinds, other) or first_difference(shapes, others)}. "
            "Pass build=, the function that makes the model."
        )
    for variable, same in zip(model.variables, twin.variables, strict=True):
        # A true copy: two models on one buffer lose it when either trains and donates it.
        same.assign(np.array(variable.value))
    derived_state.put_back(twin, derived_state.read(model))


def _compile(model, twin):
    if not model.compiled:
        return
    kept = ("loss", "loss_weights", "metrics", "weighted_metrics", "run_eagerly")
    # A loss that Keras cannot serialise can still be given to compile() afterwards.
    with warnings.catch_warnings(), contextlib.suppress(TypeError, ValueError):
        warnings.simplefilter("ignore", UserWarning)
        config = model.get_compile_config()
        given = {name: keras.saving.deserialize_keras_object(config[name]) for name in kept}
        twin.compile(optimizer=None, **given)


def _check_placed(model, distribution):
    if distribution is None:
        return
    devices = set(distribution.device_mesh.backend_mesh.devices.flat)
    for variable in model.variables:
        if variable.value.sharding.device_set != devices:
            raise ValueError(
                "Under a distribution, a model is copied that was made under it. "
                f"Received: {model.name!r}, whose variable {variable.path!r} is on "
                f"{len(variable.value.sharding.device_set)} device(s), under a "
                f"{type(distribution).__name__} over {len(devices)}. Make the model under this "
                "distribution, or end it with keras.distribution.set_distribution(None)."
            )


def _check_outputs(model, expected, got):
    if not all(_agree(model, a, b) for a, b in zip(expected, got, strict=True)):
        raise ValueError(
            "A copy predicts what its original predicts, before anything is changed. "
            f"Received: {model.name!r}, whose copy predicts something else on the probe batch. "
            "A get_config of yours leaves an argument out: return it, or pass build=, the function "
            "that makes the model."
        )


def _agree(model, expected, got):
    if np.array_equal(expected, got, equal_nan=True):
        return True
    # Spread over devices otherwise, the same sums are rounded in another order.
    spread = any(len(variable.value.sharding.device_set) > 1 for variable in model.variables)
    finite = all(np.isfinite(each).all() for each in (expected, got))
    return (
        spread
        and finite
        and expected.shape == got.shape
        and _absmax.sqnr(expected, got) >= ROUNDING_FLOOR
    )
