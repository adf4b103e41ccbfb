"""A search on MNIST for a process of its own: `python mnist_search.py DIRECTORY [DIES_IN]`."""

import json
import os
import sys

os.environ["KERAS_BACKEND"] = "jax"

import keras
import keras_tuner as kt

from chapter18 import datasets, tuning

DIED = 99


def build(hp):
    """Build a small classifier of digits; its width and learning rate are open."""
    model = keras.Sequential(
        [
            keras.Input((28, 28)),
            keras.layers.Flatten(),
            keras.layers.Dense(hp.Choice("units", [8, 16]), activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    optimizer = keras.optimizers.Adam(hp.Choice("rate", [1e-2, 1e-3]))
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def make(directory, dies_in=None):
    """Return the tuner of the search: a grid of four trials of two executions.

    The process dies, as by a kill, with the first execution of the trial `dies_in`.
    """

    class GridSearch(kt.GridSearch):
        def on_epoch_end(self, trial, *args, **kwargs):
            super().on_epoch_end(trial, *args, **kwargs)
            if trial.trial_id == dies_in:
                os._exit(DIED)  # nothing is flushed, nothing cleaned up

    return tuning.make_tuner(
        GridSearch,
        build,
        objective="val_accuracy",
        directory=directory,
        project_name="mnist",
        seed=2,
        executions_per_trial=2,
    )


def search(directory, dies_in=None):
    """Search, or go on; return the scores, unless this process is a worker that knows none."""
    data = datasets.load_mnist()
    tuner = make(directory, dies_in)
    tuner.search(
        data.x_train[:2000],
        data.y_train[:2000],
        validation_data=(data.x_val[:1000], data.y_val[:1000]),
        batch_size=128,
        epochs=1,
        verbose=0,
    )
    trials = getattr(tuner.oracle, "trials", {})
    return {name: trial.score for name, trial in trials.items()}


if __name__ == "__main__":
    print(json.dumps(search(*sys.argv[1:])))
