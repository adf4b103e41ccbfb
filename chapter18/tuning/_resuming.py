"""A mixin that makes a Keras Tuner class seeded, resumable and strict, and what resuming needs."""

import contextlib
import functools
import time
import warnings
from pathlib import Path
from typing import Any

import keras
import keras_tuner as kt
from keras_tuner.src.distribute import utils as cluster

from chapter18._shared import checks, isolation
from chapter18.tuning import _cluster, _projects, _searches, _snapshots, _spaces
from chapter18.tuning._executions import TrialRun

RECORD = "executions.json"
_WAIT_SECONDS = 0.1


class ResumableTuner:
    """Comes before a `keras_tuner.Tuner` class; that class gives the searching."""

    base_seed = None
    cache_directory = None
    tracked = None  # the TrackedHyperModel, where there is a hypermodel
    definitions = None  # the _spaces.Definitions of the hyperparameters
    identity = None  # what must not change when the search is resumed
    searched = None  # what search was called with, as _searches.describe says it

    _run = None
    _waiting = None  # for a trial; None before the first request
    _settings = staticmethod(lambda: None)

    def search(self, *args, **kwargs):
        """Search as Keras Tuner does, from where the last search of this project stopped.

        Once a trial has ended, data and arguments must stay as they were, but for `verbose` and
        for callbacks that only watch. Raises `ValueError` where they changed, for `epochs` under
        Hyperband, which sets them itself, and, as `keras_tuner.errors.FatalValueError`, for an
        objective that training does not log; `TypeError` for generators and other iterators;
        `RuntimeError` while another process searches in the same folder, and where the search has
        gone on in another tuner. Random numbers, dtype policy, distribution and compilation cache
        are afterwards as they were before. Data and arguments are those of `keras.Model.fit`.
        """
        if isinstance(self, kt.Hyperband) and "epochs" in kwargs:
            raise ValueError(
                "Hyperband chooses the number of epochs of each trial itself. "
                f"Received: epochs={kwargs['epochs']}. "
                "Leave epochs out, and give max_epochs to make_tuner."
            )
        kwargs = {name: checks.plain(value) for name, value in kwargs.items()}
        arguments = _searches.named(args, kwargs)
        _searches.require_repeatable(arguments)
        if self.tracked is not None:
            rule = "Epochs and batch size are positive integers."
            _searches.require_counts(arguments, "epochs", "batch_size", rule=rule, example=10)
        with self._alone(arguments), self._isolated():
            super().search(*args, **kwargs)

    @contextlib.contextmanager
    def _alone(self, arguments):
        """Hold the folder, unless this is a worker of a cluster, whose chief does."""
        if is_worker():
            yield
            return
        with _projects.only_one(Path(self.project_dir)):
            self._require_current()
            self._keep(_searches.describe(arguments))
            yield

    def _require_current(self):
        snapshot = _snapshots.load_project(Path(self.project_dir))
        if snapshot is not None and not (
            snapshot.identity == self.identity and _snapshots.knows(self.oracle, snapshot)
        ):
            raise RuntimeError(
                "A tuner searches on from the last state of its folder. "
                f"Received: {self.project_dir}, where another tuner has searched since this one "
                "was made. Make the tuner again, with the same arguments."
            )

    def _keep(self, now):
        changed = _searches.changes(self.searched or {}, now)
        if self.searched is not None and self.oracle.end_order and changed:
            raise ValueError(
                "A search is resumed with the data and the arguments it began with, so that its "
                f"scores can be compared. Received: {'; '.join(changed)}; in {self.project_dir}. "
                "Put back the old ones, choose another project_name, or pass overwrite=True to "
                "make_tuner to start afresh."
            )
        self.searched = now

    def pre_create_trial(self):
        if self._waiting is None:
            _cluster.meet()
        elif self._waiting:
            # The chief had no trial yet; Keras Tuner would ask again at once, and again.
            time.sleep(_WAIT_SECONDS)
        self._waiting = True
        super().pre_create_trial()

    def on_trial_begin(self, trial):
        self._waiting = False
        super().on_trial_begin(trial)
        # Reports of an earlier, broken run of this trial would be averaged with the new ones.
        trial.metrics = type(trial.metrics)()
        self._follow(TrialRun(self, trial, settings=self._settings))

    def run_trial(self, trial, *args, **kwargs):
        self._run.prepare()
        with self.definitions.followed(trial.hyperparameters):
            results = super().run_trial(trial, *args, **kwargs)
        # JSON cannot hold the scalars of NumPy or JAX.
        results = keras.tree.map_structure(checks.plain, results)
        self._run.measure(results)
        return results

    def on_trial_end(self, trial):
        reason = self._run.unusable()
        if trial.status == "COMPLETED" and reason is not None:
            trial.status, trial.message = "INVALID", reason
        path = Path(self.get_trial_dir(trial.trial_id)) / RECORD
        _snapshots.write(path, self._run.record())
        self._follow(None)
        super().on_trial_end(trial)

    def _follow(self, run):
        self._run = run
        if self.tracked is not None:
            self.tracked.run = run

    @contextlib.contextmanager
    def _isolated(self):
        with (
            isolation.random_numbers_kept(),
            isolation.old_objects_not_collected(),
            isolation.keras_settings_kept() as self._settings,
            isolation.persistent_compilation(self.cache_directory),
            warnings.catch_warnings(),
        ):
            # Keras Tuner 1.4.8 takes the best of scores that are NaN, calls deprecated names, and
            # fits a Gaussian process to few points. Each line can go when its warning has gone.
            for message in ("All-NaN", "The optimal value found for", "lbfgs failed to converge"):
                warnings.filterwarnings("ignore", message=message)
            warnings.filterwarnings("ignore", category=DeprecationWarning, module="keras_tuner")
            try:
                yield
            finally:
                self._follow(None)


def reload(tuner: kt.Tuner, snapshot: _snapshots.Snapshot) -> None:
    """Load the project's files into `tuner`, completed by what Keras Tuner leaves out of them."""
    tuner.reload()
    oracle = tuner.oracle
    # Keras Tuner 1.4.8 lists trials as the file system does; Bayesian fits depend on their order.
    oracle.trials = {trial_id: oracle.trials[trial_id] for trial_id in oracle.start_order}
    if snapshot.randomness is not None:
        oracle._random_state.set_state(snapshot.randomness)
    tuner.searched = snapshot.search
    if isinstance(oracle, kt.oracles.GridSearchOracle):
        _spaces.rebuild_grid(oracle)


def save_snapshots(tuner: kt.Tuner, identity: dict[str, Any]) -> None:
    """From now on write a snapshot before Keras Tuner saves its oracle, beginning now."""
    tuner.identity = identity
    save = tuner.oracle.save

    @functools.wraps(save)
    def save_both():
        # A kill in between must not leave Keras Tuner's file without a snapshot.
        _snapshots.capture(tuner)
        save()

    tuner.oracle.save = save_both
    tuner.save()


def is_worker() -> bool:
    """Whether this process takes its trials from the chief of a cluster, which keeps them."""
    return cluster.has_chief_oracle() and not cluster.is_chief_oracle()
