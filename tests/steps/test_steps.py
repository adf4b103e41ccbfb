import pickle
import warnings

import keras
import numpy as np
import pytest
import steps_scenarios
from child import run_child
from keras import layers

from chapter18 import steps


class Recorder(keras.callbacks.Callback):
    """Keeps every batch index it is shown, as pairs of first and last."""

    def __init__(self):
        super().__init__()
        self.groups, self.test_ends = [], []

    def on_train_batch_begin(self, batch, **_):
        self.groups.append([batch])

    def on_train_batch_end(self, batch, **_):
        self.groups[-1].append(batch)

    def on_test_batch_end(self, batch, **_):
        self.test_ends.append(batch)


class OldStyleRecorder(keras.callbacks.Callback):
    """Overrides the alias that Keras keeps for old callbacks."""

    def __init__(self):
        super().__init__()
        self.ends = []

    def on_batch_end(self, batch, **_):
        self.ends.append(batch)


def small_model(**options):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1), "mse", **options)
    return model


def data(rows):
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, 3)).astype("float32"), np.ones((rows, 2), "float32")


def weights(model):
    return [np.array(variable.value) for variable in model.weights]


def same_weights(a, b):
    for first, second in zip(weights(a), weights(b), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("case", steps_scenarios.MODELS)
def test_one_device_gives_plain_results_to_the_last_bit(case):
    assert steps_scenarios.differences(case) == []


def test_eight_devices_give_plain_results_to_the_last_bit():
    distributions = "data_parallel", "model_parallel"
    out = run_child("steps_scenarios.py", *distributions, timeout=600)
    assert out.splitlines() == [
        f"{distribution} {case} same"
        for distribution in distributions
        for case in steps_scenarios.MODELS
    ]


def test_callbacks_are_called_once_a_group_with_valid_indices():
    model, recorder, old_style = small_model(), Recorder(), OldStyleRecorder()
    x, y = data(46)
    steps.fuse(model, 4)
    model.fit(
        x,
        y,
        batch_size=5,
        epochs=2,
        verbose=0,
        callbacks=[recorder, old_style],
        validation_data=(x, y),
        validation_batch_size=23,
    )
    assert recorder.groups == [[0, 3], [4, 7], [8, 9]] * 2
    assert old_style.ends == [3, 7, 9] * 2
    # Validation is not fused: it keeps one call a batch.
    assert recorder.test_ends == [0, 1] * 2


def test_callbacks_are_given_back_unchanged():
    model, recorder = small_model(), Recorder()
    on_end = keras.callbacks.LambdaCallback(on_train_batch_end=lambda *_, **__: None)
    before = on_end.on_train_batch_end
    steps.fuse(model, 4)
    model.fit(*data(20), batch_size=5, verbose=0, callbacks=[recorder, [on_end, recorder]])
    assert {"on_train_batch_begin", "on_train_batch_end"}.isdisjoint(vars(recorder))
    assert on_end.on_train_batch_end is before


def test_a_stream_of_unknown_length_gives_plain_results():
    def stream():
        x, y = data(50)
        for start in range(0, 50, 5):
            yield x[start : start + 5], y[start : start + 5]

    plain, fused, recorder = small_model(), small_model(), Recorder()
    steps.fuse(fused, 4)
    said = []
    for model, callbacks in ((plain, []), (fused, [recorder])):
        # Keras up to 3.15 warns that the stream has ended, later ones take it for the epoch's end.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(stream(), shuffle=False, verbose=0, callbacks=callbacks)
        said.append([str(warning.message) for warning in caught])
    assert said[0] == said[1]
    same_weights(plain, fused)
    # The last begins a batch that never comes, as it does without fusing.
    assert recorder.groups == [[0, 3], [4, 7], [8, 9], [10]]


def test_steps_per_epoch_and_an_endless_stream():
    def stream():
        x, y = data(5)
        while True:
            x = x + np.float32(0.1)
            yield x, y

    plain, fused = small_model(), small_model()
    steps.fuse(fused, 3)
    histories = [
        model.fit(stream(), shuffle=False, steps_per_epoch=6, epochs=2, verbose=0).history
        for model in (plain, fused)
    ]
    assert histories[0] == histories[1]
    same_weights(plain, fused)


class Halving(keras.Model):
    """A step of the user's own, which returns tuples where Keras returns lists."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(2)

    def call(self, x):
        return self.dense(x)

    def train_step(self, state, data):
        logs, state = super().train_step(state, data)
        trainable = tuple(value / 2 for value in state[0])
        return logs | {"halved": logs["loss"]}, (trainable, *state[1:])


def test_an_overridden_train_step_on_a_model_not_yet_built():
    models = []
    for k in (None, 4):
        keras.utils.set_random_seed(1)
        model = Halving()
        model.compile("adam", "mse")
        if k:
            steps.fuse(model, k)
        model.fit(*data(40), batch_size=5, verbose=0)
        models.append(model)
    same_weights(*models)


class Traced(keras.Sequential):
    """Counts how often Python runs its step: once or twice a compilation, never in training."""

    traces = 0

    def train_step(self, state, data):
        Traced.traces += 1
        return super().train_step(state, data)


def test_a_second_fit_compiles_nothing_again():
    model = Traced([keras.Input((3,)), layers.Dense(2), layers.Dropout(0.5)])
    model.compile("adam", "mse", metrics=["mae"])
    steps.fuse(model, 4)
    model.fit(*data(50), batch_size=5, verbose=0)
    traced = Traced.traces
    model.fit(*data(50), batch_size=5, epochs=2, verbose=0)
    assert Traced.traces == traced > 0


def test_train_on_batch_is_one_step_whatever_its_rows():
    for k in (1, 4):
        plain, fused = small_model(), small_model()
        steps.fuse(fused, k)
        for rows in (4, 9):
            assert fused.train_on_batch(*data(rows)) == plain.train_on_batch(*data(rows))
        assert fused.optimizer.iterations == 2
        # What this compiled serves fit too.
        for model in (plain, fused):
            model.fit(*data(40), batch_size=5, shuffle=False, verbose=0)
        same_weights(plain, fused)
        assert fused.steps_per_execution == 1


def test_a_train_step_of_the_models_own_is_kept():
    model = small_model()
    keras_step, calls = model.train_step, []

    def own_step(state, data):
        calls.append(True)
        return keras_step(state, data)

    model.train_step = own_step
    steps.fuse(model, 4)
    model.fit(*data(40), batch_size=5, verbose=0)
    assert calls
    assert model.train_step is own_step


class Narrowing(keras.Sequential):
    """A train_step that gives its weights back in half precision."""

    def train_step(self, state, data):
        logs, state = super().train_step(state, data)
        return logs, ([value.astype("float16") for value in state[0]], *state[1:])


def test_a_train_step_that_changes_dtypes_is_refused():
    model = Narrowing([keras.Input((3,)), layers.Dense(2)])
    model.compile("sgd", "mse")
    before = weights(model)
    steps.fuse(model, 4)
    with pytest.raises(
        TypeError, match=r"Received: a train_step that turns float32\(3, 2\) into float16.* Cast it"
    ):
        model.fit(*data(40), batch_size=5, verbose=0)
    for weight, same in zip(weights(model), before, strict=True):
        np.testing.assert_array_equal(weight, same)


def test_a_full_group_whose_last_batch_is_short():
    plain, fused, recorder = small_model(), small_model(), Recorder()
    steps.fuse(fused, 4)
    history = plain.fit(*data(38), batch_size=5, shuffle=False, verbose=0).history
    again = fused.fit(*data(38), batch_size=5, shuffle=False, verbose=0, callbacks=recorder).history
    assert again == history
    same_weights(plain, fused)
    assert recorder.groups == [[0, 3], [4, 7]]


def test_fusing_one_step_is_plain_training():
    plain, fused, recorder = small_model(), small_model(), Recorder()
    steps.fuse(fused, 1)
    plain.fit(*data(12), batch_size=5, shuffle=False, verbose=0)
    fused.fit(*data(12), batch_size=5, shuffle=False, verbose=0, callbacks=recorder)
    same_weights(plain, fused)
    assert recorder.groups == [[0, 0], [1, 1], [2, 2]]


def test_the_progress_bar_ends_at_the_number_of_batches(capsys):
    model = small_model()
    steps.fuse(model, 4)
    model.fit(*data(50), batch_size=5)
    out = capsys.readouterr().out
    assert "10/10" in out
    assert "12/10" not in out


def groups(model, **options):
    recorder = Recorder()
    model.fit(*data(40), batch_size=5, verbose=0, callbacks=[recorder], **options)
    return len(recorder.groups)


def test_undo_with_fusing_again_and_recompiling():
    model = small_model(steps_per_execution=2)
    fused = steps.fuse(model, 8)
    assert groups(model) == 1
    assert model.steps_per_execution == 2
    assert groups(model) == 1
    steps.fuse(model, 4)
    assert groups(model) == 2
    fused.undo()
    assert groups(model) == 2, "an undo that came too late must not touch the second fusing"
    model.compile("sgd", "mse")
    with pytest.warns(UserWarning, match=r"compile\(\) ended fusing.* Call steps.fuse again"):
        assert groups(model) == 8
    assert groups(model) == 8
    with steps.fuse(model, 8):
        assert groups(model) == 1
    assert groups(model) == 8
    assert "fit" not in vars(model)


def test_a_fit_that_fails_leaves_steps_per_execution_alone():
    model = small_model()
    steps.fuse(model, 4)
    x, y = data(10)
    with pytest.raises(ValueError, match="cardinality"):
        model.fit(x, y[:5], verbose=0)
    assert model.steps_per_execution == 1
    assert groups(model) == 2


# Keras saves through a call that NumPy 2 deprecates.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_train_on_batch_evaluate_and_saving_stay_plain(tmp_path):
    plain, fused = small_model(), small_model()
    x, y = data(10)
    before = fused.evaluate(x, y, batch_size=3, verbose=0)
    steps.fuse(fused, 4)
    assert fused.evaluate(x, y, batch_size=3, verbose=0) == before
    assert fused.train_on_batch(x, y) == plain.train_on_batch(x, y)
    same_weights(plain, fused)
    np.testing.assert_array_equal(fused.predict(x, verbose=0), plain.predict(x, verbose=0))
    fused.save(tmp_path / "model.keras")
    same_weights(keras.models.load_model(tmp_path / "model.keras"), plain)
    same_weights(pickle.loads(pickle.dumps(fused)), plain)


def test_any_integer_type_counts_steps():
    model = small_model()
    steps.fuse(model, np.int64(8))
    assert groups(model) == 1


@pytest.mark.parametrize("k", [0, -1, 2.0, True, "4", None])
def test_steps_must_be_a_positive_integer(k):
    with pytest.raises(ValueError, match=rf"positive integer. Received: k={k!r}. Pass 1 or more"):
        steps.fuse(small_model(), k)


class OwnLoop(keras.Sequential):
    def fit(self, *args, **kwargs):
        return super().fit(*args, **kwargs)


class OwnFunction(keras.Sequential):
    def make_train_function(self, force=False):
        super().make_train_function(force)


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"run_eagerly": True}, "run_eagerly=True, jit_compile=False"),
        ({"jit_compile": False}, "run_eagerly=False, jit_compile=False"),
    ],
)
def test_models_that_are_not_compiled_by_xla_are_refused(options, received):
    with pytest.raises(ValueError, match=rf"compiled by XLA. Received: {received}. Compile the"):
        steps.fuse(small_model(**options), 4)


@pytest.mark.parametrize(
    ("model", "name"), [(OwnLoop, "fit"), (OwnFunction, "make_train_function")]
)
def test_other_training_loops_are_refused(model, name):
    model = model([keras.Input((3,)), layers.Dense(2)])
    model.compile("sgd", "mse")
    with pytest.raises(
        ValueError, match=rf"{type(model).__name__}, which overrides {name}. Override train_step"
    ):
        steps.fuse(model, 4)


def test_other_refusals(monkeypatch):
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2)], name="bare")
    with pytest.raises(ValueError, match=r"Received: 'bare', not compiled. Call model.compile"):
        steps.fuse(model, 4)
    with pytest.raises(TypeError, match=r"Received: Dense. Pass a keras.Model"):
        steps.fuse(layers.Dense(2), 4)
    monkeypatch.setattr(keras.config, "backend", lambda: "torch")
    with pytest.raises(RuntimeError, match=r"Received: Keras on torch. Set KERAS_BACKEND=jax"):
        steps.fuse(small_model(), 4)


def test_requests_that_would_break_a_group_are_refused_before_training():
    model = small_model()
    steps.fuse(model, 4)
    before = weights(model)
    with pytest.raises(
        ValueError, match=r"multiple of.*Received: steps_per_epoch=10, k=4. Fuse 2 steps, or"
    ):
        model.fit(*data(50), batch_size=5, steps_per_epoch=10, verbose=0)
    with pytest.raises(ValueError, match=r"Received: a CallbackList. Pass a list of callbacks"):
        model.fit(*data(50), callbacks=keras.callbacks.CallbackList([]), verbose=0)
    for weight, same in zip(weights(model), before, strict=True):
        np.testing.assert_array_equal(weight, same)
    assert groups(model) == 2
