"""See what an ensemble is worth: on unseen rows, and by how its members differ."""

from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

from chapter18.ensembles import _combining, _weights
from chapter18.ensembles._members import (
    Classes,
    Labels,
    Predictions,
    Weights,
    check_labels,
    check_members,
    check_weights,
)
from chapter18.ensembles._seen_rows import SeenRows
from chapter18.ensembles._weights import FittedWeights


class Ambiguity(NamedTuple):
    """Squared errors summed over classes, averaged over rows.

    `ensemble_error == member_error - spread` (Krogh and Vedelsby 1995): the weighted mean is
    better than its average member by exactly as much as the members differ from it.
    """

    ensemble_error: float
    member_error: float
    spread: float


def judge(
    fits: FittedWeights | Iterable[FittedWeights],
    predictions: Predictions,
    y: Labels,
    *,
    classes: Classes | None = None,
) -> pd.DataFrame:
    """Return a DataFrame of `log_loss` (nats) and `accuracy` on rows the weights have not seen.

    One line for each of `fits` (one `FittedWeights` or several), always below the uniform mean
    and the member that was best where the weights were fitted. Raises ValueError when shown rows
    of the fit, in any order and beside others, if they are more than chance explains
    (one row in a hundred is forgiven); for other members than those of the fit, or
    fits of several splits.
    """
    fits = [fits] if isinstance(fits, FittedWeights) else list(fits)
    members = check_members(predictions, classes=classes)
    labels = check_labels(y, members)
    true_class = _weights.true_class_of(members, labels)
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


def diversity(
    predictions: Predictions, y: Labels, *, classes: Classes | None = None
) -> pd.DataFrame:
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


def ambiguity(
    predictions: Predictions,
    y: Labels,
    weights: Weights | None = None,
    *,
    classes: Classes | None = None,
) -> Ambiguity:
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
