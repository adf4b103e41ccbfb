"""A mixin that makes a Keras Tuner class seeded, resumable and strict, and what resuming needs."""

import contextlib
import functools
import time
import warnings
from pathlib import Path

import keras_tuner as kt

from chapter18 import isolation, local_cluster, snapshots
from chapter18.executions import TrialRun

RECORD = "executions.json"
_WAIT_SECONDS = 0.1


class ResumableTuner:
    """Comes before a `keras_tuner.Tuner` class; that class gives the searching."""

    base_seed = None
    cache_directory = None
    tracked = None  # the TrackedHyperModel, where there is a hypermodel

    _run = None
    _waiting = None  # for a trial; None before the first request
    _settings = staticmethod(lambda: None)

    def search(self, *args, **kwargs):
        """Search as Keras Tuner does, from where the last search of this project stopped.

        Hyperband sets the epochs itself and refuses `epochs`. An objective that training does not
        log raises `keras_tuner.errors.FatalValueError`. Random numbers, dtype policy, distribution
        and compilation cache are afterwards as they were before.
        """
        if isinstance(self, kt.Hyperband) and "epochs" in kwargs:
            raise ValueError(
                "Hyperband chooses the number of epochs of each trial itself. "
                f"Received: epochs={kwargs['epochs']}. "
                "Leave epochs out, and give max_epochs to make_tuner."
            )
        with self._isolated():
            super().search(*args, **kwargs)

    def pre_create_trial(self):
        if self._waiting is None:
            local_cluster.meet()
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
        self._follow(TrialRun(self, trial, seed=self.base_seed, settings=self._settings))

    def run_trial(self, trial, *args, **kwargs):
        self._run.prepare()
        results = super().run_trial(trial, *args, **kwargs)
        self._run.measure(results)
        return results

    def on_trial_end(self, trial):
        reason = self._run.unusable()
        if trial.status == "COMPLETED" and reason is not None:
            trial.status, trial.message = "INVALID", reason
        path = Path(self.get_trial_dir(trial.trial_id)) / RECORD
        snapshots.write(path, self._run.record())
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
            # Keras Tuner takes the best of scores that are NaN, calls deprecated names, and fits a
            # Gaussian process to a handful of points, which scikit-learn remarks on.
            for message in ("All-NaN", "The optimal value found for", "lbfgs failed to converge"):
                warnings.filterwarnings("ignore", message=message)
            warnings.filterwarnings("ignore", category=DeprecationWarning, module="keras_tuner")
            try:
                yield
            finally:
                self._follow(None)


def reload(tuner, snapshot):
    """Load the project's files into `tuner`, completed by what Keras Tuner leaves out of them."""
    tuner.reload()
    oracle = tuner.oracle
    # Keras Tuner lists trials as the file system does; Bayesian fits depend on their order.
    oracle.trials = {trial_id: oracle.trials[trial_id] for trial_id in oracle.start_order}
    snapshots.restore_randomness(oracle, snapshot)
    if isinstance(oracle, kt.oracles.GridSearchOracle):
        _rebuild_grid(oracle)


def save_snapshots(tuner, identity):
    """From now on write a snapshot before Keras Tuner saves its oracle, beginning now."""
    save = tuner.oracle.save

    @functools.wraps(save)
    def save_both():
        # A kill in between must not leave Keras Tuner's file without a snapshot.
        snapshots.capture(tuner, identity)
        save()

    tuner.oracle.save = save_both
    tuner.save()


def _rebuild_grid(oracle):
    """Derive from the trials what Keras Tuner forgets of a grid: their order, and what is next."""

    def compare(a, b):
        values = (oracle.trials[trial_id].hyperparameters.values for trial_id in (a, b))
        return oracle._compare(*values)

    oracle._ordered_ids = type(oracle._ordered_ids)()
    for trial_id in sorted(oracle.start_order, key=functools.cmp_to_key(compare)):
        oracle._ordered_ids.insert(trial_id)
    oracle._populate_next = list(oracle.start_order)
