"""Build models whose build() assigns values, into shards on eight devices, and print what arrived.

The oracle is the same build() called without a mesh. `assigned_scenario.py FOLDER`.
"""

import gc
import json
import sys
from pathlib import Path

import jax
import keras
import numpy as np

from chapter18 import checkpoints, mesh, planning, processes

FOLDER = Path(sys.argv[1])
MESH = mesh.make_mesh(data=2, model=4)
RNG = np.random.default_rng(0)
GLOVE = RNG.normal(size=(16, 8)).astype("float32")
DATA = (7 + 3 * RNG.normal(size=(64, 16))).astype("float32")
TOKENS = RNG.integers(0, 16, (8, 4))


def plain():
    return keras.Sequential([keras.Input((16,)), keras.layers.Dense(32), keras.layers.Dense(8)])


def embedding():
    layers = [keras.Input((4,)), keras.layers.Embedding(16, 8, weights=GLOVE)]
    return keras.Sequential([*layers, keras.layers.Dense(8, kernel_initializer="ones")])


def set_weights():
    model = plain()
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(size=w.shape) for w in model.weights])
    return model


def load_weights():
    model = plain()
    model.load_weights(FOLDER / "plain.weights.h5")
    return model


def load_model():
    return keras.saving.load_model(FOLDER / "plain.keras")


def load_half():
    return keras.saving.load_model(FOLDER / "half.keras")


def application():
    return keras.applications.MobileNetV2(
        (32, 32, 3), alpha=0.35, classes=4, weights=FOLDER / "app.weights.h5"
    )


def adapted():
    norm = keras.layers.Normalization()
    norm.adapt(DATA)
    dense = keras.layers.Dense(8, kernel_initializer=seed_of())
    return keras.Sequential([keras.Input((16,)), norm, dense])


def seed_of():
    return keras.initializers.GlorotUniform(3)


class Inside(keras.Model):
    """A subclassed model, whose layers Keras builds while it traces."""

    def __init__(self):
        super().__init__()
        self.norm = keras.layers.Normalization()
        self.norm.adapt(DATA)
        self.dense = keras.layers.Dense(8, kernel_initializer=seed_of())

    def call(self, x):
        return self.dense(self.norm(x))


def of_a_given_mean():
    norm = keras.layers.Normalization(mean=[3.0] * 16, variance=[2.0] * 16)
    dense = keras.layers.Dense(8, kernel_initializer=seed_of())
    return keras.Sequential([keras.Input((16,)), norm, dense])


CASES = {
    "Embedding(weights=)": (embedding, TOKENS),
    "set_weights": (set_weights, DATA[:8]),
    "load_weights": (load_weights, DATA[:8]),
    "load_model": (load_model, DATA[:8]),
    "load_model bfloat16": (load_half, DATA[:8]),
    "applications(weights=)": (application, RNG.random((8, 32, 32, 3)).astype("float32")),
    "adapt": (adapted, DATA[:8]),
    "adapt in a subclass": (Inside, DATA[:8]),
    "Normalization(mean=)": (of_a_given_mean, DATA[:8]),
}


def values(model):
    return [processes.to_host(v) for v in model.weights]


def compared(build, x):
    expected = build()
    predictions = np.asarray(expected(x), "float32")
    model = mesh.build(build, x, "columns", mesh=MESH)
    pairs = zip(values(expected), values(model), strict=True)
    seen = {"bits": all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)}
    got = np.asarray(model.predict(x, verbose=0), "float32")
    seen["predictions"] = float(np.abs(got - predictions).max() / np.abs(predictions).max())
    seen["split"] = int((~mesh.sharding_table(model)["replicated"]).sum())
    path = FOLDER / "again.keras"
    checkpoints.save(model, path)
    keras.distribution.set_distribution(None)
    made = {} if build is not Inside else {"build": build, "sample": x}
    again = np.asarray(checkpoints.restore(path, **made).predict(x, verbose=0), "float32")
    seen["restored"] = float(np.abs(again - predictions).max() / np.abs(predictions).max())
    plan = planning.plan(
        build, mesh=MESH, batch_size=8, layout="columns", sample=x, loss="mse", estimate=False
    )
    seen["planned"] = plan.parameters == expected.count_params()
    return seen


def kernels():
    gc.collect()
    return sum(array.shape == (16, 32) for array in jax.live_arrays())


def compiled_file():
    model = plain()
    model.compile("adam", "mse")
    model.save(FOLDER / "compiled.keras")
    before = kernels()
    try:
        mesh.build(
            lambda: keras.saving.load_model(FOLDER / "compiled.keras"),
            DATA[:8],
            "columns",
            mesh=MESH,
        )
    except RuntimeError as error:
        message = f"{error} {keras.distribution.distribution()}"
    return message if kernels() <= before else "arrays were allocated"


keras.utils.set_random_seed(5)
plain().save_weights(FOLDER / "plain.weights.h5")
plain().save(FOLDER / "plain.keras")
keras.config.set_dtype_policy("bfloat16")
plain().save(FOLDER / "half.keras")
keras.config.set_dtype_policy("float32")
keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, classes=4, weights=None).save_weights(
    FOLDER / "app.weights.h5"
)
seen = {}
for case in sys.argv[2:] or CASES:
    seen[case] = compared(*CASES[case])
    keras.distribution.set_distribution(None)
print(json.dumps(seen | {"compiled": compiled_file()}))
