"""A checkpoint proves what a model predicts, and what is saved comes back or is not saved."""

import os
import zipfile

import keras
import numpy as np
import pytest
from noisy import Noisy

from chapter18 import checkpoints
from chapter18._shared import manifests, nests
from chapter18.checkpoints import _predictions

# Keras 3.15 gives NumPy 2 an `__array__` without `copy` whenever it saves a variable.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

X = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")


def mlp(**options):
    layers = [keras.Input((4,)), keras.layers.Dense(6, "relu", **options), keras.layers.Dense(2)]
    return keras.Sequential(layers)


def trained(model, **compiled):
    model.compile(**({"optimizer": "adam", "loss": "mse"} | compiled))
    model.fit(X, X[:, :2], verbose=0)
    return model


def saved(model, tmp_path, **options):
    path = tmp_path / "model.keras"
    checkpoints.save(model, path, **options)
    return path


def predicted(model, x=X):
    return model.predict(x, verbose=0)


@keras.saving.register_keras_serializable("tests")
class Shifted(keras.layers.Layer):
    """Adds what `learn` left in an attribute: an array, a number that nobody saves, or neither."""

    array = None
    number = 0.0

    def call(self, x):
        return x + self.number + (0.0 if self.array is None else keras.ops.sum(self.array))


# Predictions


def test_an_adapted_normalization_comes_back(tmp_path):
    norm = keras.layers.Normalization()
    norm.adapt(X)
    model = keras.Sequential([keras.Input((4,)), norm, keras.layers.Dense(2)])
    again = checkpoints.restore(saved(model, tmp_path))
    np.testing.assert_array_equal(predicted(again), predicted(model))


def test_an_array_that_a_layer_derived_comes_back(tmp_path):
    model = keras.Sequential([keras.Input((4,)), Shifted(), keras.layers.Dense(2)])
    model.layers[0].array = np.arange(3.0, dtype="float32")
    again = checkpoints.restore(saved(model, tmp_path))
    np.testing.assert_array_equal(predicted(again), predicted(model))


def test_a_model_that_predicts_something_else_is_refused(tmp_path):
    model = keras.Sequential([keras.Input((4,)), Shifted(), keras.layers.Dense(2)])
    model.layers[0].number = 1.0
    path = saved(model, tmp_path)
    with pytest.raises(RuntimeError, match=r"predicts what the saved one.*of the largest one away"):
        checkpoints.restore(path)
    assert keras.distribution.distribution() is None


def test_unknown_inputs_are_said_and_a_sample_proves(tmp_path):
    class Picky(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x):
            if not isinstance(x, dict) or x["a"].shape[0] not in (1, 5):
                raise ValueError("no")
            return self.dense(x["a"])

    model = Picky()
    model({"a": X[:5]})
    with pytest.warns(UserWarning, match=r"Only variables are proven: 'picky.*Pass sample="):
        path = saved(model, tmp_path)
    with pytest.warns(UserWarning, match="saved without predictions"):
        checkpoints.restore(path, build=Picky, sample={"a": X[:5]})
    path = saved(model, tmp_path, sample={"a": X[:1]})
    again = checkpoints.restore(path, build=Picky, sample={"a": X[:5]})
    np.testing.assert_array_equal(again({"a": X[:5]}), model({"a": X[:5]}))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"can be called with\. Received: sample=\[\(8, 4\)\].*no"):
        checkpoints.save(model, path, sample=X)
    assert path.read_bytes() == before


def test_random_layers_are_proven_and_not_moved(tmp_path):
    def build():
        return keras.Sequential([keras.Input((64,)), Noisy(), keras.layers.Dense(2)])

    model = build()
    states = [v.numpy().tolist() for v in model.variables if "seed" in v.path]
    path = saved(model, tmp_path)
    keras.random.normal(())
    again = checkpoints.restore(path, build=build)
    assert [v.numpy().tolist() for v in model.variables if "seed" in v.path] == states
    assert [v.numpy().tolist() for v in again.variables if "seed" in v.path] == states


INPUTS = {
    "tokens": lambda: [keras.Input((4,), dtype="int32"), keras.layers.Embedding(2, 3)],
    "float tokens": lambda: [keras.Input((4,)), keras.layers.Embedding(2, 3)],
    "open axes": lambda: [keras.Input((None, None, 3)), keras.layers.Conv2D(2, 3, strides=2)],
    "rows given": lambda: [keras.Input(batch_shape=(3, 5, 2)), keras.layers.LSTM(2, stateful=True)],
    "booleans": lambda: [keras.Input((4,), dtype="bool"), keras.layers.Dense(2)],
}


@pytest.mark.parametrize("case", INPUTS)
def test_a_batch_is_made_up_from_declared_inputs(case):
    model = keras.Sequential(INPUTS[case]())
    found = _predictions.record(model)
    assert found.reason == ""
    assert np.isfinite(found.outputs[0][2]).all()
    assert _predictions.difference(model, found) == ""


def test_nests_of_inputs_and_outputs_are_proven(tmp_path):
    a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b", dtype="int32")
    joined = keras.layers.Concatenate()([a, keras.ops.cast(b, "float32")])
    first = keras.layers.Dense(2)(joined)
    model = keras.Model({"a": a, "b": b}, {"first": first, "best": keras.ops.argmax(first, -1)})
    found = _predictions.record(model)
    assert {name: leaf.shape for name, leaf in found.inputs.items()} == {"a": (8, 4), "b": (8, 3)}
    assert len(found.outputs) == 2
    checkpoints.restore(saved(model, tmp_path))


def test_rounding_agrees_and_another_number_does_not():
    model = mlp()
    found = _predictions.record(model)
    near = found._replace(outputs=[(*found.outputs[0][:2], found.outputs[0][2] * (1 + 1e-5))])
    far = found._replace(outputs=[(*found.outputs[0][:2], found.outputs[0][2] * 1.1)])
    nan = found._replace(outputs=[(*found.outputs[0][:2], found.outputs[0][2] * np.nan)])
    assert _predictions.difference(model, near) == ""
    assert "of the largest one away" in _predictions.difference(model, far)
    assert "of the largest one away" in _predictions.difference(model, nan)


# What save accepts comes back


def test_nan_in_a_variable_comes_back(tmp_path):
    model = trained(mlp())
    kernel = model.layers[0].kernel
    kernel.assign(np.full(kernel.shape, np.nan))
    model.optimizer.iterations.assign(3)
    lone = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    lone.set_weights([np.array([[np.nan]]), np.array([np.inf])])
    for each in (model, lone):
        again = checkpoints.restore(saved(each, tmp_path))
        for old, new in zip(each.get_weights(), again.get_weights(), strict=True):
            np.testing.assert_array_equal(old, new)


def test_frozen_layers_and_variables_come_back_frozen(tmp_path):
    model = mlp()
    model.layers[0].trainable = False
    model.layers[1].bias.trainable = False
    trained(model)
    for options in ({}, {"build": mlp}):
        again = checkpoints.restore(saved(model, tmp_path), **options)
        paths = [v.path.split("/", 1)[1] for v in again.trainable_variables]
        assert len(paths) == 1
        assert paths[0].endswith("kernel")
        again.fit(X, X[:, :2], verbose=0)


def nothing(_model):
    """What a case changes that is refused for how it was compiled."""


REFUSED = {
    "frozen after compile": (
        lambda model: setattr(model.layers[0], "trainable", False),
        {},
        r"belongs to the variables that are trainable\. Received: 'sequential.*compile\(…\) again",
    ),
    "lambda loss": (
        nothing,
        {"loss": lambda y, p: keras.ops.mean((y - p) ** 2)},
        r"names the losses.*Received: 'sequential.*a lambda.*with def",
    ),
    "lambda metric": (
        nothing,
        {"metrics": [lambda y, p: keras.ops.mean(y - p)]},
        "a lambda, which has no name",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_restore_could_not_give_back_is_not_saved(case, tmp_path):
    change, compiled, message = REFUSED[case]
    path = saved(mlp(), tmp_path)
    before = path.read_bytes()
    model = trained(mlp(), **compiled)
    change(model)
    with pytest.raises(ValueError, match=message):
        checkpoints.save(model, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.keras"]


def test_a_loss_with_a_name_comes_back_by_it(tmp_path):
    def mine(y, p):
        return keras.ops.mean((y - p) ** 2)

    path = saved(trained(mlp(), loss=mine), tmp_path)
    again = checkpoints.restore(path, custom_objects={"mine": mine})
    assert again.loss is mine


def test_a_compile_of_its_own_needs_its_counterpart(tmp_path):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x):
            return self.dense(x)

        def compile(self, **options):
            super().compile("adam", "mse", **options)

    model = Own()
    model(X)
    model.compile()
    with pytest.raises(ValueError, match=r"own compile_from_config\. Received: Own, which has"):
        saved(model, tmp_path)


def test_files_of_a_layer_are_refused(tmp_path):
    class Vocabulary(keras.layers.Layer):
        def call(self, x):
            return x

        def save_assets(self, folder):
            with open(os.path.join(folder, "words.txt"), "w") as file:
                file.write("گل")

    model = keras.Sequential([keras.Input((4,)), Vocabulary(), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match=r"no files of a layer's own.*assets/.*words\.txt"):
        saved(model, tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_checkpoint_through_a_link_and_under_a_long_name(tmp_path):
    model = mlp()
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.keras"
    link.symlink_to(os.path.join("there", "model.keras"))
    checkpoints.save(model, link)
    assert link.is_symlink()
    long = tmp_path / ("a" * 247 + ".keras")
    checkpoints.save(model, long)
    for path in (link, tmp_path / "there" / "model.keras", long):
        np.testing.assert_array_equal(predicted(checkpoints.restore(path)), predicted(model))
    assert sorted(os.listdir(tmp_path)) == sorted([long.name, "link.keras", "there"])


# The parts of a file


def test_arrays_of_any_dtype_and_nest_travel_in_bytes():
    half = np.arange(3).astype(keras.ops.zeros(1, "bfloat16").dtype)
    given = {"a": [half, (np.float32(2.5), None)], "b": {"": np.zeros((0, 2), "int8")}, "c": "گل"}
    again = nests.unpack(nests.pack(given))
    assert again["a"][0].dtype == half.dtype
    assert again["a"][0].tolist() == [0, 1, 2]
    assert isinstance(again["a"][1], tuple)
    assert again["a"][1][1] is None
    assert again["b"][""].shape == (0, 2)
    assert again["c"] == "گل"


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_is_read_where_it_lies(tmp_path, compression):
    content = bytes(range(256)) * 100
    path = tmp_path / "some.zip"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("before", b"x" * 1000)
        archive.writestr("گل", content)
        archive.writestr("after", b"y" * 1000)
    with manifests.opened(path, "گل") as file:
        assert file.read() == content
        file.seek(-5, os.SEEK_END)
        assert file.read(99) == content[-5:]
        file.seek(300)
        assert file.read(4) == content[300:304]
