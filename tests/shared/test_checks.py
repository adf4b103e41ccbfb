"""The one place that decides what an argument is."""

import re

import keras
import numpy as np
import pytest
from child import run_child

from chapter18._shared import checks


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(3), np.array(5)])
def test_integers_of_python_and_numpy_count(value):
    number = checks.positive_integer(value, "n", rule="R.", remedy="M.")
    assert type(number) is int
    assert number == value


@pytest.mark.parametrize(
    "value", [0, -1, 1.0, True, np.True_, np.float32(2), "3", None, np.ones(2)]
)
def test_whatever_else_is_refused(value):
    message = re.escape(f"R. Received: n={value!r}. M.")
    with pytest.raises(ValueError, match=f"^{message}$"):
        checks.positive_integer(value, "n", rule="R.", remedy="M.")


def test_models_are_told_apart():
    model = keras.Sequential([keras.layers.Dense(1)], name="m")
    with pytest.raises(TypeError, match=r"^R\. Received: int\. Pass a keras\.Model\.$"):
        checks.keras_model(3, rule="R.")
    with pytest.raises(ValueError, match=r"^R\. Received: 'm', which is not built\. Give it"):
        checks.built(model, rule="R.")
    with pytest.raises(ValueError, match=r"^R\. Received: 'm', not compiled\. Call model\.comp"):
        checks.compiled(model, rule="R.")
    model.build((None, 2))
    model.compile()
    checks.built(model, rule="R.")
    checks.compiled(model, rule="R.")
    checks.on_jax(rule="R.")


ELSEWHERE = """\
import keras
from chapter18._shared import checks
try:
    checks.built(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), rule="R.")
except RuntimeError as error:
    print(error)
import keras_tuner as kt
from chapter18 import tuning
try:
    tuning.make_tuner(
        kt.RandomSearch, print, objective="loss", directory=".", project_name="p", seed=1
    )
except RuntimeError as error:
    print(error)
"""


def test_a_model_of_another_backend_is_refused():
    said = run_child(ELSEWHERE, devices=0, env={"KERAS_BACKEND": "numpy"})
    assert said == (
        "The package works with Keras models on JAX. Received: Keras on numpy. "
        "Set KERAS_BACKEND=jax before Keras is imported.\n"
        "A search trains Keras models on JAX. Received: Keras on numpy. "
        "Set KERAS_BACKEND=jax before Keras is imported.\n"
    )


def test_arrays_are_what_has_a_shape_and_a_dtype():
    checks.array(np.ones(2), rule="R.", remedy="M.")
    with pytest.raises(TypeError, match=r"^R\. Received: list\. M\.$"):
        checks.array([1.0], rule="R.", remedy="M.")
