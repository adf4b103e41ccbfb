"""Predicting together leaves a model as Keras' own `predict` leaves it."""

import jax
import keras
import numpy as np
import pytest
from noisy import Noisy

from chapter18 import mesh, processes
from chapter18._shared import gathering

X = np.random.default_rng(0).normal(size=(8, 3, 4)).astype("float32")


def sampling():
    return keras.Sequential([keras.Input((3, 4)), Noisy(), keras.layers.Dense(2)])


def recurrent():
    layers = [keras.Input(batch_shape=(4, 3, 4)), keras.layers.LSTM(2, stateful=True)]
    return keras.Sequential(layers)  # whose states Keras 3.15 and 3.16 do not carry on in `predict`


def nested():
    x = keras.Input((3, 4), name="x")
    return keras.Model({"x": x}, {"y": Noisy()(x)})


@pytest.mark.parametrize("build", [sampling, recurrent, nested])
def test_the_state_goes_on_from_batch_to_batch_as_in_keras(build):
    grid = mesh.make_mesh(data=np.int64(1))
    current = keras.distribution.ModelParallel(layout_map=keras.distribution.LayoutMap(grid))
    keras.distribution.set_distribution(current)
    keras.utils.set_random_seed(2)
    expected = build()
    keras.utils.set_random_seed(2)
    model = build()
    batches = [{"x": part} if build is nested else part for part in (X[:4], X[4:], X[:4])]
    results = []
    for batch in batches:
        ours, theirs = processes.predict(model, batch), expected.predict(batch, verbose=0)
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)
        results.append(jax.tree.leaves(ours)[0])
    moved = np.abs(results[0] - results[2]).max()
    assert moved > 1e-3 or build is recurrent
    for ours, theirs in zip(model.variables, expected.variables, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_a_whole_variable_is_kept_by_the_cpu():
    assert gathering._host_device().platform == "cpu"
