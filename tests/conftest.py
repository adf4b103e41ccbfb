"""One place that chooses the backend and resets what a test may leave behind."""

import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("MPLBACKEND", "agg")
# Tests compile much and compute little; the notebooks run as users compile, under nbval.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import pytest

from chapter18.devices import _jax_faults

# What devices.use does where JAX computes wrongly on a CPU; most tests do without it.
_JAX = tuple(int(part) for part in re.findall(r"\d+", version("jax")))
for fault in _jax_faults.unguarded(_JAX):
    fault.avoid()


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the course's site, written once for all tests that read it."""
    from course import website

    root = Path(__file__).parent.parent
    return website.write(root, out=tmp_path_factory.mktemp("site")).parent


@pytest.fixture(autouse=True)
def _no_global_state_left():
    yield
    keras = sys.modules.get("keras")
    if keras:
        keras.distribution.set_distribution(None)
        keras.config.set_dtype_policy("float32")
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot:
        pyplot.close("all")
