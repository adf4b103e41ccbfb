"""Batches that fit the devices: plan them, evaluate any number of rows exactly, trim for fit.

JAX splits a batch over the data axis of the distribution only if its rows divide by it. Here a
batch that does not is given whole to every device instead: slower for that one batch, and exact.
Padding would not be: compiled metrics and the loss count the padding too.
"""

import weakref
from typing import Any

import jax
import keras
import numpy as np
from jaxtyping import Num

from chapter18._shared import checks
from chapter18.batching._plans import count_rows, plan_batches, replicas


def evaluate(
    model: keras.Model, x: Any, y: Any = None, *, sample_weight: Any = None, batch_size: int = 32
) -> dict[str, float | Num[np.ndarray, "..."]]:
    """Return `{name: value}` of the loss and metrics, as one device computes them with Keras.

    - `x`, `y`, `sample_weight`: arrays `(samples, …)` or nests of them, any number of rows.
    - `batch_size`: the global batch size.

    What layers keep (random states, the states of a stateful RNN) goes from batch to batch and
    stays in the model, as Keras leaves it. A failure leaves that and the weights alone. Raises
    TypeError when it is no Keras model; ValueError when it is not compiled, the numbers of rows
    differ or are 0, or the batch size does not divide by the devices; RuntimeError in a run of
    several processes.
    """
    checks.compiled(model, rule="Evaluation needs a compiled model.")
    batches = _batches((x, y, _weight_each_output(y, sample_weight)), batch_size)
    step = _compiled(_test_steps, model, batches[0], _test_step)
    weights = _values(model.trainable_variables)
    model.reset_metrics()
    state = _values(model.non_trainable_variables), _values(model.metrics_variables)
    for batch in batches:
        logs, state = step(weights, state, _placed(batch))
    _assign(model.non_trainable_variables, state[0])
    _assign(model.metrics_variables, state[1])
    return {name: _plain(value) for name, value in logs.items()}


def predict(model: keras.Model, x: Any, *, batch_size: int = 32) -> Any:
    """Return predictions `(samples, …)` as NumPy, for any number of rows; a nest if the model does.

    Same arguments, same promises and refusals as `evaluate`; the model need not be compiled.
    """
    checks.keras_model(model, rule="Predictions are a Keras model's.")
    batches = _batches((x,), batch_size)
    step = _compiled(_predict_steps, model, batches[0], _predict_step)
    weights, state = _values(model.trainable_variables), _values(model.non_trainable_variables)
    outputs = []
    for batch in batches:
        output, state = step((weights, state), _placed(batch))
        outputs.append(jax.tree.map(np.asarray, output))
    _assign(model.non_trainable_variables, state)
    return jax.tree.map(lambda *parts: np.concatenate(parts), *outputs)


class Validation(keras.callbacks.Callback):
    """Adds exact `val_…` logs at the end of every epoch, in place of `validation_data`.

    Takes what `evaluate` takes. Place it before the callbacks that read those logs, EarlyStopping
    for one: Keras calls them in the order of the list.
    """

    def __init__(self, x: Any, y: Any = None, *, sample_weight: Any = None, batch_size: int = 32):
        super().__init__()
        self._data, self._sample_weight, self._batch_size = (x, y), sample_weight, batch_size

    def on_train_begin(self, logs: dict | None = None) -> None:
        del logs
        # Here, not at the end of a long first epoch, a wrong batch size is found.
        _batches((*self._data, self._sample_weight), self._batch_size)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        del epoch
        options = {"sample_weight": self._sample_weight, "batch_size": self._batch_size}
        values = evaluate(self.model, *self._data, **options)
        if logs is not None:
            logs.update({f"val_{name}": value for name, value in values.items()})


# The step of each model, beside the distribution and the metrics that it was made for.
_test_steps: weakref.WeakKeyDictionary[keras.Model, Any] = weakref.WeakKeyDictionary()
_predict_steps: weakref.WeakKeyDictionary[keras.Model, Any] = weakref.WeakKeyDictionary()


def _compiled(steps, model, batch, make):
    """Return a model's jitted step, made once, and again after `compile` renewed the metrics."""
    made_for, step = steps.get(model, (None, None))
    if made_for != (wanted := (keras.distribution.distribution(), model.metrics)):
        _build(model, batch)
        # The step must not keep alive the model that it is remembered for.
        step = make(weakref.proxy(model))
        steps[model] = wanted, step
    return step


def _test_step(model):
    def step(weights, state, batch):
        logs, (_, *state) = model.test_step((weights, *state), batch)
        return logs, tuple(state)

    # Nothing is donated: that is how Keras loses the weights when a later batch fails.
    return jax.jit(step)


def _predict_step(model):
    return jax.jit(lambda state, batch: model.predict_step(state, batch))


def _build(model, batch):
    """Create the variables that a model and its compiled loss and metrics make at their first call.

    Within a trace they could not be. The whole batch, because a model may want that many rows.
    """
    x, y, sample_weight = (*_placed(batch), None, None)[:3]
    with keras.StatelessScope():
        y_pred = model(x)
    if len(batch) > 1:
        model.compute_loss(x, y, y_pred, sample_weight)
        model.compute_metrics(x, y, y_pred, sample_weight)


def _batches(data, batch_size):
    """Cut a tuple of nests of arrays into a list of batches, the last one as short as it comes."""
    rows, batch_size, *_ = plan_batches(count_rows(data), batch_size, replicas())
    data = jax.tree.map(np.asarray, data)
    return [
        jax.tree.map(lambda array, start=start: array[start : start + batch_size], data)
        for start in range(0, rows, batch_size)
    ]


def _placed(batch):
    """Put a batch on the devices: split over them if its rows divide, else whole on each."""
    distribution = keras.distribution.distribution()
    if distribution is None:
        return batch
    splits = count_rows(batch) % replicas() == 0
    whole = jax.sharding.NamedSharding(
        distribution.device_mesh.backend_mesh, jax.sharding.PartitionSpec()
    )

    def layout(array):
        return distribution.get_data_layout(array.shape).backend_layout if splits else whole

    return jax.tree.map(lambda array: jax.device_put(array, layout(array)), batch)


def _weight_each_output(y, sample_weight):
    """Repeat one array of weights for every output, as Keras does."""
    if keras.tree.is_nested(sample_weight) or not keras.tree.is_nested(y):
        return sample_weight
    return keras.tree.map_structure(lambda _: sample_weight, y)


def _values(variables):
    return [variable.value for variable in variables]


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _plain(value):
    value = np.asarray(value)
    return value if value.ndim else float(value)
