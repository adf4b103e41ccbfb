"""What the guards of `devices.use` against a JAX that computes wrongly cost on a CPU.

XLA reads its flags once, as JAX wakes, so every measurement is a process of its own.
"""

import json
import os
import statistics
import subprocess
import sys

from benchmarks.rows import Row

ROUNDS = 3
# The flags of XLA that `use` sets for this JAX: none where it needs no guard.
FLAGS = """
import json, os
from chapter18 import devices
devices.use(1)
print(json.dumps(os.environ["XLA_FLAGS"]))
"""
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
    flags = _child(FLAGS)
    if not flags:
        return []
    rounds = [(_child(CODE), _child(CODE, flags)) for _ in range(ROUNDS)]
    rows = []
    for name in rounds[0][0]:
        usual, guarded = (statistics.median(r[side][name] for r in rounds) for side in (0, 1))
        note = "the guard's cost: without it results can be wrong"
        rows.append(Row(name, usual, guarded, usual / guarded, note))
    return rows


def _child(code, flags=""):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])
