"""Read and write a model that several processes hold together."""

import contextlib
import weakref

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils

from chapter18 import keras_internals

_predict_steps = weakref.WeakKeyDictionary()


def to_host(variable):
    """Return a variable's whole value as a NumPy array; every process must call this."""
    return whole(variable.value)


def whole(value: jax.Array) -> np.ndarray:
    """Return all of an array that may be spread over processes; each of them must call this."""
    if value.is_fully_addressable:
        return np.asarray(value)
    if value.is_fully_replicated:
        return np.asarray(value.addressable_data(0))
    return np.asarray(multihost_utils.process_allgather(value, tiled=True))


def of_first(nest):
    """Return the first process's nest of host arrays, in every process; each must call this."""
    return multihost_utils.broadcast_one_to_all(nest) if jax.process_count() > 1 else nest


def predict(model: keras.Model, x):
    """Return the model's predictions for one global batch, NumPy, in every process.

    `x`: this process's rows of the batch, an array `(rows, …)` or a nest of them; all processes
    pass equally many, and call this together. Where they share the batch (DataParallel, or a mesh
    whose data axis spans them), the result has the rows of process 0, then those of process 1, and
    so on; where they only share the model, all pass the same rows, and get as many. As after
    `model.predict`, random generators and recurrent states have gone on.

    Keras 3.15's own `predict` cannot fetch what lies on another process's devices.
    Raises RuntimeError without a distribution, which says how the batch lies on the devices.
    """
    distribution = keras.distribution.distribution()
    if distribution is None:
        raise RuntimeError(
            "Processes predict together under a distribution. Received: none. "
            "Set one before the model is built, or call model.predict."
        )

    def placed(rows):
        rows = np.asarray(rows)
        layout = distribution.get_data_layout(rows.shape).backend_layout
        return jax.make_array_from_process_local_data(layout, rows)

    groups = model.trainable_variables, model.non_trainable_variables
    state = tuple([v.value for v in variables] for variables in groups)
    outputs, new = _predict_step(model, state)(state, (jax.tree.map(placed, x),))
    predicted = jax.tree.map(whole, outputs)
    for variable, value in zip(model.non_trainable_variables, new, strict=True):
        variable.assign(value)
    return predicted


def _predict_step(model, state):
    """The model's jitted prediction, made once for each way in which its variables lie."""
    shardings = jax.tree.map(lambda value: value.sharding, state)
    found = _predict_steps.get(model)
    if found is None or found[0] != shardings:
        # The step must not keep alive the model that it is remembered for.
        proxy = weakref.proxy(model)
        step = jax.jit(
            lambda state, batch: proxy.predict_step(state, batch),
            out_shardings=(None, shardings[1]),
        )
        found = _predict_steps[model] = shardings, step
    return found[1]


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
                keras_internals.put(variable, jax.device_put(value, _host_device()))
        yield
    finally:
        for variable, part in zip(spread, parts, strict=True):
            keras_internals.put(variable, part)


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
