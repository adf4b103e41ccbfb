"""Reading a search: every trial with its executions, the healthy best ones, their best epoch."""

from pathlib import Path
from typing import Any

import keras_tuner as kt
import numpy as np
import pandas as pd

from chapter18.tuning import _resuming, _snapshots
from chapter18.tuning._executions import Execution


def trials_table(tuner: kt.Tuner) -> pd.DataFrame:
    """Return a `DataFrame` with one row a trial, in the order in which they began.

    Columns: `trial` (its id), `status`, `score` (mean over the executions), `std` (their sample
    standard deviation, NaN for a single one), `execution_1`, `execution_2`, … (the score of each),
    `best_epoch` (of the best execution, counted from 1), `epochs` and `seconds` (of all executions
    together), then each hyperparameter of the space under its own name, NaN where it was not
    active. A hyperparameter named as one of the other columns gets `hp ` before its name.
    """
    _require_recording(tuner)
    rows = [_row(tuner, tuner.oracle.trials[name]) for name in tuner.oracle.start_order]
    count = max((len(row["scores"]) for row in rows), default=0)
    columns = [f"execution_{number}" for number in range(1, count + 1)]
    fixed = ["trial", "status", "score", "std", *columns, "best_epoch", "epochs", "seconds"]
    space = [_column(each.name, fixed) for each in tuner.oracle.hyperparameters.space]
    for row in rows:
        row |= dict(zip(columns, row.pop("scores"), strict=False))
        row |= {_column(name, fixed): value for name, value in row.pop("values").items()}
    names = dict.fromkeys([*fixed, *space, *(name for row in rows for name in row)])
    table = pd.DataFrame(rows, columns=list(names))
    return table.astype({"best_epoch": "Int64", "epochs": "Int64"})


def best(tuner: kt.Tuner, n: int = 1) -> list[kt.engine.trial.Trial]:
    """Return the `n` best trials of a search, best first: only completed ones with a finite score.

    Raises `ValueError` when there are fewer, with the message of the last failure.
    """
    trials = tuner.oracle.trials.values()
    healthy = [each for each in trials if each.status == "COMPLETED" and np.isfinite(each.score)]
    if len(healthy) < n:
        raise ValueError(
            "The best trials are chosen among the completed ones with a finite score. "
            f"Received: n={n}, but {len(healthy)} of {len(trials)} trials are such. "
            f"{_last_failure(tuner)}"
        )
    sign = -1 if tuner.oracle.objective.direction == "max" else 1
    return sorted(healthy, key=lambda each: sign * each.score)[:n]


def best_epoch(tuner: kt.Tuner, trial: kt.engine.trial.Trial) -> int:
    """Return the epoch, counted from 1, at which the best execution of `trial` scored best.

    Raises `ValueError` when the search did not see epochs, as with a `fit` that returns a number.
    """
    epoch = best_execution(tuner, trial).best_epoch
    if epoch is None:
        raise ValueError(
            "A best epoch needs the History of a training. "
            f"Received: trial {trial.trial_id}, whose fit returned only its score. "
            "Let HyperModel.fit return what model.fit returns."
        )
    return epoch


def best_execution(tuner: kt.Tuner, trial: kt.engine.trial.Trial) -> Execution:
    """Return the best `Execution` of `trial`: the one whose weights are saved."""
    executions = record(tuner, trial)["executions"]
    if not executions:
        raise ValueError(
            "A trial must have finished an execution. "
            f"Received: trial {trial.trial_id}, with status {trial.status}. "
            "Choose a trial with tuning.best(tuner)."
        )
    better = max if tuner.oracle.objective.direction == "max" else min
    return better((Execution(**each) for each in executions), key=lambda each: each.score)


def record(tuner: kt.Tuner, trial: kt.engine.trial.Trial) -> dict[str, Any]:
    """Return what `make_tuner` recorded of `trial`: `executions`, `seconds` and `message`."""
    _require_own(tuner, trial)
    path = Path(tuner.get_trial_dir(trial.trial_id)) / _resuming.RECORD
    return _snapshots.read(path) or {"executions": [], "seconds": np.nan, "message": None}


def _require_own(tuner, trial):
    """Raise unless `trial` is the tuner's own: by values and score, for every search has a 0."""
    _require_recording(tuner)
    if not isinstance(trial, kt.engine.trial.Trial):
        raise TypeError(
            f"`trial` must be a trial of Keras Tuner. Received: {trial!r}. "
            "Pass one of tuning.best(tuner) or of tuner.oracle.trials.values()."
        )
    own = tuner.oracle.trials.get(trial.trial_id)
    if own is None:
        raise ValueError(
            "`trial` must be one of the tuner's own. "
            f"Received: {trial.trial_id!r}. "
            f"Choose one of {', '.join(tuner.oracle.start_order) or 'none: search first'}."
        )
    # As text a score of NaN is equal to itself.
    (values, score), (own_values, own_score) = (
        (each.hyperparameters.values, str(each.score)) for each in (trial, own)
    )
    if (values, score) != (own_values, own_score):
        raise ValueError(
            "`trial` must be one of the tuner's own. "
            f"Received: trial {trial.trial_id} with {values} and score {score}; "
            f"its own has {own_values} and score {own_score}. "
            "Choose one with tuning.best(tuner), of the same tuner."
        )


def _require_recording(tuner):
    if not isinstance(tuner, _resuming.ResumableTuner):
        raise TypeError(
            "`tuner` must come from tuning.make_tuner, which records each execution. "
            f"Received: {tuner!r}. Make the tuner with tuning.make_tuner and search again."
        )


def _row(tuner, trial):
    recorded = record(tuner, trial)
    # A killed trial may have left the record of a run that was not counted.
    executions = recorded["executions"] if trial.status in ("COMPLETED", "FAILED") else []
    scores = [each["score"] for each in executions]
    counts = [each["epochs"] for each in executions if each["epochs"] is not None]
    spread = len(scores) > 1 and np.isfinite(scores).all()
    return {
        "trial": trial.trial_id,
        "status": trial.status,
        "score": np.nan if trial.score is None else trial.score,
        "std": np.std(scores, ddof=1) if spread else np.nan,
        "scores": scores,
        "best_epoch": best_execution(tuner, trial).best_epoch if scores else None,
        "epochs": sum(counts) if counts else None,
        "seconds": recorded["seconds"],
        "values": trial.hyperparameters.values,
    }


def _column(hyperparameter, fixed):
    return f"hp {hyperparameter}" if hyperparameter in fixed else hyperparameter


def _last_failure(tuner):
    failed = [
        name for name in tuner.oracle.end_order if tuner.oracle.trials[name].status != "COMPLETED"
    ]
    if not failed:
        return "Search for longer, or ask for fewer."
    trial = tuner.oracle.trials[failed[-1]]
    message = trial.message or record(tuner, trial)["message"] or "no message"
    last_line = message.strip().splitlines()[-1]
    return f"Repair the cause of the last failure, trial {failed[-1]}: {last_line}"
