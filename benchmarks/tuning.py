"""The same search with plain Keras Tuner and with `tuning.make_tuner`: equal scores, less time."""

import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import keras_tuner as kt

from benchmarks.rows import Row
from chapter18 import datasets, tuning

SEED = 1
TRIALS = 8
EXECUTIONS = 2
EPOCHS = 5


def build(hp):
    """Return a compiled network for MNIST whose width, dropout and learning rate are searched."""
    model = keras.Sequential(
        [
            keras.layers.Input((28, 28)),
            keras.layers.Flatten(),
            keras.layers.Dense(hp.Int("units", 32, 128, step=32), activation="relu"),
            keras.layers.Dropout(hp.Float("dropout", 0.0, 0.5)),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    rate = hp.Float("learning_rate", 1e-4, 1e-2, sampling="log")
    model.compile(
        keras.optimizers.Adam(rate), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return model


class SeededBuild:
    """`build` with the seeds of `make_tuner`: Keras Tuner alone repeats trials, not scores."""

    def __init__(self):
        # Keras Tuner builds once more at the start, to learn the space.
        self.builds = -1

    def __call__(self, hp):
        trial, execution = divmod(max(self.builds, 0), EXECUTIONS)
        self.builds += 1
        keras.utils.set_random_seed(tuning.execution_seed(SEED, str(trial), execution))
        return build(hp)


def measure():
    """Return two `Row`s, cold and warm compilation cache; raise if any score differs."""
    data = datasets.load_mnist()
    with tempfile.TemporaryDirectory() as folder:
        _warm_up(data)
        cache = Path(folder) / "cache"
        plain = _timed(_plain(folder), data)
        cold = _timed(_ours(folder, "cold", cache), data)
        warm = _timed(_ours(folder, "warm", cache), data)
    for name, (_, scores) in {"cold": cold, "warm": warm}.items():
        if scores != plain[1]:
            raise AssertionError(
                f"The same trials must have the same scores. Received: {scores} ({name}) "
                f"instead of {plain[1]}. Look for a random number that no seed fixes."
            )
    note = f"{len(plain[1])} trials, equal scores"
    return [
        Row("search, cold compilation cache", plain[0], cold[0], plain[0] / cold[0], note),
        Row("search, warm compilation cache", plain[0], warm[0], plain[0] / warm[0], note),
    ]


def main():
    """Print a line for each row."""
    for row in measure():
        print(
            f"{row.name}: {row.baseline_seconds:.1f} s plain, {row.ours_seconds:.1f} s ours, "
            f"{row.ratio:.2f}x, {row.note}"
        )


def _plain(folder):
    return kt.RandomSearch(
        SeededBuild(),
        objective="val_accuracy",
        max_trials=TRIALS,
        executions_per_trial=EXECUTIONS,
        directory=folder,
        project_name="plain",
        seed=SEED,
    )


def _ours(folder, name, cache):
    return tuning.make_tuner(
        kt.RandomSearch,
        build,
        objective="val_accuracy",
        max_trials=TRIALS,
        executions_per_trial=EXECUTIONS,
        directory=folder,
        project_name=name,
        seed=SEED,
        compilation_cache=cache,
    )


def _timed(tuner, data):
    began = time.perf_counter()
    tuner.search(
        data.x_train,
        data.y_train,
        validation_data=(data.x_val, data.y_val),
        epochs=EPOCHS,
        batch_size=128,
        verbose=0,
    )
    seconds = time.perf_counter() - began
    return seconds, [tuner.oracle.trials[name].score for name in tuner.oracle.start_order]


def _warm_up(data):
    """Wake JAX, so that the first search measured does not pay for it."""
    build(kt.HyperParameters()).fit(data.x_train[:256], data.y_train[:256], verbose=0)


if __name__ == "__main__":
    main()
