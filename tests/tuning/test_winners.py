"""Restored and retrained models, selection bias and leaks, against what Keras itself measures."""

import keras
import keras_tuner as kt
import numpy as np
import pytest
from toy_searches import ROWS, data, make_network, network, search_numbers, train

from chapter18 import tuning


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Return a tuner after three trials of two executions each, scored by the validation loss."""
    folder = tmp_path_factory.mktemp("searched")
    options = {"objective": "val_loss", "max_trials": 3, "executions_per_trial": 2}
    return train(make_network(folder, **options), epochs=3)


def test_a_restored_model_scores_what_its_best_execution_scored(searched):
    x, y = data(1)
    for trial in tuning.best(searched, n=3):
        table = tuning.trials_table(searched).set_index("trial").loc[trial.trial_id]
        model = tuning.restore(searched, trial, x=x, y=y)
        loss = model.evaluate(x, y, verbose=0, return_dict=True)["loss"]
        assert loss == pytest.approx(min(table["execution_1"], table["execution_2"]), abs=1e-6)
        assert loss < trial.score


def test_a_model_is_restored_in_a_resumed_search(searched):
    x, y = data(1)
    resumed = make_network(
        searched.directory, objective="val_loss", max_trials=3, executions_per_trial=2
    )
    pair = [tuning.restore(t, tuning.best(t)[0], x=x, y=y) for t in (searched, resumed)]
    outputs = [model.predict(x, verbose=0) for model in pair]
    np.testing.assert_array_equal(*outputs)


def test_other_data_than_the_searched_are_noticed(searched):
    x, y = data(2)
    with pytest.raises(ValueError, match=r"score what its best execution.* Received: val_loss 0\."):
        tuning.restore(searched, tuning.best(searched)[0], x=x, y=y)


def test_a_changed_checkpoint_is_noticed(tmp_path):
    x, y = data(1)
    tuner = train(make_network(tmp_path, max_trials=1, objective="val_loss"))
    trial = tuning.best(tuner)[0]
    model = tuning.restore(tuner, trial, x=x, y=y)
    model.set_weights([weight + 1.0 for weight in model.get_weights()])
    model.save_weights(tmp_path / "network" / "trial_0" / "checkpoint.weights.h5")
    with pytest.raises(ValueError, match="but trial 0 recorded"):
        tuning.restore(tuner, trial, x=x, y=y)


class Subclassed(keras.Model):
    """Knows the size of its input only when it is called."""

    def __init__(self, units):
        super().__init__()
        self.hidden = keras.layers.Dense(units, activation="relu")
        self.head = keras.layers.Dense(2, activation="softmax")

    def call(self, inputs):
        return self.head(self.hidden(inputs))


def subclassed(hp):
    """Build a compiled `Subclassed`."""
    model = Subclassed(hp.Int("units", 2, 8))
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def test_a_subclassed_model_is_built_before_it_is_loaded(tmp_path):
    x, y = data(1)
    tuner = train(make_network(tmp_path, build=subclassed, max_trials=1, objective="val_loss"))
    trial = tuning.best(tuner)[0]
    loss = tuning.restore(tuner, trial, x=x, y=y).evaluate(x, y, verbose=0, return_dict=True)
    assert loss["loss"] == pytest.approx(trial.score, abs=1e-6)


def test_a_trial_without_weights_is_not_restored(tmp_path):
    tuner = search_numbers(tmp_path, [1.0])
    with pytest.raises(ValueError, match=r"only if its search saved weights.* Received: trial 0"):
        tuning.restore(tuner, tuning.best(tuner)[0], x=0, y=0)


def test_a_training_score_cannot_be_checked(tmp_path):
    tuner = train(make_network(tmp_path, max_trials=1, objective="accuracy"))
    x, y = data(1)
    with pytest.raises(ValueError, match=r"evaluation measures.* val_accuracy, val_loss"):
        tuning.restore(tuner, tuning.best(tuner)[0], x=x, y=y)


def test_a_trial_of_another_search_is_neither_restored_nor_retrained(searched, tmp_path):
    other = train(make_network(tmp_path, max_trials=1, objective="val_loss", seed=4))
    trial = tuning.best(other)[0]
    (x, y), (x_val, y_val) = data(), data(1)
    message = r"one of the tuner's own\. Received: trial 0 with .*units.* its own has .*units"
    with pytest.raises(ValueError, match=message):
        tuning.restore(searched, trial, x=x_val, y=y_val)
    with pytest.raises(ValueError, match=message):
        tuning.retrain(searched, trial, x=x, y=y, x_val=x_val, y_val=y_val)


def _named_inputs(hp):
    inputs = {name: keras.Input((2,), name=name) for name in ("left", "right")}
    hidden = keras.layers.Concatenate()(list(inputs.values()))
    units = hp.Int("units", 2, 4)
    outputs = keras.layers.Dense(2, activation="softmax")(keras.layers.Dense(units)(hidden))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _nested(x):
    return {"left": x[:, :2], "right": x[:, 2:]}


def test_nests_of_arrays_are_restored_retrained_and_measured(tmp_path):
    (x, y), (x_val, y_val) = data(), data(1)
    arrays = {"x": _nested(x), "y": y, "validation_data": (_nested(x_val), y_val)}
    tuner = make_network(tmp_path, build=_named_inputs, max_trials=1, objective="val_loss")
    tuner.search(**arrays, epochs=1, verbose=0)
    trial = tuning.best(tuner)[0]
    tuning.restore(tuner, trial, x=_nested(x_val), y=y_val)
    given = {"x": _nested(x), "y": y, "x_val": _nested(x_val), "y_val": y_val}
    retrained = tuning.retrain(tuner, trial, **given).model
    keras.utils.set_random_seed(tuning.execution_seed(tuner.base_seed, trial.trial_id, 1))
    model = _named_inputs(trial.hyperparameters.copy())
    rows = {name: np.concatenate([given["x"][name], given["x_val"][name]]) for name in given["x"]}
    model.fit(rows, np.concatenate([y, y_val]), epochs=2, verbose=0)
    for one, other in zip(retrained.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(tuning.selection_bias(tuner, x_test=_nested(x_val), y_test=y_val)) == 1
    with pytest.raises(ValueError, match=r"nested alike\. Received: for x {.*} and ndarray"):
        tuning.retrain(tuner, trial, **given | {"x_val": x_val})


class Counting(kt.HyperModel):
    """Counts the rows and epochs of each training."""

    def __init__(self):
        super().__init__()
        self.trainings = []

    def build(self, hp):
        return network(hp)

    def fit(self, _hp, model, x, y, **kwargs):
        self.trainings.append((len(x), len(y), kwargs["epochs"], kwargs.get("batch_size")))
        return model.fit(x, y, **kwargs)


def test_retraining_uses_all_rows_for_longer(tmp_path):
    hypermodel = Counting()
    tuner = train(make_network(tmp_path, build=hypermodel, max_trials=1, objective="val_loss"))
    trial = tuning.best(tuner)[0]
    (x, y), (x_val, y_val) = data(), data(1)
    best = tuning.best_epoch(tuner, trial)
    rows = {"x": x, "y": y, "x_val": x_val, "y_val": y_val}
    longer = tuning.retrain(tuner, trial, **rows, factor=2.5, batch_size=8)
    assert longer.epochs == int(np.ceil(2.5 * best))
    assert hypermodel.trainings[-1] == (2 * ROWS, 2 * ROWS, longer.epochs, 8)
    default = tuning.retrain(tuner, trial, **rows)
    assert default.epochs == int(np.ceil(1.2 * best))
    assert default.model.layers[0].units == trial.hyperparameters["units"]
    again = tuning.retrain(tuner, trial, **rows)
    for one, other in zip(default.model.get_weights(), again.model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_selection_bias_follows_the_winner(searched):
    x, y = data(5)
    bias = tuning.selection_bias(searched, x_test=x, y_test=y)
    table = tuning.trials_table(searched)
    runs = table[["execution_1", "execution_2"]].min(axis=1)
    np.testing.assert_array_equal(bias["trials"], [1, 2, 3])
    np.testing.assert_array_equal(bias["validation"], np.minimum.accumulate(runs))
    assert list(bias["trial"]) == [str(np.argmin(runs[: n + 1])) for n in range(3)]
    np.testing.assert_allclose(bias["gap"], bias["test"] - bias["validation"])
    winner = searched.oracle.trials[bias["trial"].iloc[-1]]
    x_val, y_val = data(1)
    model = tuning.restore(searched, winner, x=x_val, y=y_val)
    loss = model.evaluate(x, y, verbose=0, return_dict=True)["loss"]
    assert bias["test"].iloc[-1] == pytest.approx(loss, abs=1e-6)


def test_the_gap_of_a_gain_is_positive_where_validation_flatters(tmp_path):
    tuner = train(make_network(tmp_path, max_trials=1))
    x, y = data(1)
    bias = tuning.selection_bias(tuner, x_test=x, y_test=1 - y)
    assert bias["validation"][0] + bias["test"][0] == pytest.approx(1.0)
    assert bias["gap"][0] == pytest.approx(2 * bias["validation"][0] - 1.0)


def test_leaked_rows_are_those_found_by_brute_force():
    generator = np.random.default_rng(0)
    a = generator.integers(0, 3, size=(40, 3)).astype("float32")
    b = generator.integers(0, 3, size=(30, 3))
    expected = sum(any((row == other).all() for other in a) for row in b)
    assert 0 < expected < 30
    assert tuning.leaked_rows(a, b) == expected
    assert tuning.leaked_rows(a, -b.astype("float32") * 0.0) == 30 * any((a == 0).all(axis=1))


def test_rows_of_nests_leak_only_where_all_their_arrays_agree():
    a = {"left": np.array([[1, 2], [3, 4]]), "right": np.array([5.0, 6.0])}
    b = {"left": np.array([[3, 4], [3, 4], [1, 2]]), "right": np.array([6.0, 5.0, 5.0])}
    assert tuning.leaked_rows(a, b) == 2
    assert tuning.leaked_rows(tuple(a.values()), tuple(b.values())) == 2
    assert tuning.leaked_rows([1, 2, 2], [2, 3]) == 1
    with pytest.raises(ValueError, match=r"must have the same rows\. Received: 2 and 3, 2 and 1"):
        tuning.leaked_rows(a, {"left": b["left"], "right": b["right"][:1]})
    with pytest.raises(ValueError, match=r"nested alike\. Received: for a {.*} and ndarray"):
        tuning.leaked_rows(a, b["left"])


def test_python_objects_cannot_be_compared():
    rows = np.array([["a", 1], ["b", 2]], dtype=object)
    with pytest.raises(TypeError, match=r"byte by byte.*Received: dtype object\. Turn text into"):
        tuning.leaked_rows(rows, rows)


def test_rows_of_different_shapes_cannot_be_compared():
    with pytest.raises(ValueError, match=r"one shape\. Received: arrays of shapes \(2, 3\) and"):
        tuning.leaked_rows(np.zeros((2, 3)), np.zeros((2, 4)))
