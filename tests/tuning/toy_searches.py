"""Searches small enough for tests: over numbers that need no training, and over a tiny network."""

import tempfile

import keras
import keras_tuner as kt
import numpy as np

from chapter18 import tuning

ROWS = 64
# Many tests train the same few networks: they compile them once.
CACHE = tempfile.TemporaryDirectory()


def data(seed=0):
    """Return `x (rows, 4)` float32 and `y (rows,)` int32, whose label is the sign of a feature."""
    x = np.random.default_rng(seed).normal(size=(ROWS, 4)).astype("float32")
    return x, (x[:, 0] > 0).astype("int32")


def network(hp):
    """Build a tiny classifier; `units` and `rate` are open."""
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(hp.Int("units", 2, 4, step=2), activation="relu"),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    optimizer = keras.optimizers.SGD(hp.Float("rate", 1e-3, 1.0, sampling="log"))
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def make_network(directory, *, tuner_class=kt.RandomSearch, build=network, **options):
    """Return a hardened tuner over `network`."""
    arguments = {
        "objective": "val_accuracy",
        "project_name": "network",
        "seed": 3,
        "compilation_cache": CACHE.name,
    }
    if tuner_class is not kt.Hyperband:
        arguments["max_trials"] = 2
    return tuning.make_tuner(tuner_class, build, directory=directory, **arguments | options)


def train(tuner, *, epochs=2, **options):
    """Search with the tiny data; `options` as in `fit`."""
    x, y = data()
    length = {} if isinstance(tuner, kt.Hyperband) else {"epochs": epochs}
    tuner.search(x, y, validation_data=data(1), batch_size=16, verbose=0, **length | options)
    return tuner


class Numbers(kt.RandomSearch):
    """Its trials return the lists of scores in `results`, one a trial; an exception is raised."""

    results = ()

    def run_trial(self, trial, *_, **__):
        result = self.results[int(trial.trial_id)]
        if isinstance(result, Exception):
            raise result
        return result


def make_numbers(directory, results=(), *, tuner_class=Numbers, **options):
    """Return a hardened tuner whose trials give `results`."""
    hp = kt.HyperParameters()
    hp.Float("width", 0.0, 1.0)
    named = type(tuner_class.__name__, (tuner_class,), {"results": results})
    arguments = {
        "objective": "val_loss",
        "project_name": "numbers",
        "seed": 5,
        "max_trials": len(results) or 3,
        "compilation_cache": None,
        "hyperparameters": hp,
    }
    return tuning.make_tuner(named, None, directory=directory, **arguments | options)


def search_numbers(directory, results, **options):
    """Return the tuner of `make_numbers` after its search."""
    tuner = make_numbers(directory, results, **options)
    tuner.search(verbose=0)
    return tuner
