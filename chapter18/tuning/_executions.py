"""The executions of a trial: each one seeded, trained without per-batch work, and measured."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import keras_tuner as kt
import numpy as np

from chapter18.tuning import _spaces


class Execution(NamedTuple):
    """What one training run of a trial gave. Epochs count from 1; None where there were none."""

    score: float
    best_epoch: int | None
    epochs: int | None


def execution_seed(seed: int, trial_id: str, execution: int) -> int:
    """Return the seed, below 2**32, of one execution (counted from 0) of a trial.

    It depends on nothing else, so a resumed search trains as an uninterrupted one would have.
    """
    trial = int(trial_id) if trial_id.isdigit() else int.from_bytes(trial_id.encode(), "big")
    return int(np.random.SeedSequence([seed, trial, execution]).generate_state(1)[0])


class TrialRun:
    """One trial while it runs: `tuner` trains the executions of `trial`."""

    def __init__(self, tuner, trial, *, settings):
        self.tuner, self.trial, self.settings = tuner, trial, settings
        self.started = time.perf_counter()
        self.fits = 0
        self.executions = []

    def prepare(self):
        """Seed the next execution, after undoing what clearing Keras' session undid."""
        self.settings()
        seed = execution_seed(self.tuner.base_seed, self.trial.trial_id, self.fits)
        keras.utils.set_random_seed(seed)

    def require_known(self, discovered):
        """Raise where a trial of a grid has `discovered` what the trials before it lack."""
        grid = isinstance(self.tuner, kt.GridSearch) and self.tuner.oracle.tune_new_entries
        if discovered and grid:
            raise _spaces.late(discovered[0].name, self.trial.trial_id)

    def callbacks(self, callbacks, *, check):
        """Replace Keras Tuner's own callback by one without batch hooks, where none is overridden.

        Its own reads `self.model` after each batch, for which JAX must hand its state back.
        """
        for hook in ("on_batch_begin", "on_batch_end"):
            if getattr(type(self.tuner), hook) is not getattr(kt.Tuner, hook):
                return callbacks
        return [
            EpochCallback(self, check=check) if getattr(each, "tuner", None) is self.tuner else each
            for each in callbacks
        ]

    def measure(self, results):
        """Keep the `Execution` behind each of the results that the tuner got."""
        results = results if isinstance(results, list) else [results]
        objective = self.tuner.oracle.objective
        self.executions = [_measured(each, objective) for each in results if each is not None]

    def unusable(self):
        """Return why the score is not a finite number, or None."""
        for number, execution in enumerate(self.executions, start=1):
            if not np.isfinite(execution.score):
                name = self.tuner.oracle.objective.name
                return f"{name} was {execution.score} in execution {number}."
        return None

    def record(self):
        """Return what JSON can hold of this run."""
        return {
            "executions": [execution._asdict() for execution in self.executions],
            "seconds": time.perf_counter() - self.started,
            "message": self.trial.message,
        }


class EpochCallback(keras.callbacks.Callback):
    """Passes the epochs of a trial on to the tuner's `on_epoch_begin` and `on_epoch_end`."""

    def __init__(self, run, *, check):
        super().__init__()
        self.run, self.check = run, check

    def on_epoch_begin(self, epoch, logs=None):
        self.run.tuner.on_epoch_begin(self.run.trial, self.model, epoch, logs=logs)

    def on_epoch_end(self, epoch, logs=None):
        if self.check:
            require_objective(self.run.tuner.oracle.objective, logs)
        self.run.tuner.on_epoch_end(self.run.trial, self.model, epoch, logs=logs)


class TrackedHyperModel(kt.HyperModel):
    """A hypermodel that builds and fits as the one it wraps, under the rules of `run`, if any."""

    def __init__(self, hypermodel, definitions):
        if not isinstance(hypermodel, kt.HyperModel) and not callable(hypermodel):
            raise TypeError(
                "`hypermodel` must be a function build(hp) or a keras_tuner.HyperModel. "
                f"Received: {hypermodel!r}. Pass the function itself, without calling it."
            )
        self.wrapped = hypermodel
        self.definitions = definitions
        self.run = None
        super().__init__(name=getattr(hypermodel, "name", None))

    def __getattr__(self, name):
        if name == "wrapped":
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    def declare_hyperparameters(self, hp):
        if isinstance(self.wrapped, kt.HyperModel):
            with self.definitions.followed(hp):
                self.wrapped.declare_hyperparameters(hp)

    def build(self, hp):
        if self.run is not None:
            self.run.prepare()
        _make_whole(hp)
        wrapped, known = self.wrapped, len(hp.space)
        with self.definitions.followed(hp):
            model = wrapped.build(hp) if isinstance(wrapped, kt.HyperModel) else wrapped(hp)
        if self.run is not None:
            self.run.require_known(hp.space[known:])
        if "tuner/trial_id" in hp.values:
            # Hyperband goes on from a saved trial; an unbuilt optimizer would lose its state.
            build_optimizer(model)
        return model

    def fit(self, hp, model, *args, **kwargs):
        own = isinstance(self.wrapped, kt.HyperModel)
        if self.run is not None:
            # A fit of the user's own may add to the logs; a validation_freq leaves epochs without.
            plain = not own or type(self.wrapped).fit is kt.HyperModel.fit
            check = plain and kwargs.get("validation_freq", 1) == 1
            kwargs["callbacks"] = self.run.callbacks(kwargs["callbacks"], check=check)
            self.run.fits += 1
        return self.wrapped.fit(hp, model, *args, **kwargs) if own else model.fit(*args, **kwargs)


def _make_whole(hp):
    """Make the values of each `Int` ints: on a log scale Keras Tuner's grid search gives floats."""
    for each in hp.space:
        value = hp.values.get(each.name)
        if isinstance(each, kt.engine.hyperparameters.Int) and isinstance(value, float):
            hp.values[each.name] = round(value)


def build_optimizer(model: keras.Model) -> None:
    """Create the variables of the optimizer, if there is one, so that they can be loaded."""
    optimizer = getattr(model, "optimizer", None)
    if model.built and optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)


def require_objective(objective: kt.Objective, logs: Mapping[str, Any]) -> None:
    """Raise `keras_tuner.errors.FatalValueError` unless the objective stands among the logs."""
    if not objective.has_value(logs):
        raise kt.errors.FatalValueError(
            "The objective must be one of the values that training logs. "
            f"Received: {objective}, but the logs hold {', '.join(sorted(logs)) or 'nothing'}. "
            "Choose one of these, compile the metric under that name, or pass validation_data for "
            "a name that starts with val_."
        )


def _measured(result, objective):
    """Like Keras Tuner: the best epoch of a `History`, the objective of a dict, or a number."""
    if isinstance(result, dict):
        result = result.get(objective.name, np.nan)
    if not isinstance(result, keras.callbacks.History):
        return Execution(float(result), None, None)
    history = result
    require_objective(objective, history.history)
    epochs = zip(*history.history.values(), strict=False)
    logs = (dict(zip(history.history, epoch, strict=True)) for epoch in epochs)
    scores = [float(objective.get_value(log)) for log in logs]
    best = 0
    for epoch, score in enumerate(scores):
        if objective.better_than(score, scores[best]):
            best = epoch
    return Execution(scores[best], history.epoch[best] + 1, len(history.epoch))
