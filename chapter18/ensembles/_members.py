"""Ensemble members, checked before they are combined: a mixture hides every mistake made here."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

ROW_TOLERANCE = 5e-3  # how far from 1 a bfloat16 softmax, the coarsest one, may leave a row's sum

Probabilities: TypeAlias = Float[np.ndarray, "samples classes"]
Predictions: TypeAlias = Mapping[str, Probabilities] | Sequence[Probabilities]
Labels: TypeAlias = Int[np.ndarray, " samples"] | Sequence[int]
Weights: TypeAlias = Float[np.ndarray, " members"] | Sequence[float]
# One class list a member, by name or in their order.
Classes: TypeAlias = Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]]


class Members(NamedTuple):
    """Checked members: `names`, and `probabilities`, one `(samples, classes)` array for each."""

    names: tuple[str, ...]
    probabilities: tuple[Probabilities, ...]


def check_members(predictions: Predictions, *, classes: Classes | None = None) -> Members:
    """Return `Members` that can be combined, or raise ValueError saying which one cannot and why.

    `predictions`: a mapping from name to class probabilities `(samples, classes)`, or a sequence
    of such arrays, named "member 0", "member 1" and so on. All must have the same rows and
    classes, finite values, and rows that sum to 1. `classes`, a mapping from name to class list
    (or a sequence of lists), proves that columns mean the same: give scikit-learn's and
    LightGBM's `classes_`, and the label order your networks were trained on.
    """
    members = _named(predictions)
    first = members.probabilities[0]
    for name, array in zip(*members, strict=True):
        _check_shape(name, array, members.names[0], first)
        _check_values(name, array)
    if classes is not None:
        _check_classes(members, classes)
    return members


def check_weights(weights: Weights | None, members: Members) -> Float[np.ndarray, " members"]:
    """Return weights `(members,)` scaled to sum to 1, uniform when `weights` is None."""
    count = len(members.names)
    if weights is None:
        return np.full(count, 1.0 / count)
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (count,):
        raise ValueError(
            f"`weights` must hold one number for each of the {count} members "
            f"{list(members.names)}. Received: shape {weights.shape}. "
            "Give a weight to each, in this order, or leave `weights` out."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError(
            "`weights` must be finite, non-negative and not all zero. "
            f"Received: {weights.tolist()}. Learn some with `fit_weights`."
        )
    return weights / weights.sum()


def check_labels(y: Labels, members: Members) -> Int[np.ndarray, " samples"]:
    """Return labels `(samples,)` as integers that index the members' columns."""
    rows, columns = members.probabilities[0].shape
    labels = np.asarray(y)
    if labels.shape != (rows,) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"`y` must hold {rows} integers, the column of each row's true class. "
            f"Received: shape {labels.shape}, dtype {labels.dtype}. "
            f"{_label_advice(labels, rows, columns)}"
        )
    if labels.min() < 0 or labels.max() >= columns:
        raise ValueError(
            f"`y` must lie between 0 and {columns - 1}, the last of {columns} columns. "
            f"Received: labels from {labels.min()} to {labels.max()}. "
            "Columns are counted from 0; with other labels, look each up among the classes: "
            "`[classes.index(label) for label in y]`."
        )
    return labels


def _label_advice(labels, rows, columns):
    """How to turn `labels` of another form into the columns of the true classes."""
    if labels.shape[:1] != (rows,):
        return "Pass the labels of the very rows that the members predicted, one a row."
    if labels.shape == (rows, columns) and labels.dtype.kind in "buif":
        return "One-hot labels become integers with `y.argmax(axis=1)`."
    if labels.ndim > 2 or labels.shape[1:] not in ((), (1,)):
        return "Give one label a row."
    flat = "y" if labels.ndim == 1 else "y[:, 0]"
    if labels.dtype.kind in "OSUT":
        return (
            "Text becomes integers by its place in the class list that the columns follow: "
            f"`[classes.index(label) for label in {flat}]`."
        )
    if labels.dtype.kind in "iu":
        return f"Drop the last axis with `{flat}`."
    if labels.dtype.kind == "b" or (labels.dtype.kind == "f" and not np.any(labels % 1)):
        return f"Make them integers with `{flat}.astype(int)`."
    return "These are no classes: pass the column of the true class, not a score or a target."


def _named(predictions):
    if not isinstance(predictions, Mapping):
        predictions = {f"member {i}": array for i, array in enumerate(predictions)}
    if not predictions:
        raise ValueError(
            "An ensemble needs at least one member. Received: no predictions. "
            "Pass class probabilities by name, such as {'net': model.predict(x)}."
        )
    arrays = (np.asarray(array) for array in predictions.values())
    return Members(
        tuple(predictions),
        tuple(a if a.dtype in (np.float32, np.float64) else a.astype(np.float32) for a in arrays),
    )


def _check_shape(name, array, first_name, first):
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] < 2:
        raise ValueError(
            "Predictions must be class probabilities of shape (samples, classes), two classes at "
            f"least. Received: shape {array.shape} from {name!r}. "
            "Turn one sigmoid column p into two with `np.column_stack([1 - p, p])`."
        )
    if len(array) != len(first):
        raise ValueError(
            f"Members must predict the same rows. Received: {len(array)} rows from {name!r}, "
            f"{len(first)} from {first_name!r}. Predict one and the same split with every member."
        )
    if array.shape[1] != first.shape[1]:
        raise ValueError(
            f"Members must have the same classes. Received: {array.shape[1]} columns from "
            f"{name!r}, {first.shape[1]} from {first_name!r}. "
            "Train every member on the same class list."
        )


def _check_values(name, array):
    sums = array @ np.ones(array.shape[1], array.dtype)
    if not np.isfinite(sums).all():
        row = int(np.argmin(np.isfinite(sums)))
        raise ValueError(
            f"Predictions must be finite. Received: {array[row].tolist()} from {name!r}, "
            f"row {row}. Look for a diverged training run or a missing input."
        )
    low, high = float(array.min()), float(array.max())
    if low < -ROW_TOLERANCE or high > 1 + ROW_TOLERANCE:
        raise ValueError(
            f"Predictions must be probabilities, not logits. Received: values from {low:.3g} to "
            f"{high:.3g} from {name!r}. Apply `keras.ops.softmax` first."
        )
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > ROW_TOLERANCE:
        raise ValueError(
            f"Each row of probabilities must sum to 1. Received: {sums[worst]:.4g} from {name!r}, "
            f"row {worst}. Independent sigmoids do not: end the model with a softmax."
        )


def _check_classes(members, classes):
    if not isinstance(classes, Mapping):
        classes = dict(zip(members.names, classes, strict=False))
    if set(classes) != set(members.names):
        raise ValueError(
            "`classes` must give one class list for each member. "
            f"Received: lists for {list(classes)}, members {list(members.names)}. "
            "Give each member's own `classes_`, or leave `classes` out."
        )
    first_name, columns = members.names[0], members.probabilities[0].shape[1]
    first = np.asarray(classes[first_name]).tolist()
    if len(first) != columns:
        raise ValueError(
            f"A class list must name every column. Received: {len(first)} classes for the "
            f"{columns} columns of {first_name!r}. Pass the classes in the order of the columns."
        )
    for name in members.names:
        own = np.asarray(classes[name]).tolist()
        if own != first:
            raise ValueError(
                "Members must list the same classes in the same order. "
                f"Received: {own} from {name!r}, {first} from {first_name!r}. "
                "Reorder the columns: `p[:, [own.index(c) for c in first]]`."
            )
