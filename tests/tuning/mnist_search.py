"""A search on MNIST for a process of its own: `python mnist_search.py DIRECTORY`."""

import json
import os
import sys
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"

import keras
import keras_tuner as kt

from chapter18 import datasets, tuning


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


def make(directory):
    """Return the tuner of the search: a grid of four trials of two executions."""
    return tuning.make_tuner(
        kt.GridSearch,
        build,
        objective="val_accuracy",
        directory=directory,
        project_name="mnist",
        seed=2,
        executions_per_trial=2,
    )


def main():
    """Search, and print the scores, unless this process is a worker that does not know them."""
    directory = Path(sys.argv[1])
    data = datasets.load_mnist()
    tuner = make(directory)
    tuner.search(
        data.x_train[:2000],
        data.y_train[:2000],
        validation_data=(data.x_val[:1000], data.y_val[:1000]),
        batch_size=128,
        epochs=1,
        verbose=0,
    )
    if hasattr(tuner.oracle, "trials"):
        scores = {name: trial.score for name, trial in tuner.oracle.trials.items()}
        print("scores", json.dumps(scores))


if __name__ == "__main__":
    main()
