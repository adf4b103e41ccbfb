"""The MNIST perceptron in float32, int8 and int4: bytes on disk and seconds of prediction."""

import statistics
import tempfile
import time
from pathlib import Path

import keras
import numpy as np

from benchmarks.rows import Row
from chapter18 import datasets, quantization

ROUNDS = 7


def measure():
    """Return two `Row`s for each mode, of seconds and of bytes: what float32 takes over its own.

    Seconds are medians of interleaved predictions for 10,000 images.
    """
    data = datasets.load_mnist()
    models = {"float32": _trained(data)}
    for mode in ("int8", "int4"):
        copy = quantization.quantize_copy(models["float32"], mode, probe=data.x_val[:100])
        models[mode] = copy.model
    seconds, accuracy = _predictions(models, data)
    sizes = _sizes(models, data.x_val[:1])
    return [
        Row(
            f"{mode} against float32, MNIST perceptron, {what}",
            values["float32"],
            values[mode],
            values["float32"] / values[mode],
            f"accuracy {accuracy[mode]:.4f} (float32 {accuracy['float32']:.4f})",
        )
        for mode in ("int8", "int4")
        for what, values in (("predicting 10,000", seconds), ("MB on disk", sizes))
    ]


def _perceptron():
    hidden = [keras.layers.Dense(512, activation="relu") for _ in range(2)]
    layers = [keras.layers.Flatten(), *hidden, keras.layers.Dense(10)]
    return keras.Sequential([keras.Input((28, 28)), *layers])


def _trained(data):
    keras.utils.set_random_seed(1)
    model = _perceptron()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(data.x_train, data.y_train, batch_size=250, epochs=3, verbose=0)
    return model


def _predictions(models, data):
    seconds, accuracy = {name: [] for name in models}, {}
    for _ in range(ROUNDS + 1):
        for name, model in models.items():
            start = time.perf_counter()
            predicted = model.predict(data.x_test, batch_size=1000, verbose=0)
            seconds[name].append(time.perf_counter() - start)
            accuracy[name] = float(np.mean(predicted.argmax(1) == data.y_test))
    # The first round compiled.
    return {name: statistics.median(times[1:]) for name, times in seconds.items()}, accuracy


def _sizes(models, probe):
    """Megabytes on disk, without optimizer."""
    sizes = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models.items():
            path = Path(folder) / f"{name}.weights.h5"
            if name == "float32":
                bare = _perceptron()
                bare.set_weights(model.get_weights())
                bare.save_weights(path)
            else:
                quantization.export(model, path, probe=probe)
            sizes[name] = path.stat().st_size / 1e6
    return sizes
