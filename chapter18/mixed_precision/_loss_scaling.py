"""A watch over loss scale, updates and weights: training that does nothing any more is stopped.

    model.fit(x, y, callbacks=[LossScaleWatch()])

Keras (3.15 and 3.16) halves the loss scale and skips the update whenever a gradient overflows,
without a word, until the scale is 0.0 and the weights are NaN.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pandas as pd

from chapter18._shared import checks


class Look(NamedTuple):
    """What one look saw; updates applied and steps skipped are those since the look before."""

    step: int
    scale: float
    updates: int
    skipped: int


class LossScaleWatch(keras.callbacks.Callback):
    """Raises RuntimeError, and so ends `fit`, when training has gone wrong for good.

    That is when a weight is inf or NaN, when a dynamic loss scale is below `floor`, or when no
    trainable weight has changed for `every` steps that could have changed one. It looks once in
    `every` steps and at the end, so it acts within two times `every` steps of the event, and the
    steps between run as if it were not there. Batch callbacks see a fused group or a
    `steps_per_execution` as one, so there it looks after the group that completes `every` steps.

    What delays an update is waited for: accumulated gradients, a learning rate of 0 that comes from
    a schedule, and a dynamic scale that still searches its way down. Where `floor` allows a scale
    below 1, `every` skipped steps in a row end the search there. A fixed learning rate of 0 never
    changes a weight, and is told.

    At each look the weights are copied on their device: one copy is kept, and for a moment there
    are two. When some are no longer finite, all are put back to the last copy before the error is
    raised; the optimizer is left as it was found. In the other cases the weights are left alone.

    `trace` tells what the looks of the last `fit` saw. The optimizer may be a
    `LossScaleOptimizer`, or any other, which has no scale to fall.

    Raises ValueError when `every` is not a positive integer or `floor` no positive finite number,
    and RuntimeError in `fit` when Keras does not run on JAX or weights are not finite to begin
    with.
    """

    def __init__(self, *, floor: float = 1.0, every: int = 25):
        super().__init__()
        self.floor = _floor(floor)
        self.every = checks.positive_integer(
            every,
            "every",
            rule="The number of steps between two looks must be a positive integer.",
            remedy="Pass for example 25.",
        )
        self._looks: list[Look] = []

    @property
    def trace(self) -> pd.DataFrame:
        """A DataFrame with a row for each look.

        Columns: `step` since the beginning of `fit`, loss `scale` (NaN without one), and, since the
        row before, the `updates` applied and the steps that a dynamic scale `skipped`. The other
        steps only accumulated gradients.
        """
        return pd.DataFrame(self._looks, columns=list(Look._fields))

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Take the first copy."""
        del logs
        checks.on_jax(rule="The watch reads the state of a training step on the JAX backend.")
        model = self.model
        self._watched = _watched(model)
        self._step = self._epoch_start = self._last_moved = self._last_taken = self._waited = 0
        self._rested = False
        self._copies = _copy(_values(self._watched))
        if bad := _not_finite(self._watched):
            raise RuntimeError(
                "Weights must be finite before they are trained. Received: inf or NaN in "
                f"{bad[0]!r}. Restore a checkpoint, or build the model anew."
            )
        scale, taken = _counters(model.optimizer)
        self._taken = int(taken)
        self._looks = [Look(0, float(scale), 0, 0)]

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Count on from the epoch before."""
        del epoch, logs
        self._epoch_start = self._step

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Look, if it is time."""
        del logs
        self._step = self._epoch_start + batch + 1
        if self._step - self._looks[-1].step >= self.every:
            self._look()

    def on_train_end(self, logs: dict | None = None) -> None:
        """Look at what the last steps did, and whether `fit` was too short to accumulate."""
        del logs
        if self._step > self._looks[-1].step:
            self._look()
        if self._last_moved == 0 < self._step < _accumulated(self.model.optimizer):
            raise RuntimeError(self._stuck())

    def _look(self):
        # Reading `self.model` makes Keras put its training state back into the variables.
        optimizer = self.model.optimizer
        moves = tuple(_moves(variable) for variable in self._watched)
        counters = *_counters(optimizer), self._taken
        seen, copies = _compare(_values(self._watched), self._copies, counters, moves)
        finite, moved, scale, taken = np.asarray(seen).tolist()
        self._write_down(scale, round(taken), _accumulated(optimizer))
        if not finite:
            bad = _not_finite(self._watched)
            for variable, value in zip(self._watched, self._copies, strict=True):
                variable.assign(value)
            raise RuntimeError(self._broken(bad))
        self._copies = copies
        if scale < self.floor:
            raise RuntimeError(self._below_floor())
        if self._waits_in_vain(bool(moved), round(taken), optimizer):
            raise RuntimeError(self._stuck())

    def _write_down(self, scale, taken, accumulated):
        before = self._taken
        self._taken += taken
        updates = self._taken // accumulated - before // accumulated
        skipped = self._step - self._looks[-1].step - taken
        self._looks.append(Look(self._step, scale, updates, skipped))

    def _waits_in_vain(self, moved, taken, optimizer):
        """Whether, since a weight changed, enough steps passed that could have changed one."""
        if taken:
            self._last_taken = self._step
        if moved:
            self._last_moved, self._waited, self._rested = self._step, 0, False
            return False
        # The learning rate may have left 0 after the last update that was due.
        rested, self._rested = self._rested, _rests(optimizer)
        self._waited = 0 if rested or self._rested else self._waited + taken
        skipping = self._looks[-1].scale < 1 and self._step - self._last_taken >= self.every
        return skipping or self._waited >= max(self.every, _accumulated(optimizer))

    def _broken(self, bad):
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        return (
            f"Weights must stay finite. Received: inf or NaN in {bad[0]!r}{more} after step "
            f"{self._step}; all weights are back to those of step {self._looks[-2].step}. Look for "
            "inf and NaN in the data, lower the learning rate or a fixed loss scale, or train "
            "under mixed_bfloat16; compile again before training on."
        )

    def _below_floor(self):
        before, look = self._looks[-2:]
        return (
            f"A dynamic loss scale must stay at or above its floor of {self.floor:g}. Received: a "
            f"scale of {look.scale:g} after step {look.step}, {look.updates} updates in the last "
            f"{look.step - before.step} steps; the weights are finite. Look for inf and NaN in the "
            "data and for values above 65504, or train under mixed_bfloat16, which needs no scale."
        )

    def _stuck(self):
        look = self._looks[-1]
        scale = "" if math.isnan(look.scale) else f", loss scale {look.scale:g}"
        return (
            f"Training must change the weights. Received: not one changed after step "
            f"{self._last_moved}, up to step {look.step}{scale}; the weights are finite. Look for "
            "gradients that are inf, NaN or all zero, a learning rate near zero, updates too small "
            "for 16-bit weights, or more accumulation steps than steps."
        )


def _watched(model):
    """The floating variables that must stay finite, averages that overwrite weights included."""
    averages = model.optimizer.variables if _inner(model.optimizer).use_ema else []
    variables = (*model.trainable_variables, *model.non_trainable_variables, *averages)
    return [v for v in variables if keras.backend.is_float_dtype(v.dtype)]


def _not_finite(variables):
    return [v.path for v in variables if not jnp.isfinite(v.value).all()]


def _moves(variable):
    # Float8's scales and histories are rewritten at every step, whatever the optimizer does.
    return variable.trainable and not variable.overwrite_with_gradient


def _inner(optimizer):
    return getattr(optimizer, "inner_optimizer", optimizer)


def _accumulated(optimizer):
    return _inner(optimizer).gradient_accumulation_steps or 1


def _rests(optimizer):
    """Whether a schedule, or any function that gives the learning rate, has it at 0 now."""
    rate = optimizer.learning_rate
    return not isinstance(rate, keras.Variable) and float(rate) == 0


def _counters(optimizer):
    """The loss scale, NaN if there is none, and the number of steps that were not skipped, still
    on the device; `optimizer.iterations` would count updates, without those that accumulate."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        scale = optimizer.dynamic_scale.value
    else:
        scale = optimizer.loss_scale_factor or math.nan
    variables = _inner(optimizer).variables
    return scale, next(v.value for v in variables if v.name == "iteration")


def _values(variables):
    return [variable.value for variable in variables]


@jax.jit
def _copy(values):
    # The training step gives its arguments away, so what is kept must be an array of its own.
    return [jnp.copy(value) for value in values]


@functools.partial(jax.jit, static_argnames="moves")
def _compare(values, before, counters, moves):
    """Return copies, after one array: whether all are finite and any moved, scale, steps taken."""
    scale, taken, taken_before = counters
    finite = jnp.array([jnp.isfinite(value).all() for value in values]).all()
    pairs = [(a, b) for a, b, moving in zip(values, before, moves, strict=True) if moving]
    moved = jnp.array([(a != b).any() for a, b in pairs]).any()
    return jnp.array([finite, moved, scale, taken - taken_before], "float32"), _copy(values)


def _floor(floor):
    if not (isinstance(floor, int | float | np.number) and 0 < floor < math.inf):
        raise ValueError(
            "The floor of the loss scale must be a positive finite number. "
            f"Received: floor={floor!r}. Pass 1.0, or less where gradients are truly large."
        )
    return float(floor)
