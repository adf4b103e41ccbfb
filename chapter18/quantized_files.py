"""A quantized model as one small file, which comes back to the last bit or not at all."""

import contextlib
import json
import os
import platform
import tempfile
from pathlib import Path

import jax
import keras
import numpy as np

from chapter18 import (
    absmax,
    abstract,
    manifests,
    model_copies,
    quantization_modes,
    quantized_archives,
)

_ELSEWHERE_FLOOR = 40.0


def export(model, path, *, probe):
    """Write the quantized `model` to `path`, one file without optimizer; replace what is there.

    Stored are the weights, which layer was quantized how, and the batch `probe` with what the
    model predicts for it, so choose a small one. The file is written beside `path`, read back and
    only then moved into place, so `path` is never torn.

    Raises ValueError when nothing in `model` is quantized to int8 or int4.
    """
    quantized = _quantized(model)
    with _no_optimizer(model):
        record = quantized_archives.Record(
            layers=_kinds(model),
            quantized=quantized,
            weights=manifests.describe(model)._asdict(),
            machine=_machine(),
            keras=keras.__version__,
        )
        weights = _weights_file(model)
    outputs = model_copies.outputs(model, probe)
    quantized_archives.write(path, quantized_archives.Contents(record, weights, probe, outputs))


def load(path, build):
    """Return the model that `export` wrote to `path`, proven equal to it, for inference.

    `build()` makes the float model anew, as it was made before it was trained and quantized:
    custom layers need no configuration. The same layers are quantized in the same way and given
    the stored weights. All weights are compared to the bit; the predictions for the stored probe
    too, on the kind of machine and with the JAX that made them, and elsewhere, where sums may be
    rounded in another order, to 40 dB.

    Raises ValueError when `path` is no whole file of `export`, when `build` makes another model,
    and RuntimeError when what was restored differs or predicts something else.
    """
    contents = quantized_archives.read(path)
    saved = manifests.Manifest.from_json(json.dumps(contents.record.weights))
    model = abstract.isolated(lambda: _rebuilt(contents, saved, build, path))
    manifests.check(model, saved)
    _check_predictions(contents, model_copies.outputs(model, contents.probe), path)
    model_copies.refuse_training(model)
    return model


def _quantized(model):
    """Return `{number: [path, mode, config]}` for the quantized layers."""
    found = {
        str(index): [layer.path, layer.quantization_mode, _config(layer)]
        for index, layer in enumerate(model_copies.flat_layers(model))
        if layer.quantization_mode is not None
    }
    modes = {mode for _, mode, _ in found.values()}
    if not modes or not modes <= set(quantization_modes.PLAIN):
        raise ValueError(
            "What is exported here is quantized to int8 or int4. "
            f"Received: {model.name!r} with {sorted(modes) or 'no quantized layer'}. "
            "Call quantize_copy first, and export the model that it returns."
        )
    return found


def _config(layer):
    return keras.saving.serialize_keras_object(getattr(layer, "quantization_config", None))


def _kinds(model):
    return [type(layer).__name__ for layer in model_copies.flat_layers(model)]


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


def _machine():
    """What decides in which order sums are rounded: JAX, its device, and how it compiles."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("ascii", "replace").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor()
    options = [jax.config.read("jax_disable_most_optimizations"), os.environ.get("XLA_FLAGS", "")]
    options.append(os.environ.get("NPROC", ""))
    devices = [jax.devices()[0].device_kind, jax.device_count(), processor, _cores()]
    return [jax.__version__, *devices, *options]


def _cores():
    """How many processor cores this process may use, which XLA has as many threads as."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count()


def _rebuilt(contents, saved, build, path):
    keras.config.set_dtype_policy(keras.dtype_policies.deserialize(saved.policy))
    model = build()
    model.optimizer = None
    if not model.built:
        model_copies.outputs(model, contents.probe)
    _quantize(model, contents.record, path)
    made = [f"{tuple(v.shape)} {v.dtype}" for v in model.weights]
    stored = [f"{tuple(entry.shape)} {entry.dtype}" for entry in saved.weights]
    _check_same(path, "weights", made, stored)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.weights.h5"
        file.write_bytes(contents.weights)
        model.load_weights(file)
    manifests.restore_seeds(model, saved)
    return model


def _quantize(model, record, path):
    _check_same(path, "layers", _kinds(model), record.layers)
    layers = model_copies.flat_layers(model)
    with quantization_modes.quickly():
        for number, (_, mode, config) in record.quantized.items():
            config = keras.saving.deserialize_keras_object(config)
            layers[int(number)].quantize(mode, config=config)


def _check_same(path, what, made, stored):
    if made != stored:
        raise ValueError(
            "build() makes the model that was exported, in floating point. "
            f"Received: {what} that differ from those in {str(path)!r} first in "
            f"{model_copies.first_difference(made, stored)}. "
            "Pass the function, and the arguments, with which the exported model was made."
        )


def _check_predictions(contents, got, path):
    record = contents.record
    same_machine = record.machine == _machine()
    for stored, now in zip(contents.outputs, got, strict=True):
        now = now.astype("float32")
        if np.array_equal(stored, now):
            continue
        if same_machine or absmax.sqnr(stored, now) < _ELSEWHERE_FLOOR:
            raise RuntimeError(
                "A loaded model predicts for the stored probe what the exported one did. "
                f"Received: other predictions from {str(path)!r}, written by Keras "
                f"{record.keras} with JAX {record.machine[0]}, read by Keras "
                f"{keras.__version__} with JAX {jax.__version__}. Pass the build function of "
                "the exported model, or load it with the Keras that wrote it."
            )
