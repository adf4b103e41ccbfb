"""Real step fusing: one compiled call for k training steps, with the results of k plain steps.

    with steps.fuse(model, 32):
        model.fit(x, y, batch_size=16)

Keras' own `steps_per_execution` on JAX calls the compiled step k times from Python. Here the k
steps are one `jax.lax.scan`, so Python is asked once in k steps.
"""

import functools
import inspect
import itertools
import warnings

import jax
import jax.numpy as jnp
import keras
import numpy as np

from chapter18 import step_checks
from chapter18.batch_indices import valid_indices, with_progress_bar


def fuse(model, k):
    """Make `model.fit` run `k` training steps in one compiled call; return a `Fused` to undo it.

    Weights, optimizer state and history are those of plain steps to the last bit, under a
    distribution too. Groups of fewer than `k` batches, or of batches that differ in shape, run as
    single steps. As with `steps_per_execution`, batch callbacks are called once a group, with the
    indices of its first and last batch. `k` batches are in memory at once. `evaluate`, `predict`
    and `train_on_batch` stay what they were. Fusing again replaces `k`; `compile` ends fusing, as
    it ends every compiled step, and the next `fit` warns of it.

    Raises ValueError when `k` is not a positive integer, or when the model is not compiled, runs
    eagerly or without XLA, or brings its own `fit` or `make_train_function`; TypeError when it is
    not a Keras model; RuntimeError when Keras does not run on JAX. A `fit` whose `train_step`
    changes the shape or dtype of what it trains raises TypeError.
    """
    k = step_checks.count(k)
    step_checks.check_model(model)
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
        self._single = self._many = None

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
        step_checks.check_steps_per_epoch(call.arguments["steps_per_epoch"], self.k)
        callbacks = with_progress_bar(call.arguments["callbacks"], call.arguments["verbose"])
        before = self.model.steps_per_execution
        call.arguments["callbacks"] = [_EpochStart(self, before), *callbacks]
        with valid_indices(callbacks, lambda: self.drawn):
            self.model.steps_per_execution = self.k
            try:
                return self._plain_fit(*call.args, **call.kwargs)
            finally:
                self.model.steps_per_execution = before

    def _run_group(self, state, iterator):
        """Train on up to `k` batches; what `fit` calls in place of Keras' own training step."""
        batches = list(itertools.islice(iterator, self.k))
        if not batches:
            raise StopIteration
        if self._single is None:
            self._compile(state)
        self.drawn += len(batches)
        if len(batches) == self.k > 1 and _alike(batches):
            try:
                return self._many(state, _stack(batches))
            except TypeError:
                # Keras has taken the values out of the variables; untouched, they can go back.
                self._put_back(state)
                raise
        for batch in batches:
            logs, state = self._single(state, batch)
        return logs, state

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

    def _compile(self, state):
        """Jit the model's step and the scan over it, in the shardings that `state` has."""
        step = self.model.train_step
        options = {"donate_argnums": 0}
        if keras.distribution.distribution() is not None:
            options["out_shardings"] = (None, jax.tree.map(lambda leaf: leaf.sharding, state))

        def scan_step(state, batch):
            logs, new_state = step(state, batch)
            step_checks.check_unchanged(state, new_state)
            # A scan wants the very containers back; a user's own step may swap list for tuple.
            return jax.tree.unflatten(jax.tree.structure(state), jax.tree.leaves(new_state)), logs

        def many(state, batches):
            state, logs = jax.lax.scan(scan_step, state, batches)
            return jax.tree.map(lambda values: values[-1], logs), state

        self._single = jax.jit(step, **options)
        self._many = jax.jit(many, **options)


class _EpochStart(keras.callbacks.Callback):
    """Starts the count of batches anew; hands `steps_per_execution` back once `fit` has read it."""

    def __init__(self, fused, steps_per_execution):
        super().__init__()
        self.fused, self.steps_per_execution = fused, steps_per_execution

    def on_train_begin(self, *_):
        # Validation inside `fit` reads it too, and is not fused.
        self.fused.model.steps_per_execution = self.steps_per_execution

    def on_epoch_begin(self, *_):
        self.fused.drawn = 0


def _alike(batches):
    """Whether all batches have the same structure, shapes and dtypes, so that they stack."""
    first = _form(batches[0])
    return all(_form(batch) == first for batch in batches[1:])


def _form(batch):
    leaves, structure = jax.tree.flatten(batch)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _stack(batches):
    """Stack batches along a new first axis `(k, rows, …)`, where their arrays already are."""
    if all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(batches[0])):
        return jax.tree.map(lambda *leaves: np.stack(leaves), *batches)
    return _stack_on_devices(*batches)


@jax.jit
def _stack_on_devices(*batches):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *batches)
