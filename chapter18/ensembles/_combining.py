"""The weighted means of class probabilities.

`arrays` holds one array `(samples, classes)` a member, `shares` `(members,)` their weights,
non-negative and summing to 1.
"""

import numpy as np
from scipy.special import logsumexp, softmax
from scipy.stats import rankdata

FLOOR = 1e-15  # probabilities are raised to this before a log, so that one zero is not infinite


def arithmetic(arrays, shares):
    """Return the weighted sum `(samples, classes)`, in float64."""
    return sum(w * p.astype(float) for w, p in zip(shares, arrays, strict=True))


def geometric(arrays, shares):
    """Return the mean of log-probabilities, back as probabilities whose rows sum to 1."""
    return softmax(np.tensordot(shares, _logs(arrays), axes=1), axis=1)


def power(arrays, shares, exponent):
    """Return the root of the mean of powers; rows sum to 1. `exponent`: as `check_power` returns.

    In logs, so that a large or negative power of a tiny probability neither under- nor overflows.
    """
    powers = exponent * _logs(arrays)
    return softmax(logsumexp(powers, axis=0, b=shares[:, None, None]) / exponent, axis=1)


def rank(arrays, shares):
    """Return the mean rank of each value in its column, scaled to (0, 1]."""
    # As float64: newer SciPy ranks float32 in float32, too coarse for many rows.
    return arithmetic([rankdata(p.astype(float), axis=0) / len(p) for p in arrays], shares)


KINDS = {"mean": arithmetic, "geometric": geometric, "power": power, "rank": rank}


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
