"""A quantized model as one small file, which comes back to the last bit or not at all."""

import contextlib
import json
import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np

from chapter18._shared import abstract, checks, layers, manifests
from chapter18.quantization import _absmax, _archives, _copies, _modes
from chapter18.quantization._following import following


def export(model: keras.Model, path: str | os.PathLike[str], *, probe: Any) -> None:
    """Write the quantized `model` to `path`, one file without optimizer; replace what is there.

    Stored are the weights, which layer was quantized how, what layers derived from data, and the
    batch `probe`, an array or a list, tuple or dict of arrays, with what the model predicts for
    it, so choose a small one. The file is written beside `path`, read back and only then moved
    into place, so `path` is never torn.

    Raises ValueError when nothing in `model` is quantized to int8 or int4, and for what `load`
    could not give back: NaN, a LoRA, a config that Keras cannot make again, a probe of other
    things; RuntimeError when a layer does not save all its variables.
    """
    checks.built(model, rule="What is exported has weights.")
    quantized = _quantized(model)
    outputs = [each.astype("float32") for each in _copies.outputs(model, probe)]
    _check_finite(model, outputs)
    with _no_optimizer(model):
        manifest = manifests.describe(model)
        record = _archives.Record(
            layers=_kinds(model),
            quantized=quantized,
            weights=manifest._asdict(),
            machine=_machine(model),
            keras=keras.__version__,
        )
        weights = _weights_file(model)
    derived = layers.derived_state(model)
    contents = _archives.Contents(record, weights, probe, outputs, derived)
    _archives.write(path, contents, lambda file: manifests.check_file(file, manifest))


def load(path: str | os.PathLike[str], build: Callable[[], keras.Model]) -> keras.Model:
    """Return the model that `export` wrote to `path`, proven equal to it, for inference.

    `build()` makes the float model anew, as it was made before it was trained and quantized:
    custom layers need no configuration. The same layers are quantized in the same way and given
    the stored weights. All weights are compared to the bit; the predictions for the stored probe
    too, on the kind of machine and with the JAX that made them, and elsewhere, where sums may be
    rounded in another order, to 40 dB. Under a distribution of Keras it is laid out by that.

    Raises ValueError when `path` is no whole file of `export`, when `build` makes another model,
    and RuntimeError when what was restored differs or predicts something else.
    """
    contents = _archives.read(path)
    saved = manifests.Manifest.from_json(json.dumps(contents.record.weights))
    distribution = keras.distribution.distribution()
    model = abstract.isolated(lambda: _rebuilt(contents, saved, build, path, distribution))
    manifests.check(model, saved)
    same_machine = contents.record.machine == _machine(model)
    got = _copies.outputs(model, contents.probe)
    _check_predictions(contents, got, path, same_machine)
    _copies.refuse_training(model)
    return model


def _quantized(model):
    """Return `{number: [path, mode, config]}` for the quantized layers."""
    found = {
        str(index): [layer.path, layer.quantization_mode, _config(layer)]
        for index, layer in enumerate(layers.every(model))
        if layer.quantization_mode is not None
    }
    modes = {mode for _, mode, _ in found.values()}
    if not modes or not modes <= set(_modes.PLAIN):
        raise ValueError(
            "What is exported here is quantized to int8 or int4. "
            f"Received: {model.name!r} with {sorted(modes) or 'no quantized layer'}. "
            "Call quantize_copy first, and export the model that it returns."
        )
    _check_no_lora(model)
    return found


def _check_no_lora(model):
    adapted = [each for each in layers.every(model) if getattr(each, "lora_enabled", False)]
    if adapted:
        raise ValueError(
            "What is exported has no LoRA, whose matrices build() would not make. "
            f"Received: {model.name!r} with one in {adapted[0].path or adapted[0].name!r}. "
            "Merge it into the float model, and quantize a copy of that."
        )


def _config(layer):
    config = getattr(layer, "quantization_config", None)
    try:
        serialized = keras.saving.serialize_keras_object(config)
        keras.saving.deserialize_keras_object(json.loads(json.dumps(serialized)))
    except Exception as error:
        raise ValueError(
            "A layer is quantized again, on loading, from its config. "
            f"Received: {layer.path or layer.name!r} with a {type(config).__name__} that Keras "
            f"cannot make again: {type(error).__name__}. Decorate classes of your own with "
            "keras.saving.register_keras_serializable, and let them return their arguments."
        ) from error
    return serialized


def _check_finite(model, outputs):
    broken = [v.path for v in model.variables if _has_nan(v)]
    if broken or not all(np.isfinite(each).all() for each in outputs):
        found = f"the variable {broken[0]!r} with NaN" if broken else "predictions with NaN or inf"
        raise ValueError(
            "What is exported has numbers in its weights and predictions, which can be compared. "
            f"Received: {model.name!r} and {found}. Mend the model, or pass another probe."
        )


def _has_nan(variable):
    values = np.asarray(variable.value)
    return keras.backend.is_float_dtype(variable.dtype) and bool(np.isnan(values).any())


def _kinds(model):
    return [type(layer).__name__ for layer in layers.every(model)]


@contextlib.contextmanager
def _no_optimizer(model):
    optimizer = getattr(model, "optimizer", None)  # an uncompiled model has no such attribute
    model.optimizer = None
    try:
        yield
    finally:
        model.optimizer = optimizer


def _weights_file(model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.weights.h5"
        model.save_weights(path)
        return path.read_bytes()


def _machine(model):
    """What decides in which order sums are rounded: JAX, its devices, and how it compiles."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("ascii", "replace").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor()
    options = [jax.config.read("jax_disable_most_optimizations"), os.environ.get("XLA_FLAGS", "")]
    options.append(os.environ.get("NPROC", ""))
    spread = max(len(variable.value.sharding.device_set) for variable in model.variables)
    devices = [jax.devices()[0].device_kind, jax.device_count(), spread, processor, _cores()]
    return [jax.__version__, *devices, *options]


def _cores():
    """How many processor cores this process may use, which XLA has as many threads as."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count()


def _rebuilt(contents, saved, build, path, distribution):
    keras.config.set_dtype_policy(keras.dtype_policies.deserialize(saved.policy))
    keras.distribution.set_distribution(distribution)
    model = build()
    model.optimizer = None
    if not model.built:
        _copies.outputs(model, contents.probe)
    _quantize(model, contents.record, path)
    made = [f"{tuple(v.shape)} {v.dtype}" for v in model.weights]
    stored = [f"{tuple(entry.shape)} {entry.dtype}" for entry in saved.weights]
    _check_same(path, "weights", made, stored)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.weights.h5"
        file.write_bytes(contents.weights)
        model.load_weights(file)
    manifests.restore_seeds(model, saved)
    layers.put_derived_back(model, contents.derived)
    return model


def _quantize(model, record, path):
    _check_same(path, "layers", _kinds(model), record.layers)
    every = layers.every(model)
    with _modes.quickly(), following():
        for number, (_, mode, config) in record.quantized.items():
            config = keras.saving.deserialize_keras_object(config)
            every[int(number)].quantize(mode, config=config)


def _check_same(path, what, made, stored):
    if made != stored:
        raise ValueError(
            "build() makes the model that was exported, in floating point. "
            f"Received: {what} that differ from those in {str(path)!r} first in "
            f"{_copies.first_difference(made, stored)}. "
            "Pass the function, and the arguments, with which the exported model was made."
        )


def _check_predictions(contents, got, path, same_machine):
    record = contents.record
    for stored, now in zip(contents.outputs, got, strict=True):
        now = now.astype("float32")
        if np.array_equal(stored, now):
            continue
        if same_machine or _absmax.sqnr(stored, now) < _copies.ROUNDING_FLOOR:
            raise RuntimeError(
                "A loaded model predicts for the stored probe what the exported one did. "
                f"Received: other predictions from {str(path)!r}, written by Keras "
                f"{record.keras} with JAX {record.machine[0]}, read by Keras "
                f"{keras.__version__} with JAX {jax.__version__}. Pass the build function of "
                "the exported model, or load it with the Keras that wrote it."
            )
