"""A tiny model with batch 16: 32 fused steps against Keras' steps_per_execution and plain fit.

From Keras 3.16 on the first ratio is about one, because `steps_per_execution` fuses there too.
"""

import statistics
import time

import keras
import numpy as np

from benchmarks.rows import Row
from chapter18 import steps

K, BATCH, STEPS, ROUNDS = 32, 16, 1024, 7


def measure():
    """Return two `Row`s, medians of interleaved epochs, the weights compared bit by bit here."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(BATCH * STEPS, 32)).astype("float32")
    y = rng.integers(0, 10, len(x))
    models = {"plain": _model(1), "keras": _model(K), "fused": _model(1)}
    steps.fuse(models["fused"], K)
    seconds = {name: [] for name in models}
    for _ in range(ROUNDS + 1):
        for name, model in models.items():
            seconds[name].append(_epoch(model, x, y))
    # The first round compiled.
    median = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    same = len({_state(model) for model in models.values()}) == 1
    assert same, "fused training differs from plain training"
    note = f"{STEPS} steps of batch {BATCH}, weights and optimizer state identical to the bit"
    return [
        Row(
            f"{K} fused steps against {usual}",
            median[name],
            median["fused"],
            median[name] / median["fused"],
            note,
        )
        for name, usual in (("keras", f"steps_per_execution={K}"), ("plain", "plain fit"))
    ]


def _model(steps_per_execution):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((32,)),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], steps_per_execution=steps_per_execution)
    return model


def _epoch(model, x, y):
    start = time.perf_counter()
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
    return time.perf_counter() - start


def _state(model):
    variables = (*model.variables, *model.optimizer.variables)
    return b"".join(np.asarray(variable.value).tobytes() for variable in variables)
