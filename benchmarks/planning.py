"""Planning against building; run as a module, it compares the temporaries of two compilers."""

import importlib.util
import json
import os
import sys

from benchmarks.rows import Row
from chapter18._shared import children

_LIMIT_SECONDS = 5.0
_CHILD = """
import json, sys, time
import keras
from benchmarks import planning
from chapter18.processes import peak_bytes
from chapter18 import devices, mesh
devices.use(8)
grid = mesh.make_mesh(data=2, model=4)
start = time.perf_counter()
answer = getattr(planning, sys.argv[1])(grid)
seconds = time.perf_counter() - start
print(json.dumps([seconds, peak_bytes() / 1e6, answer]))
"""


def measure():
    """Return rows: the book's model planned, and a small model planned instead of built."""
    large_seconds, large_peak, _ = _in_child("plan_large")
    plan_seconds, plan_peak, planned = _in_child("plan_medium")
    build_seconds, build_peak, built = _in_child("build_medium")
    assert planned == built
    return [
        Row(
            "plan 1.54 billion parameters on 2 × 4",
            _LIMIT_SECONDS,
            large_seconds,
            _LIMIT_SECONDS / large_seconds,
            f"usual: the limit; peak {large_peak:.0f} MB",
        ),
        Row(
            "plan 20 million parameters, or build and step",
            build_seconds,
            plan_seconds,
            build_seconds / plan_seconds,
            f"same bytes; peak {plan_peak:.0f} MB, not {build_peak:.0f}",
        ),
    ]


def plan_large(grid):
    """Plan 16,000 → 64,000 → 8,000."""
    from chapter18 import planning

    build = _mlp(16_000, 64_000, 8_000)
    plan = planning.plan(build, mesh=grid, layout="columns", batch_size=256)
    return plan.parameter_bytes


def plan_medium(grid):
    """Bytes of parameters and optimizer on one device, from a plan."""
    from chapter18 import planning

    plan = planning.plan(_mlp(2_000, 8_000, 500), mesh=grid, layout="columns", batch_size=16)
    return [plan.parameter_bytes, plan.optimizer_bytes]


def build_medium(grid):
    """The same, from the shards of a model that was built and trained for one step."""
    import numpy as np

    from chapter18 import mesh

    x, y = np.zeros((16, 2_000), "float32"), np.zeros((16, 500), "float32")
    model = mesh.build(_mlp(2_000, 8_000, 500), x, "columns", mesh=grid)
    model.compile("adam", "mse")
    model.fit(x, y, batch_size=16, verbose=0)
    return [
        sum(v.value.addressable_shards[0].data.nbytes for v in variables)
        for variables in (model.trainable_variables, model.optimizer.variables)
    ]


def compare_compilers():
    """Print temporaries per device on 2 × 4, compiled for CPU and for a TPU v5e."""
    from chapter18 import planning

    for name, build, options in _models():
        for policy in ("float32", "mixed_bfloat16"):
            common = {"mesh": {"data": 2, "model": 4}, "policy": policy, **options}
            cpu = planning.plan(build, **common).estimate.temporaries
            tpu = planning.plan(build, target="v5e:2x4", **common).estimate.temporaries
            print(f"{name:<12} {policy:<15} {cpu:>15,} {tpu:>15,} {tpu / cpu:>6.2f}")


def _models():
    yield "MLP", _mlp(16_000, 64_000, 8_000), {"layout": "megatron", "batch_size": 256}
    yield "small MLP", _mlp(4_000, 16_000, 2_000), {"layout": "megatron", "batch_size": 256}
    yield "LSTM", _recurrent, {"layout": "columns", "batch_size": 64}
    sparse = {"loss": "sparse_categorical_crossentropy"}
    yield "transformer", _transformer, {"layout": "megatron", "batch_size": 16, **sparse}


def _mlp(inputs, hidden, outputs):
    def build():
        import keras

        layers = [keras.layers.Dense(hidden, activation="relu"), keras.layers.Dense(outputs)]
        return keras.Sequential([keras.Input((inputs,)), *layers])

    return build


def _recurrent():
    import keras

    layers = [keras.layers.LSTM(128), keras.layers.Dense(64)]
    return keras.Sequential([keras.Input((20, 64)), *layers])


def _transformer():
    import keras
    from keras import layers

    tokens = keras.Input((128,), dtype="int32")
    x = layers.Embedding(4096, 256)(tokens)
    for _ in range(2):
        normal = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(8, 32)(normal, normal)
        wide = layers.Dense(1024, activation="gelu")(layers.LayerNormalization()(x))
        x = x + layers.Dense(256)(wide)
    return keras.Model(tokens, layers.Dense(4096, activation="softmax")(x))


def _in_child(name):
    environment = os.environ | {"KERAS_BACKEND": "jax"}
    done = children.run([sys.executable, "-c", _CHILD, name], env=environment, timeout=300)
    if done.returncode:
        raise SystemExit(f"The plan of {name} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    os.environ["KERAS_BACKEND"] = "jax"
    if importlib.util.find_spec("libtpu") is None:
        sys.exit("Comparing two compilers needs libtpu: pip install '.[tpu-plan]', here")
    compare_compilers()
