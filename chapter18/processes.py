"""Models that several processes hold together, and the processes themselves."""

import weakref
from typing import Any

import jax
import keras
import numpy as np

from chapter18._shared.children import Child, free_port, peak_bytes, run
from chapter18._shared.gathering import to_host, whole

__all__ = ["Child", "free_port", "peak_bytes", "predict", "run", "to_host"]

_predict_steps: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def predict(model: keras.Model, x: Any) -> Any:
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
