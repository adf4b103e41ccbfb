"""Train, evaluate and predict as one of two processes (or alone, with two devices).

`two_processes.py FOLDER [PORT INDEX]` prints, as JSON, the losses, predictions and restored weights
of each distribution. A process feeds its own rows; where the mesh has `data=1`, all of them.
"""

import json
import sys
from pathlib import Path

import jax
import keras
import numpy as np

from chapter18 import checkpoints, mesh, processes
from chapter18.batching import _plans

ROWS, BATCH = 32, 8
KINDS = ("DataParallel", "ModelParallel", "fsdp")


def model():
    return keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(8)])


def built(kind, x):
    if kind == "ModelParallel":
        return mesh.build(model, x, "megatron", mesh=mesh.make_mesh(data=1, model=2))
    if kind == "fsdp":
        return mesh.build(model, x, "fsdp", mesh=mesh.make_mesh(data=2))
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    made = model()
    made(x[:2])
    return made


def share(array, feeders, index):
    """The rows that feeder `index` passes of each global batch, `(rows / feeders, …)`."""
    batches = array.reshape(-1, feeders, BATCH // feeders, *array.shape[1:])
    return batches[:, index].reshape(-1, *array.shape[1:])


def run(kind, folder):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(ROWS, size)).astype("float32") for size in (16, 8))
    keras.utils.set_random_seed(1)
    made = built(kind, x)
    made.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    feeders = 1 if kind == "ModelParallel" else jax.process_count()
    own = [share(array, feeders, jax.process_index() % feeders) for array in (x, y)]
    options = {"batch_size": BATCH // feeders, "verbose": 0}
    seen = {"loss": made.fit(*own, epochs=2, shuffle=False, **options).history["loss"]}
    seen["evaluated"] = made.evaluate(*own, **options)
    # One global batch: the rows of process 0, then those of process 1.
    mine = np.split(x, feeders)[jax.process_index() % feeders]
    seen["predicted"] = processes.predict(made, mine).tolist()
    if jax.process_count() == 1:
        np.testing.assert_allclose(seen["predicted"], made.predict(x, verbose=0), atol=1e-6)
    path = Path(folder, f"{kind}.keras")
    checkpoints.save(made, path)
    other = {"layout": "columns", "mesh": mesh.make_mesh(data=1, model=2)}
    restored = checkpoints.restore(path, **({} if kind == "DataParallel" else other))
    seen["weights"] = [processes.to_host(v).ravel().tolist() for v in restored.weights]
    keras.distribution.set_distribution(None)
    return seen


def failed_save(folder):
    """What a process hears when the first one cannot write."""
    made = model()
    made(np.ones((2, 16), "float32"))
    try:
        checkpoints.save(made, Path(folder, "missing", "model.keras"))
    except (OSError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


def refused_plan():
    """What a process hears that plans batches for all of them."""
    try:
        _plans.replicas()
    except RuntimeError as error:
        return str(error)


def main(folder, port=None, index=None):
    if port:
        # With the seed set before, Keras need not agree on one over a deprecated pmap.
        keras.utils.set_random_seed(1)
        keras.distribution.initialize(f"127.0.0.1:{port}", 2, int(index))
        folder = Path(folder, "shared")
        folder.mkdir(exist_ok=True)
    seen = {kind: run(kind, folder) for kind in KINDS}
    if port:
        seen["failed save"] = failed_save(folder)
        seen["refused plan"] = refused_plan()
    print(json.dumps(seen))
    if port:
        jax.distributed.shutdown()


main(*sys.argv[1:])
