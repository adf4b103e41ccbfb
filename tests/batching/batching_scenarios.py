"""Evaluate, predict and validate any number of rows on eight devices, and compare with one."""

import keras
import numpy as np
from distributions import DISTRIBUTIONS
from keras import layers

from chapter18 import batching

BATCH = 32


class MonteCarloDropout(layers.Dropout):
    """Drops in predictions too."""

    def call(self, inputs):
        return super().call(inputs, training=True)


def data(rows):
    rng = np.random.default_rng(rows)
    x = rng.normal(size=(rows, 6)).astype("float32")
    y = {"kind": rng.integers(0, 3, rows), "size": rng.normal(size=(rows, 1)).astype("float32")}
    return x, y, rng.uniform(0.5, 2.0, rows).astype("float32")


def build():
    """Two outputs, batch statistics, a loss that weighs within the batch, metrics of both kinds."""
    keras.utils.set_random_seed(3)
    inputs = keras.Input((6,))
    hidden = layers.Dense(8, activation="relu", name="hidden")(inputs)
    hidden = layers.Dropout(0.5)(layers.BatchNormalization()(hidden))
    outputs = {
        "kind": layers.Dense(3, activation="softmax", name="kind")(hidden),
        "size": layers.Dense(1, name="size", kernel_regularizer="l2")(hidden),
    }
    model = keras.Model(inputs, outputs)
    model.compile(
        "adam",
        {
            "kind": keras.losses.SparseCategoricalCrossentropy(),
            "size": keras.losses.MeanSquaredError(reduction="mean_with_sample_weight"),
        },
        metrics={"kind": ["accuracy"], "size": ["mae"]},
        weighted_metrics={"kind": ["accuracy"], "size": ["mse"]},
    )
    return model


def measured(model, rows):
    """Return loss and metrics, the logs of a validated fit, and predictions, all by `batching`."""
    x, y, weights = data(rows)
    arguments = {"sample_weight": weights, "batch_size": BATCH}
    logs = batching.evaluate(model, x, y, **arguments)
    again = batching.evaluate(model, x, y, **arguments)
    assert logs == again, (logs, again)
    validation = batching.Validation(x, y, **arguments)
    stopping = keras.callbacks.EarlyStopping("val_loss", patience=9)
    x_train, y_train, _ = data(2 * BATCH)
    history = model.fit(
        x_train,
        y_train,
        batch_size=BATCH,
        epochs=2,
        shuffle=False,
        verbose=0,
        callbacks=[validation, stopping],
    ).history
    return logs, history, batching.predict(model, x, batch_size=BATCH)


def by_keras(model, rows):
    """Return the same by Keras alone, on one device."""
    x, y, weights = data(rows)
    logs = model.evaluate(
        x, y, sample_weight=weights, batch_size=BATCH, verbose=0, return_dict=True
    )
    x_train, y_train, _ = data(2 * BATCH)
    history = model.fit(
        x_train,
        y_train,
        batch_size=BATCH,
        epochs=2,
        shuffle=False,
        verbose=0,
        validation_data=(x, y, weights),
    ).history
    return logs, history, model.predict(x, batch_size=BATCH, verbose=0)


def assert_close(ours, keras_own):
    for mine, theirs in zip(ours, keras_own, strict=True):
        assert mine.keys() == theirs.keys(), (mine.keys(), theirs.keys())
        for name, value in theirs.items():
            np.testing.assert_allclose(mine[name], value, rtol=0, atol=1e-5, err_msg=name)


def sampled():
    """Return twice what a model predicts that draws numbers, and the state that it is left with."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((6,)), MonteCarloDropout(0.5, seed=1), layers.Dense(2)])
    x = data(37)[0]
    if keras.distribution.distribution() is None:
        found = [model.predict(x, batch_size=16, verbose=0) for _ in range(2)]
    else:
        found = [batching.predict(model, x, batch_size=16) for _ in range(2)]
    return [*found, *[np.array(variable.value) for variable in model.non_trainable_variables]]


def weights_survive_failures():
    model = build()
    x, y, _ = data(100)
    before = [np.array(variable.value) for variable in model.variables]
    failures = 0
    for call in (
        lambda: batching.evaluate(model, x[:, :5], y, batch_size=BATCH),
        lambda: batching.evaluate(model, x, {"kind": y["kind"]}, batch_size=BATCH),
        lambda: batching.predict(model, x[:, :5], batch_size=BATCH),
        lambda: batching.predict(model, x, batch_size=BATCH + 1),
    ):
        try:
            call()
        except Exception:
            failures += 1
    assert failures == 4, failures
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.value, value)


def main():
    # One model for both numbers of rows, because compiling its training takes longest.
    model = build()
    expected = {rows: by_keras(model, rows) for rows in (100, 3)}
    for name in ("data_parallel", "model_parallel"):
        keras.distribution.set_distribution(DISTRIBUTIONS[name]())
        model = build()
        for rows, keras_own in expected.items():
            assert_close(measured(model, rows), keras_own)
            print(name, rows, "close", flush=True)
    keras.distribution.set_distribution(None)
    expected = sampled()
    keras.distribution.set_distribution(DISTRIBUTIONS["data_parallel"]())
    weights_survive_failures()
    print("weights survive")
    for found, one_device in zip(sampled(), expected, strict=True):
        np.testing.assert_allclose(found, one_device, rtol=0, atol=1e-5)
    print("state carried")


if __name__ == "__main__":
    main()
