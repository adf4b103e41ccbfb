"""What a batch and a floor must be for a loss of precision to show."""

import math
import numbers

import keras
import numpy as np


def check_floor(sqnr_floor: float) -> None:
    """Raise ValueError unless `sqnr_floor` is a number of dB; NaN would let anything through."""
    number = isinstance(sqnr_floor, numbers.Real) and not isinstance(sqnr_floor, bool)
    if not number or math.isnan(sqnr_floor):
        raise ValueError(
            "A floor is a number of dB that the copy must reach. "
            f"Received: sqnr_floor={sqnr_floor!r}. Pass for example 10.0, or -math.inf to "
            "accept any copy."
        )


def check(probe) -> None:
    """Raise ValueError when `probe`, an array or a nest of arrays, is empty or all zeros.

    Zeros are welcome where they are integers, as letters or classes are.
    """
    arrays = [np.asarray(leaf) for leaf in keras.tree.flatten(probe) if leaf is not None]
    empty = [array.shape for array in arrays if array.size == 0]
    if empty or not arrays:
        raise ValueError(
            "A copy is compared with its original on a probe batch of at least one sample. "
            f"Received: a probe with {f'an array of shape {empty[0]}' if empty else 'no array'}. "
            "Pass a batch of real inputs, for example x_val[:100]."
        )
    if not any(array.any() or array.dtype.kind in "iub" for array in arrays):
        raise ValueError(
            "A copy is compared with its original on inputs that its kernels act on. "
            "Received: a probe of zeros, which only biases answer. "
            "Pass a batch of real inputs, for example x_val[:100]."
        )


def check_signal(model: keras.Model, outputs: list) -> None:
    """Raise ValueError unless the `outputs` of `model` are finite, and not zeros alone."""
    if not all(np.isfinite(each).all() for each in outputs):
        raise ValueError(
            "The loss of precision is measured on finite predictions. "
            f"Received: {model.name!r}, which predicts NaN or infinity on the probe batch. "
            "Mend the model, or pass another probe."
        )
    if not any(each.any() for each in outputs):
        raise ValueError(
            "The loss of precision is measured against a signal: predictions other than zero. "
            f"Received: {model.name!r}, which predicts zeros alone on the probe batch. "
            "Mend the model, or pass another probe."
        )
