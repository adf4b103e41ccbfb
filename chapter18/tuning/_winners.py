"""Using what a search found: restore a trial, retrain it, and see how much its score flatters."""

import hashlib
import math
from pathlib import Path
from typing import Any, NamedTuple

import keras
import keras_tuner as kt
import numpy as np
import pandas as pd

from chapter18._shared import isolation
from chapter18.tuning import _trials
from chapter18.tuning._executions import build_optimizer, execution_seed


class Retrained(NamedTuple):
    """A model trained on training and validation data together, and for how many epochs."""

    model: keras.Model
    epochs: int


def restore(
    tuner: kt.Tuner,
    trial: kt.engine.trial.Trial,
    *,
    x: Any,
    y: Any,
    batch_size: int = 256,
    tolerance: float = 1e-4,
) -> keras.Model:
    """Return the trial's model with its saved weights, proven on the validation data `(x, y)`.

    The weights are those of the best epoch of the best execution, so the model scores what that
    execution scored, which is at least as good as the trial's score, the mean over its executions.
    Raises `ValueError` when it does not, within `tolerance` (relative above 1), when the objective
    is not a `val_` value, which cannot be measured again, or when the trial is that of another
    tuner. `x`, `y` are arrays `(rows, …)` or nests of them; `batch_size` as in
    `keras.Model.evaluate`.
    """
    recorded = _trials.best_execution(tuner, trial).score
    model = _load(tuner, trial, x)
    score = _evaluate(tuner, model, x, y, batch_size)
    if not abs(score - recorded) <= tolerance * max(1.0, abs(recorded)):
        raise ValueError(
            "A restored model must score what its best execution scored. "
            f"Received: {tuner.oracle.objective.name} {score:.6g}, but trial {trial.trial_id} "
            f"recorded {recorded:.6g}. "
            "Pass the validation data of the search, with the same preprocessing, and leave build "
            "as it was."
        )
    return model


def retrain(
    tuner: kt.Tuner,
    trial: kt.engine.trial.Trial,
    *,
    x: Any,
    y: Any,
    x_val: Any,
    y_val: Any,
    factor: float = 1.2,
    batch_size: int | None = None,
    verbose: int | str = 0,
) -> Retrained:
    """Train a fresh model with the trial's hyperparameters on training and validation data.

    Returns `Retrained(model, epochs)`. More rows allow more steps before overfitting, so it trains
    for `epochs` = ⌈`factor` × best epoch⌉. The hypermodel's own `fit` does it; `batch_size` is
    passed on unless it is None. The data are arrays `(rows, …)` or nests of them, alike for
    training and validation. Raises `ValueError` when they are not, or when the trial is that of
    another tuner.
    """
    epochs = math.ceil(factor * _trials.best_epoch(tuner, trial))
    options = {} if batch_size is None else {"batch_size": batch_size}
    rows, labels = _joined("x", x, x_val), _joined("y", y, y_val)
    hp = trial.hyperparameters.copy()
    unused = len(_trials.record(tuner, trial)["executions"])
    with isolation.random_numbers_kept():
        keras.utils.set_random_seed(execution_seed(tuner.base_seed, trial.trial_id, unused))
        model = tuner.hypermodel.build(hp)
        tuner.hypermodel.fit(hp, model, rows, labels, epochs=epochs, verbose=verbose, **options)
    return Retrained(model, epochs)


def selection_bias(
    tuner: kt.Tuner, *, x_test: Any, y_test: Any, batch_size: int = 256
) -> pd.DataFrame:
    """Return a `DataFrame` that shows how the winner's validation score flatters it.

    One row for each number of completed trials seen: `trials`; `trial`, the id of the winner so
    far, whose saved model has the best validation score; `validation`, that score; `test`, the same
    model's score on the test data; `gap`, by how much validation looks better than test. The data
    are arrays `(rows, …)` or nests of them. Raises `ValueError` where a winner's weights were not
    saved, and for an objective that evaluation does not measure.
    """
    objective, began = (
        tuner.oracle.objective,
        map(tuner.oracle.trials.get, tuner.oracle.start_order),
    )
    rows: list[dict[str, Any]] = []
    winner: dict[str, Any] = {}
    for trial in (each for each in began if each.status == "COMPLETED"):
        score = _trials.best_execution(tuner, trial).score
        if not winner or objective.better_than(score, winner["validation"]):
            test = _evaluate(tuner, _load(tuner, trial, x_test), x_test, y_test, batch_size)
            gap = score - test if objective.direction == "max" else test - score
            winner = {"trial": trial.trial_id, "validation": score, "test": test, "gap": gap}
        rows.append({"trials": len(rows) + 1} | winner)
    return pd.DataFrame(rows, columns=["trials", "trial", "validation", "test", "gap"])


def leaked_rows(a: Any, b: Any) -> int:
    """Return how many rows of `b` `(rows, …)` also stand in `a`, compared by content.

    Both are arrays, or dicts or tuples of them, of which a row is what stands at one index of
    each. Raises `ValueError` unless the rows of both have the same shape, and `TypeError` for
    Python objects, such as the text of a data frame.
    """
    pairs = [_comparable(*pair) for pair in _paired(a, b)]
    if len({(len(one), len(other)) for one, other in pairs}) != 1:
        raise ValueError(
            "The arrays of a nest must have the same rows. "
            f"Received: {', '.join(f'{len(one)} and {len(other)}' for one, other in pairs)} rows. "
            "Pass two splits of the same data, rows on the first axis."
        )
    # For each array of the nest the digests of its rows; a row of the nest has one from each.
    before, after = zip(*(map(_digests, pair) for pair in pairs), strict=True)
    seen = set(zip(*before, strict=True))
    return sum(row in seen for row in zip(*after, strict=True))


def _paired(a, b):
    if not isinstance(a, dict | tuple):
        return [(a, b)]
    _require_alike("a", a, b)
    return zip(keras.tree.flatten(a), keras.tree.flatten(b), strict=True)


def _comparable(a, b):
    """Return both as arrays of one dtype."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape[1:] != b.shape[1:] or a.ndim == 0 or b.ndim == 0:
        raise ValueError(
            "Rows can be compared only if they have one shape. "
            f"Received: arrays of shapes {a.shape} and {b.shape}. "
            "Pass two splits of the same data, rows on the first axis."
        )
    dtype = np.result_type(a, b)
    if dtype.hasobject:
        raise TypeError(
            "Rows are compared byte by byte, which Python objects do not allow. "
            f"Received: dtype {dtype}. Turn text into numbers or dtype str first."
        )
    return a.astype(dtype, copy=False), b.astype(dtype, copy=False)


def _digests(rows):
    inexact = np.issubdtype(rows.dtype, np.inexact)
    for row in rows:
        # Adding nothing turns -0.0 into 0.0, which is equal but not the same bytes.
        value = row + rows.dtype.type(0) if inexact else row
        yield hashlib.blake2b(value.tobytes(), digest_size=16).digest()


def _joined(name, train, validation):
    if not all(hasattr(leaf, "shape") for leaf in keras.tree.flatten((train, validation))):
        return np.concatenate((train, validation))
    _require_alike(name, train, validation)
    return keras.tree.map_structure(lambda *pair: np.concatenate(pair), train, validation)


def _require_alike(name, one, other):
    try:
        keras.tree.assert_same_structure(one, other)
    except ValueError:
        kinds = [keras.tree.map_structure(lambda x: type(x).__name__, n) for n in (one, other)]
        raise ValueError(
            "Two splits of the same data must be nested alike. "
            f"Received: for {name} {kinds[0]} and {kinds[1]}. "
            "Pass arrays, or dicts or tuples of arrays with the same keys."
        ) from None


def _load(tuner, trial, x):
    path = Path(tuner.get_trial_dir(trial.trial_id)) / "checkpoint.weights.h5"
    if not path.exists():
        raise ValueError(
            "A trial can be restored only if its search saved weights. "
            f"Received: trial {trial.trial_id}, without {path}. "
            "Choose a trial with tuning.best(tuner), of a tuner that trains Keras models."
        )
    with isolation.random_numbers_kept():
        model = tuner.hypermodel.build(trial.hyperparameters.copy())
    if not model.built:
        # A subclassed model creates its weights at its first call only.
        model(keras.tree.map_structure(lambda rows: rows[:1], x))
    build_optimizer(model)
    model.load_weights(path)
    return model


def _evaluate(tuner, model, x, y, batch_size):
    logs = model.evaluate(x, y, batch_size=batch_size, verbose=0, return_dict=True)
    logs = {f"val_{name}": value for name, value in logs.items()}
    objective = tuner.oracle.objective
    if not objective.has_value(logs):
        raise ValueError(
            "Only an objective that evaluation measures can be checked again. "
            f"Received: {objective}. "
            f"Choose one of {', '.join(logs)}; tuner.load_model(trial) restores without a check."
        )
    return float(objective.get_value(logs))
