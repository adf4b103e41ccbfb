import gc
import weakref

import jax
import keras
import numpy as np
import pytest
from batching_scenarios import MonteCarloDropout
from child import run_child
from keras import layers

from chapter18 import batching


def small_model(compiled=True, **options):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2)], name="small")
    if compiled:
        model.compile("adam", "mse", metrics=["mae"], **options)
    return model


def data(rows):
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, 3)).astype("float32"), np.ones((rows, 2), "float32")


def state(model):
    variables = (*model.variables, *model.optimizer.variables)
    return [np.array(variable.value) for variable in variables]


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_eight_devices_agree_with_one_and_failures_leave_the_weights_alone():
    out = run_child("batching_scenarios.py", timeout=600)
    cases = [f"{d}_parallel {rows} close" for d in ("data", "model") for rows in (100, 3)]
    assert out.split("\n")[:-1] == [*cases, "weights survive", "state carried"]


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 100])
@pytest.mark.parametrize("devices", [1, 2, 8])
def test_a_plan_agrees_with_cutting_the_rows_one_by_one(rows, devices):
    plan = batching.plan_batches(rows, 16, devices)
    batches = [len(part) for part in np.split(np.arange(rows), range(16, rows, 16))]
    assert plan.full_batches == batches.count(16)
    assert plan.remainder == sum(batches) - 16 * batches.count(16)
    assert plan.per_replica * devices == 16
    splits = all(length % devices == 0 for length in batches)
    assert ("does not split" in plan.outcome) is not splits


def test_a_plan_takes_and_gives_back_any_kind_of_integer():
    plan = batching.plan_batches(np.int64(99), np.uint8(32), np.int32(8))
    assert plan == batching.plan_batches(99, 32, 8)
    assert {type(value) for value in plan[:-1]} == {int}


def test_outcomes_say_what_will_happen():
    assert batching.plan_batches(64, 32, 8).outcome == "Every batch is full and splits evenly."
    assert "splits evenly, 2 rows a device" in batching.plan_batches(48, 32, 8).outcome
    outcome = batching.plan_batches(99, 32, 8).outcome
    assert "last batch of 3 rows does not split over 8 devices" in outcome
    assert "batching.trim leaves 3 rows out" in outcome


@pytest.mark.parametrize(
    ("arguments", "received"),
    [
        ((0, 32, 8), "rows=0"),
        ((10, -1, 8), "batch_size=-1"),
        ((10, 32, 8.0), "devices=8.0"),
        ((10, True, 1), "batch_size=True"),
    ],
)
def test_a_plan_wants_positive_integers(arguments, received):
    with pytest.raises(ValueError, match=rf"positive integers. Received: {received}. Pass the"):
        batching.plan_batches(*arguments)


@pytest.mark.parametrize(("batch_size", "advice"), [(100, "96 or 104"), (3, "8")])
def test_a_batch_that_never_splits_is_refused(batch_size, advice):
    with pytest.raises(
        ValueError, match=rf"multiple of.*batch_size={batch_size}, devices=8. Use {advice}\."
    ):
        batching.plan_batches(1000, batch_size, 8)


@pytest.mark.parametrize(("rows", "kept"), [(100, 96), (96, 96), (71, 64), (8, 8)])
def test_trim_keeps_what_splits_and_says_what_it_leaves(rows, kept, capsys):
    x, y = data(rows)
    trimmed_x, trimmed = batching.trim(x, {"y": y}, batch_size=32, devices=8)
    assert_same([trimmed_x, trimmed["y"]], [x[:kept], y[:kept]])
    said = capsys.readouterr().out
    expected = f"trim: the last {rows - kept} of {rows} rows left out of each epoch.\n"
    assert said == (expected if rows > kept else "")
    assert len(batching.trim(x, batch_size=32, devices=8)) == kept


def test_trim_refuses_to_leave_nothing():
    with pytest.raises(ValueError, match=r"one row for each device. Received: rows=3, devices=8"):
        batching.trim(np.zeros(3), batch_size=8, devices=8)


def test_on_one_device_it_is_keras_with_every_kind_of_arguments():
    model = small_model()
    x, y = data(10)
    weights = np.linspace(0, 1, 10, dtype="float32")
    for arguments in ((x, y), (x.astype("float64"), y), (jax.numpy.asarray(x), y)):
        ours = batching.evaluate(model, *arguments, batch_size=4, sample_weight=weights)
        keras_own = model.evaluate(
            *arguments, batch_size=4, sample_weight=weights, verbose=0, return_dict=True
        )
        assert ours == pytest.approx(keras_own, rel=1e-6)
    np.testing.assert_allclose(
        batching.predict(model, x, batch_size=4), model.predict(x, verbose=0), rtol=1e-6
    )


def test_metrics_that_are_vectors_and_models_of_several_inputs():
    inputs = [keras.Input((3,)), keras.Input((3,))]
    outputs = layers.Dense(4, activation="softmax")(layers.Add()(inputs))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "categorical_crossentropy", metrics=[keras.metrics.F1Score()])
    x, _ = data(11)
    y = np.eye(4, dtype="float32")[np.arange(11) % 4]
    ours = batching.evaluate(model, [x, -x / 2], y, batch_size=4)
    keras_own = model.evaluate([x, -x / 2], y, batch_size=4, verbose=0, return_dict=True)
    assert ours["f1_score"].shape == (4,)
    np.testing.assert_allclose(ours["f1_score"], keras_own["f1_score"], rtol=1e-6)
    assert ours["loss"] == pytest.approx(keras_own["loss"], rel=1e-6)


class Unbuilt(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(2)

    def call(self, x):
        return self.dense(x)


def test_an_unbuilt_model_is_built_and_an_uncompiled_one_predicts():
    x, y = data(5)
    assert batching.predict(Unbuilt(), x).shape == (5, 2)
    model = Unbuilt()
    model.compile("sgd", "mse")
    loss = batching.evaluate(model, x, y)["loss"]
    assert loss == pytest.approx(np.mean((np.asarray(model(x)) - y) ** 2), rel=1e-6)


def sampling():
    """A dropout that stays on draws numbers in every batch."""
    keras.utils.set_random_seed(5)
    return keras.Sequential(
        [keras.Input((3,)), MonteCarloDropout(0.5, seed=1), layers.Dense(2), layers.Dropout(0.5)]
    )


def stateful():
    """A recurrent model for batches of 4 rows and no other number, whose state lives on."""
    keras.utils.set_random_seed(5)
    return keras.Sequential(
        [keras.Input(batch_shape=(4, 3, 1)), layers.LSTM(3, stateful=True), layers.Dense(2)]
    )


def test_repeated_predictions_of_monte_carlo_dropout_spread():
    x = np.tile(data(1)[0], (8, 1))
    model = sampling()
    found = [batching.predict(model, x, batch_size=4) for _ in range(3)]
    assert np.std(found, axis=0).max() > 0.01
    assert np.abs(found[0][:4] - found[0][4:]).max() > 0.01


@pytest.mark.parametrize("build", [sampling, stateful])
def test_what_layers_keep_is_carried_and_left_as_keras_leaves_it(build):
    ours, keras_own = build(), build()
    for model in (ours, keras_own):
        model.compile("sgd", "mse", metrics=["mae"])
    x, y = data(12)
    x = x.reshape(12, 3, 1) if build is stateful else x
    options = {"batch_size": 4, "epochs": 2, "shuffle": False, "verbose": 0}
    validation = batching.Validation(x, y, batch_size=4)
    history = ours.fit(x, y, callbacks=[validation], **options).history
    for name, values in keras_own.fit(x, y, validation_data=(x, y), **options).history.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-6)
    for _ in range(2):
        found = batching.predict(ours, x, batch_size=4)
        np.testing.assert_allclose(found, keras_own.predict(x, batch_size=4, verbose=0), rtol=1e-6)
        assert batching.evaluate(ours, x, y, batch_size=4) == pytest.approx(
            keras_own.evaluate(x, y, batch_size=4, verbose=0, return_dict=True), rel=1e-6
        )
    for kept, expected in zip(ours.variables, keras_own.variables, strict=True):
        np.testing.assert_allclose(kept.value, expected.value, rtol=1e-6)


def test_a_failure_in_the_last_batch_leaves_the_state_of_layers_alone():
    model = stateful()
    model.compile("sgd", "mse")
    x, y = data(8)
    x = x.reshape(8, 3, 1)
    batching.predict(model, x, batch_size=4)
    before = state(model)
    for call in (
        lambda: batching.predict(model, x[:7], batch_size=4),
        lambda: batching.evaluate(model, x[:7], y[:7], batch_size=4),
    ):
        with pytest.raises(Exception, match=r"shape|batch"):
            call()
        assert_same(state(model), before)


def test_nests_are_cut_like_arrays():
    inputs = {"a": keras.Input((3,), name="a"), "b": keras.Input((3,), name="b")}
    hidden = layers.Concatenate()([inputs["a"], inputs["b"]])
    outputs = [layers.Dense(2, name="first")(hidden), layers.Dense(1, name="second")(hidden)]
    model = keras.Model(inputs, outputs)
    model.compile("sgd", ["mse", "mae"])
    x, y = data(11)
    nest, labels = {"b": -x, "a": x}, [y, y[:, :1]]
    fewer, of_them = batching.trim(nest, labels, batch_size=np.int32(8), devices=np.int64(2))
    assert [len(leaf) for leaf in (*fewer.values(), *of_them)] == [10] * 4
    ours = batching.evaluate(model, nest, labels, batch_size=np.int64(4), sample_weight=y[:, 0])
    own = model.evaluate(
        nest, labels, batch_size=4, sample_weight=y[:, 0], verbose=0, return_dict=True
    )
    assert ours == pytest.approx(own, rel=1e-6)
    for mine, theirs in zip(
        batching.predict(model, nest, batch_size=4), model.predict(nest, verbose=0), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)

    class Nests(keras.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return nest, labels

    found = batching.measure_starvation(model, Nests(), steps=np.int64(2), rounds=np.int8(1))
    assert found.steps == 2
    with pytest.raises(ValueError, match=r"arrays in memory.*Received: dict. Pass a PyDataset"):
        batching.measure_starvation(model, nest, steps=1)


def test_compiling_again_changes_what_is_evaluated():
    model = small_model()
    x, y = data(5)
    assert batching.evaluate(model, x, y).keys() == {"loss", "mae"}
    model.compile("sgd", "mae")
    logs = batching.evaluate(model, x, y)
    assert logs == pytest.approx(model.evaluate(x, y, verbose=0, return_dict=True), rel=1e-6)


def test_evaluated_models_can_be_collected():
    model = small_model()
    batching.evaluate(model, *data(5))
    batching.predict(model, data(5)[0])
    gone = weakref.ref(model)
    del model
    keras.backend.clear_session()
    gc.collect()
    assert gone() is None


def test_refusals_of_evaluate_and_predict(monkeypatch):
    x, y = data(5)
    with pytest.raises(ValueError, match=r"compiled model. Received: 'small', not compiled. Call"):
        batching.evaluate(small_model(compiled=False), x, y)
    with pytest.raises(ValueError, match=r"same number of rows. Received: shapes \(5, 3\), \(4, "):
        batching.evaluate(small_model(), x, y[:4])
    with pytest.raises(ValueError, match=r"same number of rows. Received: shapes \(\), \(\)"):
        batching.predict(small_model(), [1.0, 2.0])
    with pytest.raises(ValueError, match=r"positive integers. Received: rows=0"):
        batching.predict(small_model(), x[:0])
    with pytest.raises(ValueError, match=r"positive integers. Received: batch_size=0"):
        batching.Validation(x, y, batch_size=0).on_train_begin()
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(RuntimeError, match=r"one process. Received: a run of 2 processes. There"):
        batching.evaluate(small_model(), x, y)


class Clock:
    """Seconds pass when told, and one more at every look."""

    now = 0.0

    def __call__(self):
        self.now += 1
        return self.now


class Pipeline(keras.utils.PyDataset):
    """Gives batches of 5, each after `wait` seconds of the clock."""

    def __init__(self, clock, wait, batches=6):
        super().__init__()
        self.clock, self.wait, self.batches = clock, wait, batches

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        self.clock.now += self.wait
        x, y = data(5)
        return x + np.float32(index), y


@pytest.mark.parametrize(("wait", "fed", "share"), [(3, 13, 12 / 13), (0, 1, 0)])
def test_starvation_is_the_time_beyond_that_of_one_repeated_batch(wait, fed, share):
    clock = Clock()
    found = batching.measure_starvation(small_model(), Pipeline(clock, wait), steps=4, clock=clock)
    assert found == (4, fed, 1, share)
    assert f"waits for input {share:.0%} of the time" in str(found)


def test_the_meter_puts_everything_back():
    model = small_model()
    x, y = data(20)
    history = model.fit(x, y, verbose=0)
    before = state(model)
    batching.measure_starvation(model, Pipeline(Clock(), 0), steps=3, rounds=1)
    assert_same(state(model), before)
    assert model.history is history
    with pytest.raises(ValueError, match=r"last for all the steps.*steps=7, and it ended before"):
        batching.measure_starvation(model, Pipeline(Clock(), 0), steps=7)
    assert_same(state(model), before)


class Iterable:
    """An object that gives batches and is no array, as a Grain or tf.data data set does."""

    def __iter__(self):
        raise AssertionError("read before it was checked")


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (np.zeros((5, 3)), r"arrays in memory.*Received: ndarray. Pass a PyDataset"),
        (data(5), r"arrays in memory.*Received: tuple. Pass a PyDataset"),
        (iter([data(5)]), r"read several times. Received: list_iterator, which can be read only"),
    ],
)
def test_what_is_no_pipeline_is_refused(pipeline, message):
    with pytest.raises(ValueError, match=message):
        batching.measure_starvation(small_model(), pipeline, steps=1)


def test_other_refusals_of_the_meter():
    with pytest.raises(ValueError, match=r"compiled model. Received: 'small', not compiled. Call"):
        batching.measure_starvation(small_model(compiled=False), Iterable(), steps=1)
    model = Unbuilt()
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"Received: 'unbuilt', which is not built. Give it"):
        batching.measure_starvation(model, Iterable(), steps=1)
    for arguments, received in (
        ({"steps": 0}, "steps=0"),
        ({"steps": 2.5}, "steps=2.5"),
        ({"steps": 1, "rounds": True}, "rounds=True"),
    ):
        with pytest.raises(ValueError, match=rf"positive integers. Received: {received}. Pass 1"):
            batching.measure_starvation(small_model(), Iterable(), **arguments)
