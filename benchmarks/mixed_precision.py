"""An epoch under mixed_float16 with the watch that stops a collapsed loss scale, and without it."""

import statistics
import time

import keras
import numpy as np

from benchmarks.rows import Row
from chapter18.datasets import load_mnist
from chapter18.mixed_precision import LossScaleWatch
from chapter18.precision import policy

BATCH, ROUNDS = 128, 15
SIZES = {"small": (64,), "wide": (512, 512)}


def measure():
    """Return a `Row` for each model: medians of interleaved epochs, weights compared bit by bit."""
    mnist = load_mnist()
    rows = len(mnist.x_train) // BATCH * BATCH
    x, y = mnist.x_train[:rows].reshape(-1, 784), mnist.y_train[:rows]
    with policy("mixed_float16"):
        return [_row(name, sizes, x, y) for name, sizes in SIZES.items()]


def _row(name, sizes, x, y):
    ways = {"plain": [], "watched": [LossScaleWatch()]}
    models = {way: _model(sizes) for way in ways}
    seconds = {way: [] for way in ways}
    for turn in range(ROUNDS + 1):
        for way in sorted(ways, reverse=turn % 2):
            seconds[way].append(_epoch(models[way], x, y, ways[way]))
    # The first round compiled.
    median = {way: statistics.median(times[1:]) for way, times in seconds.items()}
    assert _weights(models["plain"]) == _weights(models["watched"]), "the watch changed training"
    return Row(
        f"an epoch with the loss-scale watch, {name}",
        median["plain"],
        median["watched"],
        median["plain"] / median["watched"],
        f"{len(x) // BATCH} steps, at least 0.97 wanted, weights identical to the bit",
    )


def _model(sizes):
    keras.utils.set_random_seed(1)
    hidden = [keras.layers.Dense(size, activation="relu") for size in sizes]
    model = keras.Sequential([keras.Input((784,)), *hidden, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    return model


def _epoch(model, x, y, callbacks):
    start = time.perf_counter()
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=callbacks)
    return time.perf_counter() - start


def _weights(model):
    return b"".join(np.asarray(variable.value).tobytes() for variable in model.variables)
