"""A second model that predicts as the first, to be changed without touching it."""

import contextlib
import functools
import warnings

import keras
import numpy as np

from chapter18._shared import abstract, isolation, layers
from chapter18.quantization import _absmax, _following

# What float predictions agree to, in dB, when their sums are rounded in another order.
ROUNDING_FLOOR = 40.0


def copy(model, probe, expected, build=None):
    """Return a copy of `model`, proven: for `probe` it predicts `expected`, as `model` does.

    It is made from the configuration, or by `build()`, and given the state of every variable and
    layer; it has no optimizer, but the loss and metrics of `model` where Keras can serialise them.
    Nothing of `model` changes, nor do Keras' automatic names or its seeds for new layers count on.
    """
    anew = build or (lambda: _from_config(model))
    distribution = _following.distribution_for(model, anew, probe)

    def make():
        keras.config.set_dtype_policy(model.dtype_policy)
        keras.distribution.set_distribution(distribution)
        twin = anew()
        if not twin.built:
            outputs(twin, probe)
        _copy_state(model, twin)
        if model.compiled:
            _compile(model, twin)
        return twin

    # A Keras layer draws the seeds of its initializers from Python's own generator.
    with isolation.random_numbers_kept():
        twin = abstract.isolated(make)
    if not _agree(model, expected, outputs(twin, probe)):
        raise ValueError(
            "A copy predicts what its original predicts, before anything is changed. "
            f"Received: {model.name!r}, whose copy predicts something else on the probe batch. "
            "A get_config of yours leaves an argument out: return it, or pass build=, the function "
            "that makes the model."
        )
    return twin


def check_placed(model):
    """Raise ValueError unless `model` lies on the devices of the active distribution."""
    distribution = keras.distribution.distribution()
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


def outputs(model, probe):
    """Return what `model` predicts for the batch `probe`: a list of NumPy arrays, its outputs.

    Computed without training and without a trace: no variable and no compiled function changes.
    """
    # Keras takes a nest of tensors, not one in which some are NumPy arrays.
    to_tensor = keras.ops.convert_to_tensor
    tensors = keras.tree.map_structure(lambda x: None if x is None else to_tensor(x), probe)
    with keras.StatelessScope():
        predicted = model(tensors, training=False)
    return [np.array(keras.ops.convert_to_numpy(leaf)) for leaf in keras.tree.flatten(predicted)]


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
    for method in ("fit", "train_on_batch"):
        setattr(model, method, functools.partial(_refuse, model.name, method))


def _refuse(model_name, method, *_, **__):
    raise RuntimeError(
        "A quantized model is for inference: its integer kernels have no gradient. "
        f"Received: {method}() of {model_name!r}. "
        "Train the float model, and quantize a copy of it again."
    )


def _from_config(model):
    classes = {type(layer).__name__: type(layer) for layer in layers.every(model)}
    own = {name: each for name, each in classes.items() if not is_from_keras(each)}
    try:
        with keras.saving.custom_object_scope(own):
            return type(model).from_config(model.get_config())
    except Exception as error:
        first_line = str(error).strip().split("\n")[0][:200]
        raise ValueError(
            "A copy is made from the configuration of the model and of its layers. "
            f"Received: {model.name!r} ({type(model).__name__}), which cannot be made from it: "
            f"{type(error).__name__}: {first_line}. Let every layer of your own return "
            "its arguments from get_config, or pass build=, the function that makes the model."
        ) from error


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
    layers.put_derived_back(twin, layers.derived_state(model))


def _compile(model, twin):
    kept = ("loss", "loss_weights", "metrics", "weighted_metrics", "run_eagerly")
    # A loss that Keras cannot serialise can still be given to compile() afterwards.
    with warnings.catch_warnings(), contextlib.suppress(TypeError, ValueError):
        warnings.simplefilter("ignore", UserWarning)
        config = model.get_compile_config()
        given = {name: keras.saving.deserialize_keras_object(config[name]) for name in kept}
        twin.compile(optimizer=None, **given)


def _agree(model, expected, got):
    # Spread over devices otherwise, the same sums are rounded in another order.
    spread = any(len(variable.value.sharding.device_set) > 1 for variable in model.variables)
    return all(
        np.array_equal(a, b, equal_nan=True) or (spread and _is_rounding(a, b))
        for a, b in zip(expected, got, strict=True)
    )


def _is_rounding(a, b):
    finite = np.isfinite(a).all() and np.isfinite(b).all()
    return finite and a.shape == b.shape and _absmax.sqnr(a, b) >= ROUNDING_FLOOR
