"""Four ways to choose ensemble weights: minimise a log-loss over the simplex (weights >= 0, sum 1).

A weighted mean of probabilities is judged by log-loss, and log-loss reads only the probability
given to the true class. So every search here works on one table of shape `(members, samples)`,
ten times smaller than the predictions for ten classes, and the loss is convex in the weights.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

CHUNK = 256  # mixtures evaluated together; bounds the memory of random search


class Solution(NamedTuple):
    """`weights` of shape `(members,)`; `evaluations`: mixtures whose loss was computed."""

    weights: np.ndarray
    evaluations: int


def log_loss(true_class, weights):
    """Mean negative log of the mixture's probability of the true class, in nats."""
    return float(-np.log(weights @ true_class).mean())


def optimality_gap(true_class, weights):
    """Return a proven bound, in nats, on how far `weights` are from the best possible loss.

    It is the Frank-Wolfe duality gap (Jaggi 2013), which for this loss reads
    `max over members of mean(member / mixture) - 1`: zero when no member, asked for more weight,
    could still lower the loss.
    """
    pull = (true_class / (weights @ true_class)).mean(axis=1)
    return float(max(pull.max() - 1.0, 0.0))


def solve_convex(true_class, *, tolerance=1e-6):
    """Return the best weights, certified: their `optimality_gap` is at most `tolerance` nats.

    Raises RuntimeError where the solver stops before that.
    """
    members = len(true_class)

    def loss_and_gradient(weights):
        mixture = np.maximum(weights @ true_class, np.finfo(float).tiny)
        return -np.log(mixture).mean(), -(true_class @ (1.0 / mixture)) / mixture.size

    found = minimize(
        loss_and_gradient,
        _uniform(members),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * members,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    weights = _onto_simplex(found.x)
    gap = optimality_gap(true_class, weights)
    if not gap <= tolerance:
        raise RuntimeError(
            f"Convex weights carry a certificate: an optimality gap of at most {tolerance:g} nats. "
            f"Received: a gap of {gap:g} ({found.message}). "
            "Raise `tolerance`, or drop members that duplicate one another."
        )
    return Solution(weights, found.nfev)


def random_search(true_class, *, seed, evaluations):
    """Return the best of `evaluations` mixtures: the uniform one, then flat Dirichlet draws."""
    members = len(true_class)
    draws = np.random.default_rng(seed).dirichlet(np.ones(members), evaluations - 1)
    candidates = np.vstack([_uniform(members), draws])
    losses = [
        -np.log(candidates[start : start + CHUNK] @ true_class).mean(axis=1)
        for start in range(0, evaluations, CHUNK)
    ]
    return Solution(candidates[np.argmin(np.concatenate(losses))], evaluations)


def nelder_mead(true_class, *, evaluations):
    """Return the weights Nelder and Mead's simplex search reaches from the uniform mean."""
    found = minimize(
        lambda free: log_loss(true_class, _onto_simplex(np.abs(free))),
        _uniform(len(true_class)),
        method="Nelder-Mead",
        options={"maxfev": evaluations, "maxiter": evaluations},
    )
    return Solution(_onto_simplex(np.abs(found.x)), found.nfev)


def greedy_selection(true_class, *, evaluations):
    """Return the shares of members picked one at a time, with replacement (Caruana et al. 2004).

    Each round tries every member, the first round whatever `evaluations` allows, and keeps the one
    that lowers the loss most; the shares of the best round win, so that a late, worse pick does no
    harm.
    """
    members = len(true_class)
    counts, total = np.zeros(members), np.zeros(true_class.shape[1])
    best_loss, best_counts = np.inf, counts
    for picked in range(1, max(evaluations // members, 1) + 1):
        losses = -np.log((total + true_class) / picked).mean(axis=1)
        winner = int(np.argmin(losses))
        counts = counts + np.eye(members)[winner]
        total = total + true_class[winner]
        if losses[winner] < best_loss:
            best_loss, best_counts = losses[winner], counts
    return Solution(_onto_simplex(best_counts), picked * members)


def _uniform(members):
    return np.full(members, 1.0 / members)


def _onto_simplex(weights):
    clipped = np.clip(weights, 0.0, None)
    return clipped / clipped.sum()
