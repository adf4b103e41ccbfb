"""Arrays and variables that several processes hold together: whole, on the host, once."""

import contextlib

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import Shaped


def put(variable, value):
    """Make `value` what `variable` holds, as it is: `assign` would split it over the devices.

    A private name of Keras, as seen in 3.15.1 and 3.16.0.dev2026102704; no public one does this.
    """
    variable._value = value


def to_host(variable: keras.Variable) -> Shaped[np.ndarray, "..."]:
    """Return a variable's whole value as a NumPy array; every process must call this."""
    return whole(variable.value)


def whole(value: jax.Array) -> Shaped[np.ndarray, "..."]:
    """Return all of an array that may be spread over processes; each of them must call this."""
    if value.is_fully_addressable:
        return np.asarray(value)
    if value.is_fully_replicated:
        return np.asarray(value.addressable_data(0))
    return np.asarray(multihost_utils.process_allgather(value, tiled=True))


def of_first(nest):
    """Return the first process's nest of host arrays, in every process; each must call this."""
    return multihost_utils.broadcast_one_to_all(nest) if jax.process_count() > 1 else nest


@contextlib.contextmanager
def gathered(variables):
    """While open, reading one of `variables` in the first process gives all of it, on its CPU.

    Every process must open this. The variables are gathered one by one, so that an accelerator
    holds no more than one of them whole, and only for a moment.
    """
    spread = [v for v in variables if not v.value.is_fully_addressable]
    parts = [v.value for v in spread]
    try:
        for variable in spread:
            value = to_host(variable)
            if jax.process_index() == 0:
                # Older NumPy arrays turn into float64 when Keras saves them; JAX's keep their
                # dtype. Assigning would split the value again.
                put(variable, jax.device_put(value, _host_device()))
        yield
    finally:
        for variable, part in zip(spread, parts, strict=True):
            put(variable, part)


def _host_device():
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS leaves the CPU out
        return jax.local_devices()[0]


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
