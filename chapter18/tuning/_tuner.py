"""Keras Tuner made honest: known objectives, one seed, crash-safe resume, healthy trials.

    tuner = tuning.make_tuner(kt.RandomSearch, build, objective="val_accuracy", max_trials=8,
                              directory="searches", project_name="random", seed=1)
    tuner.search(x, y, validation_data=(x_val, y_val), epochs=5, verbose=0)
    tuning.trials_table(tuner)

Run it again after a crash, with the same arguments, and it goes on where it was.
"""

import json
import os
from pathlib import Path
from typing import Any

import keras_tuner as kt

from chapter18._shared import checks, isolation
from chapter18.tuning import _grids, _locks, _objectives, _projects, _resuming, _snapshots, _spaces
from chapter18.tuning._executions import TrackedHyperModel

# Options that may differ when a search is resumed: they say how far to go, not what is searched.
_FREE_OPTIONS = {
    "logger",
    "max_consecutive_failed_trials",
    "max_retries_per_trial",
    "max_trials",
    "tuner_id",
}
_COUNTS = ("executions_per_trial", "max_trials", "max_epochs")


def make_tuner(
    tuner_class: type[kt.Tuner],
    hypermodel,
    *,
    objective,
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
        "objective": _objectives.resolve(objective),
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
        with _locks.only_one(project):
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
        _grids.guard(tuner.oracle)
    identity = _identity(tuner, options)
    if snapshot is not None:
        if snapshot.identity != identity and not snapshot.oracle["end_order"]:
            _projects.discard(project)
            return _resume(hardened, arguments, project, options)
        _require_same(snapshot.identity, identity, project)
        _resuming.reload(tuner, snapshot)
    _resuming.save_snapshots(tuner, identity)
    return tuner


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
    fields = {
        "base_seed": seed,
        "cache_directory": cache,
        "tracked": tracked,
        "definitions": definitions,
    }
    return type(tuner_class.__name__, (_resuming.ResumableTuner, tuner_class), fields)


def _checked(options):
    """Return the options with Python's numbers, which JSON can hold, for NumPy's."""
    options = {name: checks.plain(value) for name, value in options.items()}
    for name in _COUNTS:
        if options.get(name) is not None:
            checks.positive_integer(
                options[name],
                name,
                rule="Trials, executions and epochs are counted by positive integers.",
                remedy=f"Pass for example {name}=2.",
            )
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


def _identity(tuner, options):
    """Return what must not change when a search is resumed, as JSON gives it back."""
    identity = {
        "tuner class": type(tuner).__name__,
        "objective": str(tuner.oracle.objective),
        "seed": tuner.base_seed,
        "space": {str(hp["config"]): hp for hp in tuner.oracle.get_space().get_config()["space"]},
    }
    identity |= {
        name: value
        for name, value in options.items()
        if name not in _FREE_OPTIONS and _is_plain(value)
    }
    return json.loads(json.dumps(identity))


def _is_plain(value):
    return isinstance(value, bool | int | float | str | None)


def _require_same(before, now, project):
    changed = [name for name in before | now if _text(before, name) != _text(now, name)]
    if changed:
        raise ValueError(
            "A search is resumed with the space, objective, seed and options it began with. "
            f"Received: {'; '.join(_change(name, before, now) for name in changed)}; "
            f"in {project}. "
            "Put back the old value, choose another project_name, or pass overwrite=True to start "
            "afresh."
        )


def _text(identity, name):
    # As text NaN is equal to itself.
    return json.dumps(identity.get(name), sort_keys=True)


def _change(name, before, now):
    if name != "space":
        return f"{name} {now.get(name)} instead of {before.get(name)}"
    old, new = before[name], now[name]
    names = sorted(
        {hp["config"]["name"] for key, hp in (old | new).items() if (key in old) != (key in new)}
    )
    return f"another space, changed in {', '.join(names)}"
