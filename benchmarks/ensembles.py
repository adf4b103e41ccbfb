"""Weights for 8 members on 10,000 × 10 predictions: the convex solution against Nelder–Mead."""

import time

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from benchmarks.rows import Row
from chapter18.ensembles import fit_weights

MEMBERS, SAMPLES, CLASSES = 8, 10_000, 10


def measure():
    """Return one `Row`, the fastest of several runs of each, its result checked here."""
    predictions, y = _members()
    usual_seconds, usual_loss = _fastest(lambda: _nelder_mead_as_users_write_it(predictions, y), 2)
    ours_seconds, fitted = _fastest(lambda: fit_weights(predictions, y), 5)
    assert fitted.gap <= 1e-6, f"optimality gap {fitted.gap:g}"
    assert fitted.loss <= usual_loss + 1e-9, f"log-loss {fitted.loss} above {usual_loss}"
    note = f"log-loss {fitted.loss:.4f} (Nelder–Mead {usual_loss:.4f}), gap {fitted.gap:.0e}"
    return [
        Row(
            f"ensemble weights, {MEMBERS} members, {SAMPLES:,} × {CLASSES}",
            usual_seconds,
            ours_seconds,
            usual_seconds / ours_seconds,
            note,
        )
    ]


def _members():
    """Members that see the truth through noise of their own and noise they share."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, SAMPLES)
    truth = 2.0 * np.eye(CLASSES)[y] + rng.normal(size=(SAMPLES, CLASSES))
    noise = rng.normal(size=(MEMBERS, SAMPLES, CLASSES))
    strength = np.linspace(0.5, 2.0, MEMBERS)[:, None, None]
    probabilities = softmax(truth + strength * noise, axis=2).astype("float32")
    return {f"member {i}": p for i, p in enumerate(probabilities)}, y


def _nelder_mead_as_users_write_it(predictions, y):
    """Combine all classes at every evaluation, with SciPy's default stopping rules."""
    stacked = np.stack(list(predictions.values()))
    rows = np.arange(len(y))

    def loss(weights):
        weights = np.abs(weights) / np.abs(weights).sum()
        mixture = np.tensordot(weights, stacked, axes=1)
        return -np.log(mixture[rows, y]).mean()

    return minimize(loss, np.full(MEMBERS, 1 / MEMBERS), method="Nelder-Mead").fun


def _fastest(call, repeats):
    seconds, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result
