"""Combine members: the weighted means of class probabilities.

In what is not public, `arrays` holds one array `(samples, classes)` a member, and `shares`
`(members,)` their weights, non-negative and summing to 1.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import logsumexp, softmax
from scipy.stats import rankdata

from chapter18.ensembles._members import (
    Classes,
    Predictions,
    Probabilities,
    Weights,
    check_members,
    check_weights,
)

FLOOR = 1e-15  # probabilities are raised to this before a log, so that one zero is not infinite


def combine(
    predictions: Predictions,
    weights: Weights | None = None,
    kind: Literal["mean", "geometric", "power", "rank"] = "mean",
    *,
    power: float | None = None,
    classes: Classes | None = None,
) -> Probabilities:
    """Combine members into one array `(samples, classes)`.

    `kind`: "mean", the weighted arithmetic mean; "geometric", the mean of log-probabilities;
    "power", the mean of the probabilities' `power`-th powers (default 2), rooted; "rank", each
    column's values replaced by their rank among the rows, scaled to (0, 1], then averaged. The
    first three return rows that sum to 1; ranks are scores for ordering rows, not probabilities.

    `weights`: `(members,)`, non-negative, scaled here to sum to 1; uniform when None.
    Raises ValueError for a member whose rows are others, not finite or do not sum to 1, and for an
    unfit weight, kind or power.
    """
    members = check_members(predictions, classes=classes)
    shares = check_weights(weights, members)
    if kind not in KINDS:
        raise ValueError(
            f"`kind` must be one of {sorted(KINDS)}. Received: kind={kind!r}. "
            'Leave it out for the arithmetic mean, kind="mean".'
        )
    if kind == "power":
        return _power(members.probabilities, shares, check_power(power))
    if power is not None:
        raise ValueError(
            f'`power` belongs to kind="power". Received: kind={kind!r}, power={power!r}. '
            "Leave `power` out, or change the kind."
        )
    return KINDS[kind](members.probabilities, shares)


def arithmetic(arrays, shares):
    """Return the weighted sum `(samples, classes)`, in float64."""
    return sum(w * p.astype(float) for w, p in zip(shares, arrays, strict=True))


def geometric(arrays, shares):
    """Return the mean of log-probabilities, back as probabilities whose rows sum to 1."""
    return softmax(np.tensordot(shares, _logs(arrays), axes=1), axis=1)


def _power(arrays, shares, exponent):
    """Return the root of the mean of powers; rows sum to 1. `exponent`: as `check_power` returns.

    In logs, so that a large or negative power of a tiny probability neither under- nor overflows.
    """
    powers = exponent * _logs(arrays)
    return softmax(logsumexp(powers, axis=0, b=shares[:, None, None]) / exponent, axis=1)


def rank(arrays, shares):
    """Return the mean rank of each value in its column, scaled to (0, 1]."""
    # As float64: newer SciPy ranks float32 in float32, too coarse for many rows.
    return arithmetic([rankdata(p.astype(float), axis=0) / len(p) for p in arrays], shares)


KINDS: dict[str, Callable] = {
    "mean": arithmetic,
    "geometric": geometric,
    "power": _power,
    "rank": rank,
}


def raised(probabilities):
    """Return the probabilities in float64, none below `FLOOR`."""
    return np.maximum(np.asarray(probabilities).astype(float), FLOOR)


def check_power(exponent):
    """Return the exponent as a float, 2 for None; raise ValueError at zero and beyond."""
    exponent = 2.0 if exponent is None else float(exponent)
    if not np.isfinite(exponent) or exponent == 0:
        raise ValueError(
            f"`power` must be finite and not zero. Received: power={exponent:g}. "
            'Its limit at zero is kind="geometric".'
        )
    return exponent


def _logs(arrays):
    return np.log(raised(np.stack(arrays)))
