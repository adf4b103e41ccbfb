"""A watch over loss scale, updates and weights: training that does nothing any more is stopped.

    model.fit(x, y, callbacks=[LossScaleWatch()])

Keras halves the loss scale and skips the update whenever a gradient overflows, without a word,
until the scale is 0.0 and the weights are NaN.
"""

import functools
import math
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pandas as pd


class LossScaleWatch(keras.callbacks.Callback):
    """Raises RuntimeError, and so ends `fit`, when training has gone wrong for good.

    That is when a weight is inf or NaN, when a dynamic loss scale is below `floor`, or when no
    trainable weight has changed for `every` steps (or for as many as gradients are accumulated).
    It looks once in `every` steps and at the end, so it acts within two times `every` steps of the
    event, and the steps between run as if it were not there. Batch callbacks see a fused group or
    a `steps_per_execution` as one, so there it looks after the group that completes `every` steps.

    At each look the weights are copied on their device: one copy is kept, and for a moment there
    are two. When some are no longer finite, all are put back to the last copy before the error is
    raised; the optimizer is left as it was found. In the other cases the weights are left alone.

    `trace` tells what the looks of the last `fit` saw. The optimizer may be a
    `LossScaleOptimizer`, or any other, which has no scale to fall.

    Raises ValueError when `every` is not a positive integer or `floor` no positive finite number,
    and RuntimeError in `fit` when Keras does not run on JAX or weights are not finite to begin
    with.
    """

    def __init__(self, *, floor=1.0, every=25):
        super().__init__()
        self.floor, self.every = _floor(floor), _every(every)
        self._looks = []

    @property
    def trace(self):
        """A DataFrame with a row for each look.

        Columns: `step` since the beginning of `fit`, loss `scale` (NaN without one), and the
        `updates` applied since the row before; under a dynamic scale the other steps were skipped.
        """
        return pd.DataFrame(self._looks, columns=list(Look._fields))

    def on_train_begin(self, logs=None):
        """Take the first copy."""
        del logs
        _check_backend()
        model = self.model
        self._watched = _watched(model)
        self._step = self._epoch_start = self._last_moved = 0
        self._copies = _copy(_values(self._watched))
        if bad := _not_finite(self._watched):
            raise RuntimeError(
                "Weights must be finite before they are trained. Received: inf or NaN in "
                f"{bad[0]!r}. Restore a checkpoint, or build the model anew."
            )
        scale, iterations = _counters(model.optimizer)
        self._iterations = int(iterations)
        self._looks = [Look(0, float(scale), 0)]

    def on_epoch_begin(self, epoch, logs=None):
        """Count on from the epoch before."""
        del epoch, logs
        self._epoch_start = self._step

    def on_train_batch_end(self, batch, logs=None):
        """Look, if it is time."""
        del logs
        self._step = self._epoch_start + batch + 1
        if self._step - self._looks[-1].step >= self.every:
            self._look()

    def on_train_end(self, logs=None):
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
        scale, iterations = _counters(optimizer)
        counters = scale, iterations, self._iterations
        seen, copies = _compare(_values(self._watched), self._copies, counters, moves)
        finite, moved, scale, updates = np.asarray(seen).tolist()
        self._looks.append(Look(self._step, scale, round(updates)))
        self._iterations += round(updates)
        if not finite:
            bad = _not_finite(self._watched)
            for variable, value in zip(self._watched, self._copies, strict=True):
                variable.assign(value)
            raise RuntimeError(self._broken(bad))
        self._copies = copies
        if scale < self.floor:
            raise RuntimeError(self._below_floor())
        if moved:
            self._last_moved = self._step
        elif self._step - self._last_moved >= max(self.every, _accumulated(optimizer)):
            raise RuntimeError(self._stuck())

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


class Look(NamedTuple):
    """What one look saw; `updates` counts those since the look before."""

    step: int
    scale: float
    updates: int


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


def _counters(optimizer):
    """The loss scale, NaN if there is none, and the number of updates, still on the device."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        scale = optimizer.dynamic_scale.value
    else:
        scale = optimizer.loss_scale_factor or math.nan
    return scale, keras.ops.convert_to_tensor(optimizer.iterations)


def _values(variables):
    return [variable.value for variable in variables]


@jax.jit
def _copy(values):
    # The training step gives its arguments away, so what is kept must be an array of its own.
    return [jnp.copy(value) for value in values]


@functools.partial(jax.jit, static_argnames="moves")
def _compare(values, before, counters, moves):
    """Return copies, after one array: whether all are finite and any moved, scale, updates."""
    scale, iterations, iterations_before = counters
    finite = jnp.array([jnp.isfinite(value).all() for value in values]).all()
    pairs = [(a, b) for a, b, moving in zip(values, before, moves, strict=True) if moving]
    moved = jnp.array([(a != b).any() for a, b in pairs]).any()
    return jnp.array([finite, moved, scale, iterations - iterations_before], "float32"), _copy(
        values
    )


def _check_backend():
    if keras.config.backend() != "jax":
        raise RuntimeError(
            "The watch reads the state of a training step on the JAX backend. "
            f"Received: Keras on {keras.config.backend()}. "
            "Set KERAS_BACKEND=jax before Keras is imported."
        )


def _every(every):
    try:
        number = 0 if isinstance(every, bool) else operator.index(every)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(
            "The number of steps between two looks must be a positive integer. "
            f"Received: every={every!r}. Pass for example 25."
        )
    return number


def _floor(floor):
    if not (isinstance(floor, int | float | np.number) and 0 < floor < math.inf):
        raise ValueError(
            "The floor of the loss scale must be a positive finite number. "
            f"Received: floor={floor!r}. Pass 1.0, or less where gradients are truly large."
        )
    return float(floor)
