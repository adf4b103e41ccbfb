"""Keras Tuner made honest: known objectives, one seed, crash-safe resume, healthy trials."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import keras_tuner as kt

from chapter18._shared import checks, isolation
from chapter18.tuning import _projects, _resuming, _searches, _snapshots, _spaces
from chapter18.tuning._executions import TrackedHyperModel

_LARGER_IS_BETTER = (
    *("accuracy", "acc", "auc", "binary_accuracy", "categorical_accuracy", "precision", "recall"),
    *("sparse_categorical_accuracy", "sparse_top_k_categorical_accuracy"),
    "top_k_categorical_accuracy",
)
_SMALLER_IS_BETTER = (
    *("binary_crossentropy", "categorical_crossentropy", "hinge", "huber", "kl_divergence"),
    *("log_cosh", "loss", "mae", "mape", "mean_absolute_error", "mean_absolute_percentage_error"),
    *("mean_squared_error", "mean_squared_logarithmic_error", "mse", "msle", "poisson"),
    *("root_mean_squared_error", "sparse_categorical_crossentropy"),
)
_DIRECTIONS = dict.fromkeys(_LARGER_IS_BETTER, "max") | dict.fromkeys(_SMALLER_IS_BETTER, "min")

Objective: TypeAlias = str | tuple[str, Literal["min", "max"]] | kt.Objective


def make_tuner(
    tuner_class: type[kt.Tuner],
    hypermodel: kt.HyperModel | Callable[[kt.HyperParameters], Any] | None,
    *,
    objective: Objective | list[Objective],
    directory: str | os.PathLike,
    project_name: str,
    seed: int,
    overwrite: bool = False,
    compilation_cache: str | os.PathLike | None = "auto",
    **options: Any,
) -> kt.Tuner:
    """Return a tuner of a subclass of `tuner_class`, resumed if its project folder holds a search.

    - `tuner_class`: `kt.RandomSearch`, `kt.GridSearch`, `kt.BayesianOptimization`, `kt.Hyperband`
      or a class derived from one of them; `options` are that class' own (`max_trials`, …).
    - `objective`: a known name (`"val_accuracy"`, `"val_loss"`), a pair with the direction
      (`("val_f1_score", "max")`), a `kt.Objective`, or a list of these.
    - `directory`, `project_name`: the search is kept in the folder `directory/project_name`. It
      may be killed at any moment; the same call afterwards keeps every recorded trial and runs the
      one in flight again. `overwrite=True` starts afresh: it removes the files of the search in
      that folder; files of others stay, there and always.
    - `seed`: a positive integer that fixes both the trials and their training.
    - `compilation_cache`: a folder that keeps compiled training steps; "auto" is
      `directory/compilation_cache`, None is none.

    Raises `ValueError` when an objective has no known direction, a count is not positive, a name
    has two definitions or conditions in the space, the search would overwrite files of others, or
    a resumed search that has finished a trial began with another space, objective, seed, class or
    option. Nothing is lost where none has finished, so there the search starts afresh. Raises
    `RuntimeError` while another search uses the folder.
    """
    checks.on_jax(rule="A search trains Keras models on JAX.")
    seed = checks.positive_integer(
        seed,
        "seed",
        rule="`seed` must be a positive integer: Keras Tuner takes 0 for no seed at all.",
        remedy="Pass for example seed=1.",
    )
    options = _checked(options)
    project = _project(directory, project_name)
    hardened = _harden(tuner_class, hypermodel, seed, _cache(compilation_cache, directory))
    arguments = {
        "objective": resolve_objective(objective),
        "seed": seed,
        "directory": str(directory),
        "project_name": project_name,
        **options,
    }
    # To learn the space Keras Tuner builds models, whose initial weights draw random numbers.
    with isolation.random_numbers_kept():
        if _resuming.is_worker():
            return hardened(hardened.tracked, **arguments)
        _projects.prepare(project)
        with _projects.only_one(project):
            if overwrite:
                _projects.discard(project)
                _projects.require_free(project)
            return _resume(hardened, arguments, project, options)


def _resume(hardened, arguments, project, options):
    snapshot = _snapshots.load_project(project)
    tuner_id = os.environ.get("KERASTUNER_TUNER_ID", "tuner0")
    if snapshot is None:
        _projects.require_free(project)
    _projects.remove_leftovers(project, snapshot.trials if snapshot else ())
    # Without this file Keras Tuner explores the space as the code describes it now.
    (project / f"{tuner_id}.json").unlink(missing_ok=True)
    try:
        tuner = hardened(hardened.tracked, **arguments)
    finally:
        if snapshot is not None:
            _snapshots.restore_files(project, snapshot, tuner_id=tuner_id)
    if isinstance(tuner.oracle, kt.oracles.GridSearchOracle):
        _spaces.guard_grid(tuner.oracle)
    identity = _searches.identity(tuner, options)
    if snapshot is not None:
        if snapshot.identity != identity and not snapshot.oracle["end_order"]:
            _projects.discard(project)
            return _resume(hardened, arguments, project, options)
        _searches.require_same_identity(snapshot.identity, identity, project)
        _resuming.reload(tuner, snapshot)
    _resuming.save_snapshots(tuner, identity)
    return tuner


def resolve_objective(objective: Objective | list[Objective]) -> kt.Objective | list[Any]:
    """Return `objective` as a `keras_tuner.Objective`, or a list of them.

    Keras Tuner 1.4.8 guesses "min" for many names where more is better, such as `val_f1_score`.
    """
    if isinstance(objective, list):
        return [resolve_objective(one) for one in objective]
    if isinstance(objective, str):
        return kt.Objective(objective, _known_direction(objective))
    made = objective if isinstance(objective, kt.Objective) else None
    if made is None and not (isinstance(objective, tuple) and len(objective) == 2):
        raise TypeError(
            "`objective` must be a name, a pair (name, direction), a keras_tuner.Objective or a "
            f"list of these. Received: {objective!r}. "
            'Pass for example objective="val_accuracy" or objective=("val_f1_score", "max").'
        )
    name, direction = (made.name, made.direction) if made else objective
    if direction not in ("min", "max"):
        raise ValueError(
            'The direction of an objective must be "min" or "max". '
            f"Received: {direction!r} for {name!r}. "
            'Say "max" where more is better, "min" where less is.'
        )
    return made or kt.Objective(name, direction)


def _known_direction(name):
    try:
        return _DIRECTIONS[name.removeprefix("val_")]
    except KeyError:
        raise ValueError(
            "An objective without a direction must have a known name. "
            f"Received: {name!r}. "
            f'Pass objective=({name!r}, "max") or ({name!r}, "min"), or one of these names, with '
            f"or without val_: {', '.join(sorted(_DIRECTIONS))}."
        ) from None


def _harden(tuner_class, hypermodel, seed, cache):
    if not (isinstance(tuner_class, type) and issubclass(tuner_class, kt.Tuner)):
        raise TypeError(
            "`tuner_class` must be a class of Keras Tuner that trains Keras models. "
            f"Received: {tuner_class!r}. "
            "Pass kt.RandomSearch, kt.GridSearch, kt.BayesianOptimization, kt.Hyperband or a "
            "subclass of one."
        )
    trains_itself = tuner_class.run_trial not in (kt.Tuner.run_trial, kt.Hyperband.run_trial)
    unneeded = hypermodel is None and trains_itself
    definitions = _spaces.Definitions()
    tracked = None if unneeded else TrackedHyperModel(hypermodel, definitions)
    fields = {"base_seed": seed, "cache_directory": cache}
    fields |= {"tracked": tracked, "definitions": definitions}
    return type(tuner_class.__name__, (_resuming.ResumableTuner, tuner_class), fields)


def _checked(options):
    """Return the options with Python's numbers, which JSON can hold, for NumPy's."""
    options = {name: checks.plain(value) for name, value in options.items()}
    rule = "Trials, executions and epochs are counted by positive integers."
    counts = "executions_per_trial", "max_trials", "max_epochs"
    _searches.require_counts(options, *counts, rule=rule, example=2)
    if options.get("hyperparameters") is not None:
        _spaces.make_plain(options["hyperparameters"])
    return options


def _project(directory, project_name):
    if not isinstance(project_name, str) or not project_name.strip("./\\ "):
        raise ValueError(
            "`project_name` must be the name of a folder for this search alone. "
            f'Received: {project_name!r}. Pass for example project_name="search".'
        )
    return Path(directory) / project_name


def _cache(choice, directory):
    if choice != "auto":
        return choice
    # Workers that share a folder would read each other's half-written entries.
    name = os.environ["KERASTUNER_TUNER_ID"] if _resuming.is_worker() else "main"
    return Path(directory) / "compilation_cache" / name
