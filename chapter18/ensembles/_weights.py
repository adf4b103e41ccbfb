"""Learn weights: four ways to minimise a log-loss over the simplex (weights >= 0, sum 1).

A weighted mean of probabilities is judged by log-loss, and log-loss reads only the probability
given to the true class. So every search here works on one table of shape `(members, samples)`,
ten times smaller than the predictions for ten classes, and the loss is convex in the weights.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from chapter18._shared import checks
from chapter18.ensembles._combining import raised
from chapter18.ensembles._members import (
    Classes,
    Labels,
    Predictions,
    check_labels,
    check_members,
    check_weights,
)
from chapter18.ensembles._seen_rows import SeenRows

CHUNK = 256  # mixtures evaluated together; bounds the memory of random search


class FittedWeights(NamedTuple):
    """Weights learned on one split; losses are log-losses there, in nats.

    `weights`: `(members,)`, non-negative, summing to 1. `gap`: a proven bound on how much lower
    any other weights could bring `loss` (at most 1e-6 for the convex method). `evaluations`:
    mixtures tried. `fitted_on`: the rows of the split, by which `judge` knows them again.
    """

    method: str
    names: tuple[str, ...]
    weights: Float[np.ndarray, " members"]
    loss: float
    uniform_loss: float
    best_member: str
    best_member_loss: float
    gap: float
    evaluations: int
    fitted_on: SeenRows


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


# How to search, and which options of `fit_weights` the search takes.
_METHODS: dict[str, tuple[Callable, list[str]]] = {
    "convex": (solve_convex, ["tolerance"]),
    "nelder-mead": (nelder_mead, ["evaluations"]),
    "random": (random_search, ["seed", "evaluations"]),
    "greedy": (greedy_selection, ["evaluations"]),
}


def fit_weights(
    predictions: Predictions,
    y: Labels,
    method: Literal["convex", "nelder-mead", "random", "greedy"] = "convex",
    *,
    seed: int = 0,
    evaluations: int = 2000,
    tolerance: float = 1e-6,
    classes: Classes | None = None,
) -> FittedWeights:
    """Learn the weights of the arithmetic mean that minimise log-loss on these rows.

    `method`: "convex" (the optimum, certified), "nelder-mead", "random" or "greedy".
    `evaluations` is the budget of the last three, in mixtures tried; `tolerance` the certificate
    of the first, in nats; `seed` that of the random one. Fit on rows no member was trained on,
    then show the result other rows with `judge`.

    Returns `FittedWeights`. Raises ValueError for unfit members, labels or method, and
    RuntimeError when the convex solver cannot certify its answer.
    """
    if method not in _METHODS:
        raise ValueError(
            f"`method` must be one of {list(_METHODS)}. Received: method={method!r}. "
            "Leave it out for the convex one, whose answer is certified."
        )
    evaluations = checks.positive_integer(
        evaluations,
        "evaluations",
        rule="`evaluations` must be at least 1: mixtures are tried one by one.",
        remedy="Pass a whole number, for example evaluations=2000.",
    )
    members = check_members(predictions, classes=classes)
    labels = check_labels(y, members)
    true_class = true_class_of(members, labels)
    solve, wanted = _METHODS[method]
    options = {"tolerance": tolerance, "seed": seed, "evaluations": evaluations}
    found = solve(true_class, **{name: options[name] for name in wanted})
    alone = -np.log(true_class).mean(axis=1)
    return FittedWeights(
        method=method,
        names=members.names,
        weights=found.weights,
        loss=log_loss(true_class, found.weights),
        uniform_loss=log_loss(true_class, check_weights(None, members)),
        best_member=members.names[int(np.argmin(alone))],
        best_member_loss=float(alone.min()),
        gap=optimality_gap(true_class, found.weights),
        evaluations=found.evaluations,
        fitted_on=SeenRows(members.probabilities, labels),
    )


def true_class_of(members, labels):
    """The probability that each member gives to each row's true class: `(members, samples)`."""
    rows = np.arange(len(labels))
    columns = [array[rows, labels] for array in members.probabilities]
    return raised(np.stack(columns))
