"""Checkpoints: what comes back is what was saved, or nothing comes back."""

import json
import os
import zipfile

import keras
import numpy as np
import pytest
from child import run_child
from sharded_models import Block, batch, mlp

from chapter18 import checkpoints, mesh
from chapter18._shared import manifests

# Keras 3.15 gives NumPy 2 an `__array__` without `copy` whenever it saves a variable.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    return json.loads(run_child("checkpoint_scenario.py", folder, timeout=600))


def trained(build=mlp, optimizer="adam"):
    model = build()
    x, y = batch(build)
    model.compile(optimizer, "mse")
    model.fit(x, y, batch_size=8, verbose=0)
    return model


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model = trained()
    checkpoints.save(model, path)
    return model, path


# Across distributions

CROSSINGS = [
    ("megatron 2 × 4", "megatron 2 × 4"),
    ("megatron 2 × 4", "fsdp 4 × 2"),
    ("megatron 2 × 4", "DataParallel"),
    ("megatron 2 × 4", "none"),
    ("DataParallel", "megatron 2 × 4"),
    ("none", "none"),
    ("none", "fsdp 4 × 2"),
]


@pytest.mark.parametrize(("source", "target"), CROSSINGS)
def test_training_goes_on_under_any_distribution(seen, source, target):
    found = seen["mlp float32"][f"{source} → {target}"]
    assert found["difference"] <= (0 if source == target else 1e-4)
    assert found["optimizer"] == "Adam"


@pytest.mark.parametrize("target", ["DataParallel", "none"])
def test_a_loss_scale_survives_under_a_float32_policy(seen, target):
    found = seen["mlp mixed_float16"][f"DataParallel → {target}"]
    assert found["optimizer"] == "LossScaleOptimizer"
    assert found["policy_after"] == "float32"
    assert found["difference"] <= (0 if target == "DataParallel" else 1e-2)


def test_a_subclassed_model_is_built_anew_into_its_layout(seen):
    found = seen["block mixed_bfloat16"]
    assert found["megatron 2 × 4 → megatron 2 × 4"]["difference"] == 0
    assert found["megatron 2 × 4 → none"]["difference"] < 5e-2


# On one device


def test_the_file_opens_in_plain_keras(saved):
    model, path = saved
    x, _ = batch(mlp)
    loaded = keras.saving.load_model(path)
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))


def test_an_uncompiled_model_comes_back_uncompiled(tmp_path):
    model = Block()
    model(batch(Block)[0])
    checkpoints.save(model, tmp_path / "block.keras")
    again = checkpoints.restore(tmp_path / "block.keras")
    assert not again.compiled
    for old, new in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(old.numpy(), new.numpy())


def test_a_compiled_model_without_a_step_comes_back(tmp_path):
    model = mlp()
    model(batch(mlp)[0])
    model.compile("adam", "mse")
    checkpoints.save(model, tmp_path / "fresh.keras")
    assert int(checkpoints.restore(tmp_path / "fresh.keras").optimizer.iterations) == 0


def test_custom_objects_are_named(tmp_path):
    class Doubled(keras.layers.Layer):
        def call(self, x):
            return 2 * x

    def build():
        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2), Doubled()])

    model = build()
    path = tmp_path / "custom.keras"
    checkpoints.save(model, path)
    again = checkpoints.restore(path, custom_objects={"Doubled": Doubled})
    np.testing.assert_array_equal(model(np.ones((1, 4))), again(np.ones((1, 4))))


def test_a_callback_saves_each_epoch(tmp_path):
    path = tmp_path / "epoch.keras"
    model = mlp()
    x, y = batch(mlp)
    model.compile("adam", "mse")
    each = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: checkpoints.save(model, path))
    model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[each])
    assert int(checkpoints.restore(path).optimizer.iterations) == 4


# Refusals of save


def test_a_checkpoint_is_a_keras_file(saved, tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.keras\. Received: '.*model\.h5'"):
        checkpoints.save(saved[0], tmp_path / "model.h5")


def test_a_model_without_variables_is_not_saved(tmp_path):
    with pytest.raises(
        ValueError, match=r"once it has variables\. Received: 'sequential.*not built"
    ):
        checkpoints.save(mlp(), tmp_path / "model.keras")


@keras.saving.register_keras_serializable("tests")
class Forgetful(keras.layers.Layer):
    """A layer that loses a weight: on saving, or silently on loading."""

    def __init__(self, when="save", **kwargs):
        super().__init__(**kwargs)
        self.when = when

    def build(self, input_shape):
        self.kept = self.add_weight(shape=input_shape[1:], initializer="random_normal", name="kept")

    def call(self, x):
        return x * self.kept

    def save_own_variables(self, store):
        if self.when != "save":
            super().save_own_variables(store)

    def load_own_variables(self, store):
        if self.when == "neither":
            super().load_own_variables(store)

    def get_config(self):
        return super().get_config() | {"when": self.when}


def forgetful(when):
    return keras.Sequential([keras.Input((4,)), Forgetful(when)])


def test_a_file_that_lacks_a_value_never_replaces_a_good_one(tmp_path):
    path = tmp_path / "model.keras"
    checkpoints.save(forgetful("neither"), path)
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match=r"value of every variable.*without that of '.*kept'"):
        checkpoints.save(forgetful("save"), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.keras"]


SAVER = """
import os, sys, keras
from chapter18 import checkpoints
path, last = sys.argv[1:]
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(2000)])
checkpoints.save(model, path)

def content():
    with open(path, "rb") as file:
        return file.read()

first, seen = content(), []

def hook(event, arguments):
    if event == last and os.path.dirname(str(arguments[0])) == os.path.dirname(path):
        assert len(seen) > 3, len(seen)
        assert set(seen) == {True}
        os._exit(99)  # as a kill does: nothing is flushed, nothing cleaned up
    if event in ("open", "os.rename", "os.remove") and arguments[0] != path:
        seen.append(content() == first)

model.layers[0].bias.assign_add([1.0] * 2000)
sys.addaudithook(hook)
checkpoints.save(model, path)
"""


@pytest.mark.parametrize(("last", "bias"), [("os.rename", 0.0), ("os.remove", 1.0)])
def test_a_killed_save_leaves_a_whole_file(last, bias, tmp_path):
    """At each file operation until the new file is renamed, the old one is there to the bit."""
    path = tmp_path / "model.keras"
    with pytest.raises(AssertionError, match="exit code 99"):
        run_child(SAVER, path, last, devices=0)
    np.testing.assert_array_equal(checkpoints.restore(path).layers[0].bias, bias)


def test_a_save_during_restore_does_not_mix_two_files(tmp_path):
    path = tmp_path / "model.keras"

    def plain():
        dense = keras.layers.Dense(3, name="dense")
        return keras.Sequential([keras.Input((4,)), dense], name="plain")

    def build():
        checkpoints.save(second, path)
        return plain()

    first, second = plain(), plain()
    checkpoints.save(first, path)
    restored = checkpoints.restore(path, build=build)
    for one, other in zip(restored.get_weights(), first.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    last = checkpoints.restore(path)
    np.testing.assert_array_equal(last.get_weights()[0], second.get_weights()[0])
    assert os.listdir(tmp_path) == ["model.keras"]


# Refusals of restore


def test_a_torn_file_is_refused(saved, tmp_path):
    path = tmp_path / "torn.keras"
    path.write_bytes(saved[1].read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"whole file\. Received: '.*torn\.keras', which is torn"):
        checkpoints.restore(path)


def test_a_damaged_file_is_refused(saved, tmp_path):
    path = tmp_path / "damaged.keras"
    data = bytearray(saved[1].read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"whole file\. Received: .*model\.weights\.h5 is damaged"):
        checkpoints.restore(path)


@pytest.mark.parametrize(("field", "value"), [(8, 1), (10, 99)], ids=["encrypted", "compressed"])
def test_a_directory_that_claims_what_is_not_there_is_refused(saved, tmp_path, field, value):
    path = tmp_path / "claims.keras"
    data = bytearray(saved[1].read_bytes())
    data[data.index(b"PK\x01\x02") + field] = value
    path.write_bytes(data)
    with pytest.raises(
        ValueError, match=r"whole file\. Received: '.*claims\.keras', which is torn"
    ):
        checkpoints.restore(path)


def test_a_file_without_a_record_is_refused(saved, tmp_path):
    path = tmp_path / "plain.keras"
    saved[0].save(path)
    with pytest.raises(ValueError, match=r"carries the record.*plain\.keras', which has none"):
        checkpoints.restore(path)


def test_a_directory_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a directory, as OrbaxCheckpoint writes them"):
        checkpoints.restore(tmp_path)


def test_a_layout_needs_a_mesh(saved):
    with pytest.raises(ValueError, match="Received: layout='columns', mesh=None"):
        checkpoints.restore(saved[1], layout="columns")


def test_model_parallel_needs_a_layout(saved):
    current = one_device(mesh.make_mesh(data=1))
    with pytest.raises(RuntimeError, match=r"Under ModelParallel .* Received: neither mesh"):
        checkpoints.restore(saved[1])
    assert keras.distribution.distribution() is current


def one_device(on):
    current = keras.distribution.ModelParallel(layout_map=keras.distribution.LayoutMap(on))
    keras.distribution.set_distribution(current)
    return current


def test_a_weight_that_differs_is_named(tmp_path):
    path = tmp_path / "model.keras"
    checkpoints.save(forgetful("load"), path)
    keras.config.set_dtype_policy("mixed_bfloat16")
    with pytest.raises(
        RuntimeError, match=r"to the bit\. Received: model variable '.*kept'.*saved"
    ):
        checkpoints.restore(path, layout="replicated", mesh=mesh.make_mesh(data=1))
    assert keras.config.dtype_policy().name == "mixed_bfloat16"
    assert keras.distribution.distribution() is None


def altered(path, tmp_path, change):
    """A copy of the checkpoint whose record says something else."""
    copy = tmp_path / "altered.keras"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == manifests.NAME:
                record = json.loads(data)
                change(record)
                data = json.dumps(record)
            new.writestr(name, data)
    return copy


def change_iteration(record):
    record["optimizer_variables"][0][3:] = ["0", 7.0]


DIFFERENT = {
    "optimizer": (lambda r: r.update(optimizer=["SGD"]), r"optimizer \['Adam'\], saved \['SGD'\]"),
    "iteration": (change_iteration, r"variable 'adam.*/iteration'.*value 2\.0, saved .*value 7\.0"),
    "seeds": (lambda r: r["seeds"].append([1, 2]), r"seeds \[\[.*\]\], saved \[\["),
    "count": (lambda r: r["weights"].pop(), r"8 model variables, saved 7"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_a_difference_from_the_record_is_named(what, saved, tmp_path):
    change, message = DIFFERENT[what]
    with pytest.raises(RuntimeError, match=message):
        checkpoints.restore(altered(saved[1], tmp_path, change))


def test_a_policy_that_differs_is_named(tmp_path):
    model, path, sample = Block(), tmp_path / "block.keras", batch(Block)[0]
    model(sample)
    checkpoints.save(model, path)
    with pytest.raises(RuntimeError, match=r"Received: policy .*mixed_bfloat16.*, saved .*float32"):
        checkpoints.restore(path, build=lambda: Block(dtype="mixed_bfloat16"), sample=sample)


def test_a_file_from_before_predictions_were_recorded_comes_back(saved, tmp_path):
    old = tmp_path / "old.keras"
    with zipfile.ZipFile(saved[1]) as new, zipfile.ZipFile(old, "w") as without:
        for name in set(new.namelist()) - {"chapter18.npz"}:
            data = new.read(name)
            if name == manifests.NAME:
                record = json.loads(data)
                del record["trainable"]
                data = json.dumps(record)
            without.writestr(name, data)
    assert checkpoints.restore(old).optimizer.iterations == 2
