"""Read and write a model that several processes hold together."""

import contextlib
import weakref

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils

_predict_steps = weakref.WeakKeyDictionary()


def to_host(variable):
    """Return a variable's whole value as a NumPy array; every process must call this."""
    return _whole(variable.value)


def _whole(value):
    if value.is_fully_addressable:
        return np.asarray(value)
    if value.is_fully_replicated:
        return np.asarray(value.addressable_data(0))
    return np.asarray(multihost_utils.process_allgather(value, tiled=True))


def predict(model, x):
    """Return the model's predictions for one global batch, NumPy, in every process.

    `x`: this process's rows of the batch, an array `(rows, …)` or a nest of them; all processes
    pass equally many, and call this together. Where they share the batch (DataParallel, or a mesh
    whose data axis spans them), the result has the rows of process 0, then those of process 1, and
    so on; where they only share the model, all pass the same rows, and get as many.

    Keras' own `predict` cannot fetch what lies on another process's devices.
    Raises RuntimeError without a distribution, which says how the batch lies on the devices.
    """
    distribution = keras.distribution.distribution()
    if distribution is None:
        raise RuntimeError(
            "Processes predict together under a distribution. Received: none. "
            "Set one before the model is built, or call model.predict."
        )

    def placed(rows):
        layout = distribution.get_data_layout(rows.shape).backend_layout
        return jax.make_array_from_process_local_data(layout, np.asarray(rows))

    groups = model.trainable_variables, model.non_trainable_variables
    state = tuple([v.value for v in variables] for variables in groups)
    return jax.tree.map(_whole, _predict_step(model)(state, (jax.tree.map(placed, x),)))


def _predict_step(model):
    """The model's jitted prediction, made once."""
    if model not in _predict_steps:
        # The step must not keep alive the model that it is remembered for.
        proxy = weakref.proxy(model)
        _predict_steps[model] = jax.jit(lambda state, batch: proxy.predict_step(state, batch)[0])
    return _predict_steps[model]


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
