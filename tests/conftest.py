"""One place that chooses the backend and resets what a test may leave behind."""

import os
import sys

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("MPLBACKEND", "agg")
# Tests compile much and compute little; the notebooks run as users compile, under nbval.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import pytest


@pytest.fixture(autouse=True)
def _no_global_state_left():
    yield
    keras = sys.modules.get("keras")
    if keras:
        keras.distribution.set_distribution(None)
        keras.config.set_dtype_policy("float32")
