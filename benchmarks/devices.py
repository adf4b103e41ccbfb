"""What the guard of `devices.use` against wrong sums costs: XLA with its flag and without.

XLA reads its flags once, as JAX wakes, so every measurement is a process of its own.
"""

import json
import os
import statistics
import subprocess
import sys

import jax

from benchmarks.rows import Row
from chapter18.devices._jax_faults import WRONG_SUMS

ROUNDS = 3
CODE = """
import json, os, statistics, time
os.environ["KERAS_BACKEND"] = "jax"
import jax, keras, numpy as np
from keras import layers

rng = np.random.default_rng(0)


def seconds(call, rounds=30):
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def training(*hidden, shape, rows):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input(shape), *hidden, layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = rng.normal(size=(rows * 20, *shape)).astype("float32"), rng.integers(0, 10, rows * 20)
    fit = lambda: model.fit(x, y, batch_size=rows, shuffle=False, verbose=0).history["loss"]
    return seconds(fit, rounds=5) / 20


dense = [layers.Dense(512, "relu") for _ in range(2)]
convolutions = [layers.Conv2D(16, 3, 2, activation="relu"), layers.Flatten()]
side = jax.numpy.asarray(rng.normal(size=(1024, 1024)), "float32")
multiply = jax.jit(lambda a: a @ a)
print(json.dumps({
    "a training step of 784-512-512-10, batch 128": training(*dense, shape=(784,), rows=128),
    "a training step of a small convnet, batch 64": training(
        *convolutions, shape=(28, 28, 1), rows=64),
    "a product of 1024 x 1024 matrices": seconds(lambda: multiply(side)),
}))
"""


def measure():
    """Return three `Row`s, medians of interleaved processes; none where JAX needs no guard."""
    if not WRONG_SUMS.concerns(jax.__version_info__):
        return []
    rounds = [(_child(""), _child(WRONG_SUMS.flag)) for _ in range(ROUNDS)]
    rows = []
    for name in rounds[0][0]:
        usual, guarded = (statistics.median(r[side][name] for r in rounds) for side in (0, 1))
        note = "the guard's cost: without it sums can be wrong"
        rows.append(Row(name, usual, guarded, usual / guarded, note))
    return rows


def _child(flag):
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flag},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])
