"""Ensembles of classifiers: check the members, combine them, learn their weights, see why it helps.

`predictions` is everywhere a mapping from a member's name to its class probabilities, an array
`(samples, classes)`; a sequence of such arrays gets the names "member 0", "member 1", ...
`y` holds the column of the true class of each row: integers `(samples,)`.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

from chapter18._shared import checks
from chapter18.ensembles import _combining, _weights
from chapter18.ensembles._members import check_labels, check_members, check_weights
from chapter18.ensembles._seen_rows import SeenRows

# How to search, and which options of `fit_weights` the search takes.
METHODS = {
    "convex": (_weights.solve_convex, ["tolerance"]),
    "nelder-mead": (_weights.nelder_mead, ["evaluations"]),
    "random": (_weights.random_search, ["seed", "evaluations"]),
    "greedy": (_weights.greedy_selection, ["evaluations"]),
}


class FittedWeights(NamedTuple):
    """Weights learned on one split; losses are log-losses there, in nats.

    `weights`: `(members,)`, non-negative, summing to 1. `gap`: a proven bound on how much lower
    any other weights could bring `loss` (at most 1e-6 for the convex method). `evaluations`:
    mixtures tried. `fitted_on`: the rows of the split, by which `judge` knows them again.
    """

    method: str
    names: tuple[str, ...]
    weights: np.ndarray
    loss: float
    uniform_loss: float
    best_member: str
    best_member_loss: float
    gap: float
    evaluations: int
    fitted_on: SeenRows


class Ambiguity(NamedTuple):
    """Squared errors summed over classes, averaged over rows.

    `ensemble_error == member_error - spread` (Krogh and Vedelsby 1995): the weighted mean is
    better than its average member by exactly as much as the members differ from it.
    """

    ensemble_error: float
    member_error: float
    spread: float


def combine(
    predictions, weights=None, kind: str = "mean", *, power=None, classes=None
) -> np.ndarray:
    """Combine members into one array `(samples, classes)`.

    `kind`: "mean", the weighted arithmetic mean; "geometric", the mean of log-probabilities;
    "power", the mean of the probabilities' `power`-th powers (default 2), rooted; "rank", each
    column's values replaced by their rank among the rows, scaled to (0, 1], then averaged. The
    first three return rows that sum to 1; ranks are scores for ordering rows, not probabilities.

    `weights`: `(members,)`, non-negative, scaled here to sum to 1; uniform when None.
    Raises ValueError for an unfit member (see `check_members`), weight, kind or power.
    """
    members = check_members(predictions, classes=classes)
    shares = check_weights(weights, members)
    if kind not in _combining.KINDS:
        raise ValueError(
            f"`kind` must be one of {sorted(_combining.KINDS)}. Received: kind={kind!r}. "
            'Leave it out for the arithmetic mean, kind="mean".'
        )
    if kind == "power":
        return _combining.power(members.probabilities, shares, _combining.check_power(power))
    if power is not None:
        raise ValueError(
            f'`power` belongs to kind="power". Received: kind={kind!r}, power={power!r}. '
            "Leave `power` out, or change the kind."
        )
    return _combining.KINDS[kind](members.probabilities, shares)


def fit_weights(
    predictions,
    y,
    method: str = "convex",
    *,
    seed: int = 0,
    evaluations: int = 2000,
    tolerance: float = 1e-6,
    classes=None,
) -> FittedWeights:
    """Learn the weights of the arithmetic mean that minimise log-loss on these rows.

    `method`: "convex" (the optimum, certified), "nelder-mead", "random" or "greedy".
    `evaluations` is the budget of the last three, in mixtures tried; `tolerance` the certificate
    of the first, in nats; `seed` that of the random one. Fit on rows no member was trained on,
    then show the result other rows with `judge`.

    Returns `FittedWeights`. Raises ValueError for unfit members, labels or method, and
    RuntimeError when the convex solver cannot certify its answer.
    """
    if method not in METHODS:
        raise ValueError(
            f"`method` must be one of {list(METHODS)}. Received: method={method!r}. "
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
    true_class = _true_class(members, labels)
    solve, wanted = METHODS[method]
    options = {"tolerance": tolerance, "seed": seed, "evaluations": evaluations}
    found = solve(true_class, **{name: options[name] for name in wanted})
    alone = -np.log(true_class).mean(axis=1)
    return FittedWeights(
        method=method,
        names=members.names,
        weights=found.weights,
        loss=_weights.log_loss(true_class, found.weights),
        uniform_loss=_weights.log_loss(true_class, check_weights(None, members)),
        best_member=members.names[int(np.argmin(alone))],
        best_member_loss=float(alone.min()),
        gap=_weights.optimality_gap(true_class, found.weights),
        evaluations=found.evaluations,
        fitted_on=SeenRows(members.probabilities, labels),
    )


def judge(fits, predictions, y, *, classes=None) -> pd.DataFrame:
    """Return a DataFrame of `log_loss` (nats) and `accuracy` on rows the weights have not seen.

    One line for each of `fits` (one `FittedWeights` or several), always below the uniform mean
    and the member that was best where the weights were fitted. Raises ValueError when shown rows
    of the fit, in any order and beside others, if they are more than chance explains (see
    `seen_rows`; one row in a hundred is forgiven); for other members than those of the fit, or
    fits of several splits.
    """
    fits = [fits] if isinstance(fits, FittedWeights) else list(fits)
    members = check_members(predictions, classes=classes)
    labels = check_labels(y, members)
    true_class = _true_class(members, labels)
    _check_comparable(fits, members)
    _check_unseen(fits[0].fitted_on, SeenRows(members.probabilities, labels))
    best = fits[0].best_member
    lines = [("uniform mean", None), (f"best member: {best}", np.equal(members.names, best))]
    lines += [(fit.method, fit.weights) for fit in fits]
    return pd.DataFrame(
        [_scores(members, weights, true_class, labels) for _, weights in lines],
        index=[name for name, _ in lines],
        columns=["log_loss", "accuracy"],
    )


def diversity(predictions, y, *, classes=None) -> pd.DataFrame:
    """Return one line a pair of members: how alike are their mistakes?

    `error_correlation`: Pearson's, between the rows' right-or-wrong indicators (NaN for a member
    that errs nowhere or everywhere); `disagreement`: share of rows given different classes;
    `both_wrong`: share of rows where both err.
    """
    members = check_members(predictions, classes=classes)
    labels = check_labels(y, members)
    votes = [array.argmax(axis=1) for array in members.probabilities]
    wrong = [vote != labels for vote in votes]
    lines = [
        (
            members.names[a],
            members.names[b],
            _correlation(wrong[a], wrong[b]),
            float(np.mean(votes[a] != votes[b])),
            float(np.mean(wrong[a] & wrong[b])),
        )
        for a, b in combinations(range(len(votes)), 2)
    ]
    columns = ["first", "second", "error_correlation", "disagreement", "both_wrong"]
    return pd.DataFrame(lines, columns=columns)


def ambiguity(predictions, y, weights=None, *, classes=None) -> Ambiguity:
    """Return the `Ambiguity` of the weighted arithmetic mean: its error, its members', the spread.

    The three are computed apart, so that the identity between them can be checked.
    """
    members = check_members(predictions, classes=classes)
    shares = check_weights(weights, members)
    truth = np.eye(members.probabilities[0].shape[1])[check_labels(y, members)]
    mixture = _combining.arithmetic(members.probabilities, shares)

    def weighted_distance(target):
        return sum(
            w * _squared(p, target) for w, p in zip(shares, members.probabilities, strict=True)
        )

    return Ambiguity(
        _squared(mixture, truth), float(weighted_distance(truth)), float(weighted_distance(mixture))
    )


def _true_class(members, labels):
    rows = np.arange(len(labels))
    columns = [array[rows, labels] for array in members.probabilities]
    return _combining.raised(np.stack(columns))


def _check_comparable(fits, members):
    if not fits:
        raise ValueError(
            "`judge` wants weights to judge. Received: no fits. Pass what `fit_weights` returned."
        )
    others = sum(fit.fitted_on != fits[0].fitted_on for fit in fits)
    if others:
        raise ValueError(
            "`judge` compares weights fitted on one and the same split. "
            f"Received: {len(fits)} fits, {others} of them fitted on other rows than the first. "
            "Judge the fits of each split by themselves."
        )
    for fit in fits:
        if fit.names != members.names:
            raise ValueError(
                "Weights belong to the members they were fitted for, in the same order. "
                f"Received: members {list(members.names)}, weights for {list(fit.names)}. "
                "Pass the predictions of those members, in that order."
            )


def _check_unseen(fitted_on, shown):
    overlap = fitted_on.overlap(shown)
    if overlap:
        raise ValueError(
            "Weights are judged on rows they were not fitted on. "
            f"Received: {len(shown)} rows, {overlap} of which are rows of the fit. "
            "Keep another split for judging."
        )


def _scores(members, weights, true_class, labels):
    shares = check_weights(weights, members)
    chosen = _combining.arithmetic(members.probabilities, shares).argmax(axis=1)
    return _weights.log_loss(true_class, shares), float(np.mean(chosen == labels))


def _correlation(a, b):
    constant = a.min() == a.max() or b.min() == b.max()
    return np.nan if constant else float(np.corrcoef(a, b)[0, 1])


def _squared(p, target):
    return float(((p - target) ** 2).sum(axis=1).mean())
