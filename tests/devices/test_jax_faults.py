"""The faults of JAX on a CPU, sought in training and in sums that really run."""

import os
import sys

import pytest
from child import run_child

from chapter18.devices import _jax_faults

TRAIN = """
import os
from chapter18 import devices
devices.use(8)
import keras, numpy as np
keras.distribution.set_distribution(keras.distribution.DataParallel())
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
rows = np.random.default_rng(0).normal(size=(16 * 1500, 8)).astype("float32")
model.fit(rows, rows[:, :1], batch_size=16, verbose=0)
print("steps", int(model.optimizer.iterations), "NPROC" in os.environ)
"""
# Stale copies of donated weights: every second step would multiply by the weights before it.
WIDE = """
from chapter18 import devices
devices.use(1)
import keras, numpy as np
rng = np.random.default_rng(0)
x = rng.normal(size=(2500, 784)).astype("float32")
def trained(**options):
    keras.utils.set_random_seed(1)
    hidden = [keras.layers.Dense(256, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((784,)), *hidden, keras.layers.Dense(10)])
    model.compile(keras.optimizers.SGD(0.5), "mse", **options)
    model.fit(x, x[:, :10], batch_size=250, shuffle=False, verbose=0)
    return model.get_weights()
pairs = zip(trained(), trained(run_eagerly=True))
print("gap", max(float(abs(a - b).max()) for a, b in pairs) < 1e-4)
"""
# What XLA's YNNPACK fusions turn into garbage from JAX 0.10.2 to 0.12.0.1.
SUMS = """
import numpy as np
from chapter18 import devices
devices.use({devices})
import jax
rows = np.random.default_rng(0).uniform(0.5, 1.5, (96, 96)).astype("float32")
given = jax.jit(lambda rows: jax.numpy.sum((rows @ jax.numpy.ones_like(rows)) * rows))(rows)
wanted = float((rows.sum(1, dtype="float64", keepdims=True) * rows).sum())
print(*jax.__version_info__, abs(float(given) / wanted - 1) < 1e-5)
"""
# A Python whose JAX deadlocks (0.9 to 0.11), with Keras and NumPy: .ci/run may name one.
UNSOUND = os.environ.get("CHAPTER18_UNSOUND_PYTHON")
PYTHONS = [
    pytest.param(sys.executable, id="this environment"),
    pytest.param(
        UNSOUND,
        id="unsound JAX",
        marks=pytest.mark.skipif(not UNSOUND, reason="CHAPTER18_UNSOUND_PYTHON is not set"),
    ),
]


def child(code, python=sys.executable):
    """The lines that `code` prints in a process that conftest.py has not guarded."""
    env = {"XLA_FLAGS": None, "NPROC": None, "CUDA_VISIBLE_DEVICES": ""}
    return run_child(code, devices=0, timeout=180, env=env, python=python).splitlines()


def test_wide_layers_train_as_they_do_eagerly():
    assert child(WIDE)[-1] == "gap True"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("devices", [1, 8])
def test_a_sum_of_a_product_is_right(devices, python):
    lines = child(SUMS.format(devices=devices), python)
    *version, right = lines[-1].split()
    assert right == "True"
    affected = (0, 10, 2) <= tuple(map(int, version)) < (0, 12, 1)
    assert any("sum wrongly" in line for line in lines) == affected


def test_the_canary_falls_silent_without_a_guard_only_where_sums_are_right():
    code = """
import jax
jax.config.update("jax_platforms", "cpu")
from chapter18.devices import _jax_faults
try:
    _jax_faults.check_arithmetic()
except RuntimeError as error:
    print(error)
print(*jax.__version_info__)
"""
    *said, version = child(code)
    if _jax_faults.WRONG_SUMS.concerns(tuple(map(int, version.split()))):
        assert said[0].startswith("JAX must add correctly on this machine. Received: a sum of ")
    else:
        assert said == []


@pytest.mark.parametrize(
    ("version", "faults"),
    [
        ((0, 7, 2), ["jax-stale-weights"]),
        ((0, 8, 1), ["jax-stale-weights"]),
        ((0, 8, 2), []),
        ((0, 8, 3), []),
        ((0, 9, 0, 1), ["jax-deadlock"]),
        ((0, 10, 1), ["jax-deadlock"]),
        ((0, 10, 2), ["jax-deadlock", "jax-wrong-sums"]),
        ((0, 11, 2), ["jax-deadlock", "jax-wrong-sums"]),
        ((0, 12, 0, 1), ["jax-wrong-sums"]),
        ((0, 12, 1), []),
    ],
)
def test_each_version_of_jax_has_the_faults_that_were_seen(version, faults):
    known = (_jax_faults.DEADLOCK, *_jax_faults.FLAGGED)
    assert sorted(fault.name for fault in known if fault.concerns(version)) == faults


@pytest.mark.parametrize("python", PYTHONS)
def test_small_steps_on_simulated_devices_never_hang(python):
    # Where they can, some processes hang and others do not.
    for _ in range(1 if python == sys.executable else 3):
        lines = child(TRAIN, python)
        assert lines[-1] == "steps 1500 False"
        deadlocks = any("deadlock" in line for line in lines)
        assert deadlocks == (python != sys.executable), lines
