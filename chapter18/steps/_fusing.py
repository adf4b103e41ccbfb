"""Real step fusing: one compiled call for k training steps, with the results of k plain steps.

    with steps.fuse(model, 32):
        model.fit(x, y, batch_size=16)

The k steps are one `jax.lax.scan`, so Python is asked once in k steps. Keras' own
`steps_per_execution` on JAX calls the compiled step k times from Python up to 3.15; from 3.16 on it
scans too, and fusing uses its scan. What fusing adds there: callbacks get the indices of batches
that exist, `train_on_batch`, `evaluate` and `predict` stay single steps, a training step may return
other containers than it got, and the model need not be compiled again. `KERAS_FUSES` says which of
the two this Keras is.
"""

import functools
import inspect
import warnings

import keras

from chapter18.steps import _checks, _scans
from chapter18.steps._batch_indices import valid_indices, with_progress_bar
from chapter18.steps._scans import KERAS_FUSES

__all__ = ["KERAS_FUSES", "Fused", "fuse"]


def fuse(model: keras.Model, k: int) -> "Fused":
    """Make `model.fit` run `k` training steps in one compiled call; return a `Fused` to undo it.

    Weights, optimizer state and history are those of plain steps to the last bit, under a
    distribution too. Groups of fewer than `k` batches, or of batches that differ in shape, run as
    single steps. As with `steps_per_execution`, batch callbacks are called once a group, with the
    indices of its first and last batch. `k` batches are in memory at once, from Keras 3.16 on with
    the next `k` on an accelerator. `evaluate`, `predict` and `train_on_batch` stay what they were.
    Fusing again replaces `k`; `compile` ends fusing, as it ends every compiled step, and the next
    `fit` warns of it.

    Raises ValueError when `k` is not a positive integer, or when the model is not compiled, runs
    eagerly or without XLA, or brings its own `fit` or `make_train_function`; TypeError when it is
    not a Keras model; RuntimeError when Keras does not run on JAX. A `fit` whose `train_step`
    changes the shape or dtype of what it trains raises TypeError.
    """
    k = _checks.count(k)
    _checks.check_model(model)
    current = getattr(model.fit, "fused", None)
    if current:
        current.undo()
    return Fused(model, k)


class Fused:
    """A model whose `fit` runs `k` steps in one call, until `undo` or the end of a `with` block."""

    def __init__(self, model, k):
        self.model, self.k = model, k
        self._plain_fit = model.fit
        self.drawn = 0
        self.scan, self._fitting = _scans.make(model, k), False

        @functools.wraps(self._plain_fit)
        def fit(*args, **kwargs):
            return self._fit(*args, **kwargs)

        fit.fused = self
        self._own_function = self._run_group
        model.fit, model.train_function = fit, self._own_function

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.undo()

    def undo(self):
        """Give the model its plain `fit` and training step back; a second call does nothing."""
        if getattr(self.model.fit, "fused", None) is not self:
            return
        del self.model.fit
        if self.model.train_function is self._own_function:
            self.model.train_function = None

    def _fit(self, *args, **kwargs):
        if self.model.train_function is not self._own_function:
            self.undo()
            warnings.warn(
                "compile() ended fusing: this fit runs single steps. Call steps.fuse again.",
                stacklevel=3,
            )
            return self._plain_fit(*args, **kwargs)
        call = inspect.signature(self._plain_fit).bind(*args, **kwargs)
        call.apply_defaults()
        _checks.check_steps_per_epoch(call.arguments["steps_per_epoch"], self.k)
        callbacks = with_progress_bar(call.arguments["callbacks"], call.arguments["verbose"])
        before = self.model.steps_per_execution
        call.arguments["callbacks"] = [_EpochStart(self, before), *callbacks]
        with valid_indices(callbacks, lambda: self.drawn):
            self.model.steps_per_execution, self._fitting = self.k, True
            try:
                return self._plain_fit(*call.args, **call.kwargs)
            finally:
                self.model.steps_per_execution, self._fitting = before, False

    def _run_group(self, state, iterator):
        """Train on up to `k` batches; what `fit` calls in place of Keras' own training step."""
        group, count = self.scan.draw(iterator, stacked=self._fitting)
        self.drawn += count
        try:
            return self.scan.run(state, group)
        except TypeError:
            # Keras has taken the values out of the variables; untouched, they can go back.
            self._put_back(state)
            raise

    def _put_back(self, state):
        model = self.model
        groups = (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
        for variables, values in zip(groups, state, strict=True):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)


class _EpochStart(keras.callbacks.Callback):
    """Starts the count of batches anew; hands `steps_per_execution` back once `fit` has read it."""

    def __init__(self, fused, steps_per_execution):
        super().__init__()
        self.fused, self.steps_per_execution = fused, steps_per_execution

    def on_train_begin(self, *_):
        self.fused.scan.prepare()
        # Validation inside `fit` reads it too, and is not fused.
        self.fused.model.steps_per_execution = self.steps_per_execution

    def on_epoch_begin(self, *_):
        self.fused.drawn = 0
