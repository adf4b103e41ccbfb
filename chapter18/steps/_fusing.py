"""Fuse a model: its `fit` runs groups of steps, and shows callbacks only batches that exist."""

import contextlib
import functools
import inspect
import itertools
import warnings

import keras

from chapter18._shared import checks
from chapter18.steps import _scans


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
    k = checks.positive_integer(
        k,
        "k",
        rule="The number of steps to fuse must be a positive integer.",
        remedy="Pass 1 or more, for example steps.fuse(model, 32).",
    )
    _check_model(model)
    current = getattr(model.fit, "fused", None)
    if current:
        current.undo()
    return Fused(model, k)


class Fused:
    """A model whose `fit` runs `k` steps in one call, until `undo` or the end of a `with` block."""

    def __init__(self, model: keras.Model, k: int):
        self.model, self.k = model, k
        self._plain_fit = model.fit
        self._drawn = 0
        self._scan, self._fitting = _scans.make(model, k), False

        @functools.wraps(self._plain_fit)
        def fit(*args, **kwargs):
            return self._fit(*args, **kwargs)

        fit.fused = self  # type: ignore[attr-defined]
        self._own_function = self._run_group
        model.fit, model.train_function = fit, self._own_function

    def __enter__(self) -> "Fused":
        return self

    def __exit__(self, *exception: object) -> None:
        self.undo()

    def undo(self) -> None:
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
        _check_steps_per_epoch(call.arguments["steps_per_epoch"], self.k)
        callbacks = _with_progress_bar(call.arguments["callbacks"], call.arguments["verbose"])
        before = self.model.steps_per_execution
        call.arguments["callbacks"] = [_EpochStart(self, before), *callbacks]
        with _valid_indices(callbacks, lambda: self._drawn):
            self.model.steps_per_execution, self._fitting = self.k, True
            try:
                return self._plain_fit(*call.args, **call.kwargs)
            finally:
                self.model.steps_per_execution, self._fitting = before, False

    def _run_group(self, state, iterator):
        """Train on up to `k` batches; what `fit` calls in place of Keras' own training step."""
        group, count = self._scan.draw(iterator, stacked=self._fitting)
        self._drawn += count
        try:
            return self._scan.run(state, group)
        except TypeError:
            # Keras has taken the values out of the variables; untouched, they can go back.
            self._put_back(state)
            raise

    def _put_back(self, state):
        model = self.model
        variables = (
            *model.trainable_variables,
            *model.non_trainable_variables,
            *model.optimizer.variables,
            *model.metrics_variables,
        )
        for variable, value in zip(variables, itertools.chain(*state), strict=True):
            variable.assign(value)


class _EpochStart(keras.callbacks.Callback):
    """Starts the count of batches anew; hands `steps_per_execution` back once `fit` has read it."""

    def __init__(self, fused, steps_per_execution):
        super().__init__()
        self.fused, self.steps_per_execution = fused, steps_per_execution

    def on_train_begin(self, *_):
        self.fused._scan.prepare()
        # Validation inside `fit` reads it too, and is not fused.
        self.fused.model.steps_per_execution = self.steps_per_execution

    def on_epoch_begin(self, *_):
        self.fused._drawn = 0


def _check_model(model):
    """Raise unless `model` is compiled by XLA, on JAX, and trained by Keras' own loop."""
    checks.on_jax(rule="Steps are fused on the JAX backend.")
    checks.compiled(model, rule="Steps are fused on a compiled Keras model.")
    if model.run_eagerly or not model.jit_compile:
        raise ValueError(
            "Fused steps are compiled by XLA. "
            f"Received: run_eagerly={model.run_eagerly}, jit_compile={model.jit_compile}. "
            "Compile the model with the defaults of both."
        )
    for name in ("fit", "make_train_function"):
        if getattr(type(model), name) is not getattr(keras.Model, name):
            raise ValueError(
                "Fusing replaces Keras' own training loop around train_step. "
                f"Received: {type(model).__name__}, which overrides {name}. "
                "Override train_step instead, which fusing keeps, or train it without fusing."
            )


def _check_steps_per_epoch(steps_per_epoch, k):
    """Raise ValueError unless an epoch, where its steps are given, has whole groups of `k`."""
    if steps_per_epoch is None or steps_per_epoch % k == 0:
        return
    divisor = max(n for n in range(1, k + 1) if steps_per_epoch % n == 0)
    raise ValueError(
        "steps_per_epoch must be a multiple of the steps fused, because Keras counts whole groups "
        f"and would draw batches past the end of the epoch. Received: steps_per_epoch="
        f"{steps_per_epoch}, k={k}. Fuse {divisor} steps, or change steps_per_epoch."
    )


def _with_progress_bar(callbacks, verbose):
    """Return `callbacks` (one, a nest or None) as a list, with the bar that `fit` would add."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        raise ValueError(
            "A fused model takes its callbacks one by one, to give each valid batch indices. "
            "Received: a CallbackList. Pass a list of callbacks instead."
        )
    callbacks = keras.tree.flatten(callbacks) if callbacks else []
    if verbose == 0 or any(isinstance(c, keras.callbacks.ProgbarLogger) for c in callbacks):
        return callbacks
    bar = keras.callbacks.ProgbarLogger()
    # Keras treats its own bar so; training would wait for any other after every group.
    bar.async_safe = True
    return [*callbacks, bar]


@contextlib.contextmanager
def _valid_indices(callbacks, drawn):
    """Meanwhile, cap the indices that batch hooks of `callbacks` get in training.

    `drawn()` is the number of batches drawn so far in the epoch. A batch begins at it at the
    latest, and ends before it: that stays right when Keras calls a hook later, from a thread. The
    callbacks themselves are changed, not wrapped, and changed back on exit: users compare them.
    """
    patched = []
    try:
        for callback in callbacks:
            for name, behind in (("on_train_batch_begin", 0), ("on_train_batch_end", 1)):
                if _overrides(callback, name):
                    patched.append((callback, name, vars(callback).get(name)))
                    setattr(callback, name, _capped(getattr(callback, name), drawn, behind))
        yield
    finally:
        for callback, name, own in reversed(patched):
            delattr(callback, name)
            if own is not None:
                setattr(callback, name, own)


def _overrides(callback, name):
    """Whether a hook does anything, itself or through the older name that it calls."""
    base = keras.callbacks.Callback
    return any(
        getattr(getattr(callback, hook), "__func__", None) is not getattr(base, hook)
        for hook in (name, name.replace("train_", ""))
    )


def _capped(hook, drawn, behind):
    def capped(batch, logs=None):
        return hook(min(batch, drawn() - behind), logs=logs)

    return capped
