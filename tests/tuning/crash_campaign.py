"""Kill searches outright at any moment, rerun each, and check that nothing was lost.

    PYTHONPATH=. python tests/tuning/crash_campaign.py --kills 100

Each of the four tuners takes its share. A killed search must, after one rerun with the same
arguments, hold exactly the trials, values and scores of a search that nobody killed, must keep
every score that stood recorded at the kill, and may have started one trial twice.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("KERAS_BACKEND", "jax")
# Gaussian processes of eight points only lose time to a second thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import keras_tuner as kt
import numpy as np

from chapter18 import tuning

# A fork has imported everything already; where there is none, each search takes seconds to start.
_FORKS = "fork" in multiprocessing.get_all_start_methods()
_CONTEXT = multiprocessing.get_context("fork" if _FORKS else "spawn")
_DIED = 99
TRIALS = 8
OPTIONS = {
    kt.RandomSearch: {"max_trials": TRIALS},
    kt.GridSearch: {"max_trials": TRIALS},
    kt.BayesianOptimization: {"max_trials": TRIALS, "num_initial_points": 6},
    kt.Hyperband: {"max_epochs": 4, "factor": 2},
}


class Campaign(NamedTuple):
    """What came of the kills of one tuner. A finished search that was killed too late is redone."""

    tuner: str
    kills: int
    trials: int
    started_twice: int
    seconds: float


def make(tuner_class, directory):
    """Return a tuner whose trials only compute a number, so that the files are what is tested."""

    class Toy(tuner_class):
        def run_trial(self, trial, *_, **__):
            with (Path(self.project_dir) / "started").open("a", encoding="utf-8") as file:
                file.write(f"{trial.trial_id}\n")
            time.sleep(0.002)
            values = trial.hyperparameters.values
            bowl = (values["width"] - 3) ** 2 + np.log(values["rate"]) ** 2
            return [float(bowl + np.random.normal()) for _ in range(2)]  # noqa: NPY002

    return tuning.make_tuner(
        Toy,
        None,
        objective="val_loss",
        directory=directory,
        project_name="search",
        seed=7,
        compilation_cache=None,
        hyperparameters=_space(),
        **OPTIONS[tuner_class],
    )


def search(tuner_class, directory):
    """Run, or resume, the whole search; return its `(trial, status, score, values)` rows."""
    tuner = make(tuner_class, directory)
    tuner.search(verbose=0)
    trials = (tuner.oracle.trials[name] for name in tuner.oracle.start_order)
    return [
        [each.trial_id, each.status, each.score, each.hyperparameters.values] for each in trials
    ]


def campaign(tuner_class, kills, generator):
    """Kill `kills` searches of `tuner_class`; raise `AssertionError` at the first that lost."""
    began, twice, done = time.perf_counter(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        duration, operations, expected = _reference(tuner_class, Path(folder) / "reference")
        attempt = 0
        while done < kills:
            attempt += 1
            directory = Path(folder) / str(attempt)
            # Half of the kills come just before a file is touched, rather early than late.
            kill_at = int(operations ** generator.random()) if attempt % 2 else None
            child = _start(tuner_class, directory, kill_at=kill_at)
            if kill_at is None:
                time.sleep(generator.uniform(0, duration))
                child.kill()
            if _exit_code(child) in (_DIED, *range(-64, 0)):
                twice += _check(tuner_class, directory, expected)
                done += 1
    seconds = time.perf_counter() - began
    return Campaign(tuner_class.__name__, kills, len(expected), twice, seconds)


def main():
    """Run the campaigns of the four tuners and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="over the four tuners")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    for number, tuner_class in enumerate(OPTIONS):
        share = len(range(number, arguments.kills, len(OPTIONS)))
        print(json.dumps(campaign(tuner_class, share, generator)._asdict()), flush=True)


def _space():
    hp = kt.HyperParameters()
    hp.Int("width", 1, 6)
    hp.Float("rate", 1e-3, 10.0, sampling="log")
    hp.Choice("kind", ["plain", "deep"])
    with hp.conditional_scope("kind", ["deep"]):
        hp.Int("depth", 2, 4)
    return hp


def _reference(tuner_class, directory):
    began = time.perf_counter()
    child = _start(tuner_class, directory)
    assert _exit_code(child) == 0, "the search that nobody kills must end well"
    seconds = time.perf_counter() - began
    return seconds, int((directory / "operations").read_text("utf-8")), _result(directory)


def _start(tuner_class, directory, *, kill_at=None):
    child = _CONTEXT.Process(target=_record, args=(tuner_class, directory, kill_at))
    child.start()
    return child


def _exit_code(child):
    """Wait for the child; less than zero says that it was killed."""
    child.join()
    return child.exitcode


def _record(tuner_class, directory, kill_at):
    operations = _count_file_operations(directory, kill_at)
    rows = search(tuner_class, directory)
    (directory / "operations").write_text(str(next(operations) - 1), encoding="utf-8")
    (directory / "result.json").write_text(json.dumps(rows), encoding="utf-8")


def _count_file_operations(directory, kill_at):
    """Count openings for writing and renamings in the directory; die just before one of them."""
    counter = itertools.count(1)

    def hook(event, arguments):
        touches = event in ("os.rename", "os.remove", "os.mkdir") or (
            event == "open" and arguments[1] is not None and arguments[1] != "r"
        )
        if touches and str(arguments[0]).startswith(str(directory)) and next(counter) == kill_at:
            os._exit(_DIED)  # as a kill does: nothing is flushed, nothing cleaned up

    sys.addaudithook(hook)
    return counter


def _check(tuner_class, directory, expected):
    recorded = _recorded_scores(directory)
    assert _exit_code(_start(tuner_class, directory)) == 0, "the rerun must end well"
    rows = _result(directory)
    assert rows == expected, f"other trials after the rerun: {rows} instead of {expected}"
    assert len({json.dumps(values) for *_, values in rows}) == len(rows), "trials must be distinct"
    scores = {name: score for name, _, score, _ in rows}
    assert recorded.items() <= scores.items(), f"lost of {recorded}: now {scores}"
    started = (directory / "search" / "started").read_text("utf-8").split()
    twice = len(started) - len(rows)
    assert 0 <= twice <= 1, f"started again: {started}"
    return twice


def _recorded_scores(directory):
    """Scores of the trials that the killed search had ended, read from its snapshot's copies."""
    for name in ("snapshot.json", "snapshot.json.backup"):
        path = directory / "search" / name
        if path.exists():
            trials = json.loads(path.read_text("utf-8"))["state"]["trials"]
            ended = {key: each for key, each in trials.items() if each["status"] == "COMPLETED"}
            return {key: each["score"] for key, each in ended.items()}
    return {}


def _result(directory):
    return json.loads((directory / "result.json").read_text("utf-8"))


if __name__ == "__main__":
    main()
