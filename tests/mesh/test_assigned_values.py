"""Values that build() assigns arrive in the shards of mesh.build, and survive a checkpoint."""

import json

import keras
import numpy as np
import pytest
from child import run_child

from chapter18 import mesh
from chapter18._shared import abstract

CASES = [
    "Embedding(weights=)",
    "set_weights",
    "load_weights",
    "load_model",
    "load_model bfloat16",
    "applications(weights=)",
    "adapt",
    "adapt in a subclass",
    "Normalization(mean=)",
]


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assigned")
    return json.loads(run_child("assigned_scenario.py", folder).splitlines()[-1])


@pytest.mark.parametrize("case", CASES)
def test_a_value_assigned_in_build_arrives_to_the_bit_and_split(seen, case):
    assert seen[case]["bits"]
    assert seen[case]["split"] > 0
    tolerance = 5e-2 if "bfloat16" in case else 1e-5
    assert seen[case]["predictions"] < tolerance
    assert seen[case]["restored"] < tolerance
    assert seen[case]["planned"]


def test_a_compiled_file_is_refused_before_anything_is_allocated(seen):
    assert "initial values to initializers" in seen["compiled"]
    assert "compile=False" in seen["compiled"]
    assert seen["compiled"].endswith(" None")


def test_what_a_build_assigns_takes_no_part_in_another_build():
    def assigned():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.set_weights([np.full((2, 1), 3.0), np.ones(1)])
        return model

    def plain():
        dense = keras.layers.Dense(1, kernel_initializer="zeros")
        return keras.Sequential([keras.Input((2,)), dense])

    grid = mesh.make_mesh(data=1, model=1)
    first = mesh.build(assigned, np.ones((1, 2)), "replicated", mesh=grid)
    second = mesh.build(plain, np.ones((1, 2)), "replicated", mesh=grid)
    assert first.get_weights()[0].tolist() == [[3.0], [3.0]]
    assert second.get_weights()[0].tolist() == [[0.0], [0.0]]


def test_reading_an_assigned_value_in_build_gives_it():
    def doubled():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.set_weights([np.full((2, 1), 3.0), np.ones(1)])
        model.set_weights([2 * w for w in model.get_weights()])
        return model

    grid = mesh.make_mesh(data=1, model=1)
    model = mesh.build(doubled, np.ones((1, 2)), "replicated", mesh=grid)
    assert [w.tolist() for w in model.get_weights()] == [[[6.0], [6.0]], [2.0]]


def test_an_isolated_function_may_have_a_policy_of_its_own():
    policy = abstract.isolated(lambda: keras.config.dtype_policy().name, policy="mixed_bfloat16")
    assert policy == "mixed_bfloat16"
    assert keras.config.dtype_policy().name == "float32"
