"""Runs in a child process with eight devices: prints the answers of all scenarios as JSON."""

import gc
import json
import random

import jax
import keras
import numpy as np
from keras import layers

from chapter18 import mesh, planning
from chapter18.planning import hardware

BATCH = 16
LAYOUTS = ("columns", "megatron", "fsdp")
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")


def sequential():
    return keras.Sequential(
        [keras.Input((24,)), layers.Dense(32, activation="relu"), layers.Dense(8)]
    )


def convolutional():
    images = keras.Input((8, 8, 4))
    x = layers.Conv2D(16, 3, padding="same")(images)
    x = layers.BatchNormalization()(x)
    x = layers.SeparableConv2D(16, 3)(x)
    return keras.Model(images, layers.Dense(8)(layers.GlobalAveragePooling2D()(x)))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(32)
        self.norm = layers.BatchNormalization()
        self.drop = layers.Dropout(0.3)
        self.out = layers.Dense(8)

    def call(self, x, training=False):
        return self.out(self.drop(self.norm(self.hidden(x)), training=training))


def attention():
    tokens = keras.Input((8,), dtype="int32")
    x = layers.Embedding(64, 16)(tokens)
    x = x + layers.MultiHeadAttention(4, 4, dropout=0.1)(x, x)
    x = layers.LayerNormalization()(x)
    x = x + layers.Dense(16)(layers.Dense(64, activation="gelu")(x))
    return keras.Model(tokens, layers.Dense(64, activation="softmax")(x))


def recurrent():
    steps = keras.Input((6, 8))
    x = layers.Bidirectional(layers.LSTM(16, return_sequences=True))(steps)
    return keras.Model(steps, layers.Dense(8)(layers.GRU(16)(x)))


def several_outputs():
    left, right = keras.Input((12,)), keras.Input((20,))
    x = layers.Concatenate()([layers.Dense(16)(left), layers.Dense(16)(right)])
    outputs = {"kind": layers.Dense(8, activation="softmax")(x), "size": layers.Dense(4)(x)}
    return keras.Model([left, right], outputs)


def floats(*shape):
    return np.zeros((BATCH, *shape), "float32")


def classes(*shape):
    return np.zeros((BATCH, *shape), "int32")


SPARSE = "sparse_categorical_crossentropy"
# kind: build, inputs, targets, optimizer, loss, metrics
KINDS = {
    "sequential": (sequential, floats(24), floats(8), "adam", "mse", ["mae"]),
    "convolutional": (
        convolutional,
        floats(8, 8, 4),
        floats(8),
        keras.optimizers.SGD(0.1, momentum=0.9, use_ema=True),
        keras.losses.Huber(),
        [keras.metrics.MeanSquaredError(), keras.metrics.RootMeanSquaredError()],
    ),
    "subclassed": (Subclassed, floats(24), floats(8), "adafactor", "mse", None),
    "attention": (
        attention,
        classes(8),
        classes(8),
        keras.optimizers.AdamW(gradient_accumulation_steps=2),
        SPARSE,
        ["accuracy"],
    ),
    "recurrent": (recurrent, floats(6, 8), floats(8), "rmsprop", "mse", [keras.metrics.AUC()]),
    "several_outputs": (
        several_outputs,
        [floats(12), floats(20)],
        {"kind": classes(), "size": floats(4)},
        keras.optimizers.Lion(keras.optimizers.schedules.CosineDecay(0.1, 10)),
        {"kind": SPARSE, "size": "mse"},
        {"kind": "accuracy", "size": ["mae"]},
    ),
}


def shards(arrays):
    """Bytes of the arrays on each device, from the real shards."""
    found = dict.fromkeys(jax.devices(), 0)
    for array in arrays:
        for shard in array.addressable_shards:
            found[shard.device] += shard.data.nbytes
    assert len(set(found.values())) == 1
    return found[jax.devices()[0]]


def real_bytes(kind, layout, policy, grid):
    """[parameters, optimizer, metrics, inputs] of one device, of a model that Keras has built."""
    build, x, y, optimizer, loss, metrics = KINDS[kind]
    keras.config.set_dtype_policy(policy)
    model = mesh.build(build, x, layout, mesh=grid)
    model.compile(
        optimizer=copy(optimizer), loss=loss, metrics=keras.tree.map_structure(copy, metrics)
    )
    # What fit does before its first step, and nothing more: compiling each step takes minutes.
    model._symbolic_build(data_batch=(x, y))
    here = keras.distribution.distribution()
    batch = [
        keras.distribution.distribute_tensor(leaf, here.get_data_layout(leaf.shape))
        for leaf in keras.tree.flatten((x, y))
    ]
    answer = [*state_bytes(model), shards(batch)]
    keras.distribution.set_distribution(None)
    keras.config.set_dtype_policy("float32")
    return answer


def state_bytes(model):
    groups = (
        model.trainable_variables + model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    return [shards([variable.value for variable in group]) for group in groups]


def copy(thing):
    return type(thing).from_config(thing.get_config()) if hasattr(thing, "get_config") else thing


def planned_bytes(kind, layout, policy, grid):
    build, x, _, optimizer, loss, metrics = KINDS[kind]
    plan = planning.plan(
        build,
        mesh=grid,
        layout=layout,
        batch_size=BATCH,
        optimizer=optimizer,
        loss=loss,
        metrics=metrics,
        policy=policy,
        sample=x if kind == "subclassed" else None,
        estimate=False,
    )
    return [plan.parameter_bytes, plan.optimizer_bytes, plan.metric_bytes, plan.input_bytes]


def exact():
    """Every kind × layout × policy: what was planned, and what the real shards hold."""
    grid = mesh.make_mesh(data=2, model=4)
    return [
        [kind, layout, policy, planned_bytes(kind, layout, policy, grid), real]
        for kind in KINDS
        for layout in LAYOUTS
        for policy in POLICIES
        for real in [real_bytes(kind, layout, policy, grid)]
    ]


def after_fit():
    """One kind through a real `fit`: state bytes after training, and what was planned."""
    grid = mesh.make_mesh(data=2, model=4)
    build, x, y, _, loss, metrics = KINDS["several_outputs"]
    planned = planned_bytes("several_outputs", "columns", "float32", grid)
    model = mesh.build(build, x, "columns", mesh=grid)
    model.compile(optimizer=copy(KINDS["several_outputs"][3]), loss=loss, metrics=metrics)
    model.fit(x, y, batch_size=BATCH, verbose=0)
    keras.distribution.set_distribution(None)
    return [planned[:3], state_bytes(model)]


def state_of_keras():
    """Everything that a plan must leave as it was."""
    gc.collect()
    return [
        keras.config.dtype_policy().name,
        repr(keras.distribution.distribution()),
        str(random.getstate()),
        str(np.random.get_state()),  # noqa: NPY002 (Keras seeds this one)
        len(jax.live_arrays()),
        sum(array.nbytes for array in jax.live_arrays()),
    ]


def trace():
    """State before and after a plan; automatic names after it; what the user's objects became."""
    grid = mesh.make_mesh(data=2, model=4)
    layers.Dense(1)
    keras.utils.set_random_seed(7)
    keras.config.set_dtype_policy("mixed_bfloat16")
    here = keras.distribution.DataParallel(devices=keras.distribution.list_devices())
    keras.distribution.set_distribution(here)
    optimizer = keras.optimizers.Adam()
    metric = keras.metrics.MeanSquaredError()
    # Reading a replicated value makes JAX list the shard that it read from then on.
    optimizer.get_config()
    before = state_of_keras()
    planning.plan(
        convolutional,
        mesh=grid,
        layout="columns",
        batch_size=BATCH,
        optimizer=optimizer,
        metrics=[metric],
        policy="mixed_float16",
    )
    after = state_of_keras()
    try:
        planning.plan(sequential, mesh=grid, layout={"nothing": (None,)}, batch_size=BATCH)
        refused = ""
    except ValueError as error:
        refused = str(error)
    after_error = state_of_keras()
    # Variables that were waiting to be allocated would be so now.
    with keras.StatelessScope():
        pass
    seen = {
        "before": before,
        "after": after,
        "after_error": after_error,
        "later": state_of_keras(),
        "refused": refused,
        "next_name": layers.Dense(1).name,
        "same_distribution": keras.distribution.distribution() is here,
        "optimizer_built": optimizer.built,
    }
    keras.distribution.set_distribution(None)
    keras.config.set_dtype_policy("float32")
    return seen


def estimates():
    """Collectives and FLOPs of steps small enough to count by hand."""
    grid = mesh.make_mesh(data=2, model=4)
    common = {"mesh": grid, "batch_size": BATCH, "optimizer": "sgd"}
    dense = planning.plan(sequential, layout="megatron", **common)
    looped = planning.plan(recurrent, layout="replicated", **common)
    return {
        "dense": [list(c) for c in dense.estimate.collectives],
        "dense_flops": dense.estimate.flops,
        "dense_gradients": dense.gradient_bytes,
        "looped_flops": looped.estimate.flops,
        "compiler": dense.estimate.compiler,
        "text": repr(dense),
    }


def passed_over():
    """Verdicts by mesh for a kernel of six rows, which four devices cannot share."""
    found = planning.smallest_mesh(
        lambda: keras.Sequential([keras.Input((6,)), layers.Dense(8)]),
        device=hardware.Device("tiny", "cpu", 100, 1.0, 1e12, 1e12, "a test"),
        batch_size=BATCH,
        max_devices=4,
        layout={".*kernel": ("model", None)},
    )
    return dict(zip(found.tried["mesh"], found.tried["fits"], strict=True)), found.plan


if __name__ == "__main__":
    # `trace` comes first: it reads automatic names, which the others' models shift.
    scenarios = (trace, estimates, passed_over, after_fit, exact)
    print(json.dumps({scenario.__name__: scenario() for scenario in scenarios}))
