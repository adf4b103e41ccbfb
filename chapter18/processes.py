"""Read and write a model that several processes hold together."""

import contextlib

import jax
import numpy as np
from jax.experimental import multihost_utils


def to_host(variable):
    """Return a variable's whole value as a NumPy array; every process must call this."""
    value = variable.value
    if value.is_fully_addressable:
        return np.asarray(value)
    if value.is_fully_replicated:
        return np.asarray(value.addressable_data(0))
    return np.asarray(multihost_utils.process_allgather(value, tiled=True))


@contextlib.contextmanager
def gathered(variables):
    """While open, reading one of `variables` gives all of it; every process must open this."""
    spread = [v for v in variables if not v.value.is_fully_addressable]
    parts = [v.value for v in spread]
    # Older NumPy arrays turn into float64 when Keras saves them; JAX's keep their dtype.
    wholes = [jax.device_put(to_host(v), jax.local_devices()[0]) for v in spread]
    try:
        # Assigning would split the value again, and inside a StatelessScope Keras cannot save.
        for variable, whole in zip(spread, wholes, strict=True):
            variable._value = whole
        yield
    finally:
        for variable, part in zip(spread, parts, strict=True):
            variable._value = part


@contextlib.contextmanager
def first_only():
    """Yield whether this process is the first, which writes; on exit all have waited for it.

    Raises RuntimeError in the others when the first one failed.
    """
    if jax.process_count() == 1:
        yield True
        return
    written = False
    try:
        yield jax.process_index() == 0
        written = True
    finally:
        everywhere = bool(multihost_utils.broadcast_one_to_all(np.array(written)))
    if not everywhere:
        raise RuntimeError(
            "The first process writes for all. Received: an error there. "
            "Read what process 0 printed."
        )
