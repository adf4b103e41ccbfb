"""Does the input pipeline keep the model waiting? Compare it with one batch, repeated."""

import contextlib
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np

from chapter18._shared import checks


class Starvation(NamedTuple):
    """Seconds of `steps` training steps fed by the pipeline, and by one batch repeated.

    `share` is the part of the time, 0 to 1, in which training waits for input.
    """

    steps: int
    pipeline_seconds: float
    repeated_seconds: float
    share: float

    def __str__(self) -> str:
        return (
            f"{self.steps} steps: {self.pipeline_seconds:.2f} s from the pipeline, "
            f"{self.repeated_seconds:.2f} s from one repeated batch; "
            f"training waits for input {self.share:.0%} of the time."
        )


def measure_starvation(
    model: keras.Model,
    pipeline: Any,
    *,
    steps: int,
    rounds: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> Starvation:
    """Return the `Starvation` of training `model` from `pipeline`.

    - `pipeline`: what `fit` takes as its only data (a `PyDataset`, a Grain data set or loader, a
      `tf.data.Dataset`), which can be read more than once.
    - `steps`: training steps to time; no more than the pipeline has full batches, and many, because
      the start of the pipeline counts, as it does in every epoch.
    - `rounds`: how often, in turns; the fastest of each counts, so that compilation does not.
    - `clock`: a function that returns seconds.

    Time spent inside the pipeline's `next()` would mislead: it passes while the devices still
    compute. Weights, optimizer state and `model.history` are put back, whatever happens, for which
    a second copy of them is held meanwhile. The pipeline itself has been read.

    Raises TypeError when it is no Keras model; ValueError when it is not compiled or built, when
    `steps` or `rounds` is not a positive integer, or when the pipeline is an array or a nest of
    arrays, can be read only once or ends too early.
    """
    checks.compiled(model, rule="The meter trains a compiled model.")
    checks.built(model, rule="The meter keeps a copy of the weights, so the model must have them.")
    steps, rounds = (
        checks.positive_integer(
            value, name, rule="Steps and rounds are positive integers.", remedy="Pass 1 or more."
        )
        for name, value in (("steps", steps), ("rounds", rounds))
    )
    _check_pipeline(pipeline)
    batch = _first_batch(pipeline)
    fed, repeated = [], []
    with _state_kept(model):
        # The first run compiles.
        _seconds(model, _repeat(batch, steps), steps, clock)
        for _ in range(rounds):
            fed.append(_seconds(model, pipeline, steps, clock))
            repeated.append(_seconds(model, _repeat(batch, steps), steps, clock))
    share = max(0.0, 1 - min(repeated) / min(fed))
    return Starvation(steps, min(fed), min(repeated), share)


class _Stopwatch(keras.callbacks.Callback):
    """Times one epoch. Its end waits for the last step, whose loss is among the logs."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def on_epoch_begin(self, *_):
        self.started = self.clock()

    def on_epoch_end(self, *_):
        self.seconds = self.clock() - self.started


def _seconds(model, data, steps, clock):
    watch = _Stopwatch(clock)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", r"\s*Your input ran out of data", UserWarning)
        try:
            model.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0, callbacks=[watch])
        except UserWarning as cause:
            raise ValueError(
                "The pipeline must last for all the steps that are timed. "
                f"Received: steps={steps}, and it ended before. Time fewer steps."
            ) from cause
    return watch.seconds


def _repeat(batch, steps):
    return (batch for _ in range(steps))  # of iterators, `fit` takes only generators


def _first_batch(pipeline):
    is_py_dataset = isinstance(pipeline, keras.utils.PyDataset)
    batch = pipeline[0] if is_py_dataset else next(iter(pipeline))
    return jax.tree.map(np.asarray, tuple(batch) if isinstance(batch, list | tuple) else (batch,))


@contextlib.contextmanager
def _state_kept(model):
    """On exit, put back weights, random states, optimizer state and history."""
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    variables = [*model.variables, *model.optimizer.variables]
    # Copies, because a training step gives the memory of its inputs away.
    values = [jnp.copy(variable.value) for variable in variables]
    history = getattr(model, "history", None)
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        model.reset_metrics()
        model.history = history


def _check_pipeline(pipeline):
    if hasattr(pipeline, "shape") or isinstance(pipeline, list | tuple | dict):
        raise ValueError(
            "The meter times a pipeline; arrays in memory do not keep training waiting. "
            f"Received: {type(pipeline).__name__}. "
            "Pass a PyDataset, a Grain data set or a tf.data.Dataset that gives batches."
        )
    if hasattr(pipeline, "__next__"):
        raise ValueError(
            "The pipeline is read several times. "
            f"Received: {type(pipeline).__name__}, which can be read only once. "
            "Pass what makes the iterator, a PyDataset, a Grain data set or a tf.data.Dataset."
        )
