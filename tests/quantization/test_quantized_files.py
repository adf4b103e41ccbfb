import json
import os
import re
import zipfile

import keras
import numpy as np
import pytest
import quantized_models
from child import run_child
from keras import layers

from chapter18 import character_model, quantization
from chapter18._shared.layers import every
from chapter18.quantization import _archives, _files

LETTERS = 37
MODES = ("int8", "int4")
SHAPE = {"length": 16, "width": 64, "heads": 2, "blocks": 1}


def build():
    return character_model.build(LETTERS, **SHAPE)


@pytest.fixture(scope="module")
def transformer():
    """The character model, trained for a few steps, and a batch of letters."""
    keras.utils.set_random_seed(6)
    model = build()
    letters = np.random.default_rng(0).integers(0, LETTERS, (8, 16)).astype("int32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    model.fit(letters, letters, batch_size=4, epochs=3, verbose=0)
    return model, letters


@pytest.fixture
def exported(tmp_path):
    """A small model, quantized and exported; the file, the copy and a batch."""
    model, probe = quantized_models.small()
    copy = quantization.quantize_copy(model, "int8", probe=probe, filters="wide|middle").model
    _files.export(copy, tmp_path / "small", probe=probe)
    return tmp_path / "small", copy, probe


def small():
    return quantized_models.small()[0]


def rewritten(path, *, record=(), change=lambda output: output):
    """Change the file's record, or the outputs stored in it, and leave it whole."""
    contents = _archives.read(path)
    record = contents.record._replace(**dict(record))
    outputs = [change(contents.outputs[0]), *contents.outputs[1:]]
    _archives.write(path, contents._replace(record=record, outputs=outputs), lambda _: None)


def modes(model):
    return [layer.dtype_policy.name for layer in every(model)]


def same(first, second):
    assert modes(first) == modes(second)
    for a, b in zip(first.weights, second.weights, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.array(a.value), np.array(b.value))


FRESH = """
import json, sys, numpy as np
from chapter18 import character_model, quantization
folder, shape = sys.argv[1], json.loads(sys.argv[2])
build = lambda: character_model.build(37, **shape)
letters = np.load(f"{folder}/letters.npy")
for name in sys.argv[3:]:
    model = quantization.load(f"{folder}/{name}", build)
    np.save(f"{folder}/{name}.npy", model.predict(letters, verbose=0))
"""


def test_a_transformer_with_blocks_of_its_own_comes_back_in_a_fresh_process(transformer, tmp_path):
    model, letters = transformer
    build().save_weights(tmp_path / "float.weights.h5")
    whole = (tmp_path / "float.weights.h5").stat().st_size
    np.save(tmp_path / "letters.npy", letters)
    copies = {}
    for name, options in {"int8": {}, "int4": {"block_size": 32}}.items():
        copies[name] = quantization.quantize_copy(
            model, name, probe=letters, sqnr_floor=5, **options
        ).model
        _files.export(copies[name], tmp_path / name, probe=letters[:2])
        assert (tmp_path / name).stat().st_size < (0.4 if name == "int8" else 0.3) * whole
    run_child(FRESH, tmp_path, json.dumps(SHAPE), *copies, devices=1, timeout=900)
    for name, copy in copies.items():
        there = np.load(tmp_path / f"{name}.npy")
        assert np.abs(there - copy.predict(letters, verbose=0)).max() == 0
        assert np.abs(there - model.predict(letters, verbose=0)).max() > 0


def test_an_exported_mnist_perceptron_is_under_four_tenths(tmp_path):
    model, mnist = quantized_models.mlp()
    sizes = {}
    for mode in ("int8", "int4"):
        copy = quantization.quantize_copy(model, mode, probe=mnist.x_val[:8]).model
        _files.export(copy, tmp_path / mode, probe=mnist.x_val[:8])
        sizes[mode] = (tmp_path / mode).stat().st_size
    # The numbers of the float model alone, four bytes each, without any file around them.
    assert sizes["int4"] < sizes["int8"] < 0.4 * 4 * model.count_params()


def test_what_is_loaded_equals_what_was_exported_and_is_for_inference(exported):
    path, copy, probe = exported
    loaded = _files.load(path, small)
    same(loaded, copy)
    policies = [each.dtype_policy.name for each in loaded.layers]
    assert policies.count("int8_from_float32") == 2
    np.testing.assert_array_equal(loaded.predict(probe, verbose=0), copy.predict(probe, verbose=0))
    loaded.compile("adam", "mse")
    with pytest.raises(RuntimeError, match=r"for inference.*Received: fit\(\)"):
        loaded.fit(probe, np.ones((16, 3)))


def test_export_replaces_a_file_whole_or_leaves_it(exported, monkeypatch):
    path, copy, probe = exported
    before = path.read_bytes()

    def fail(*_, **__):
        raise OSError("no space left")

    for owner, name in ((os, "replace"), (type(copy), "save_weights")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises(OSError, match="no space left"):
                _files.export(copy, path, probe=probe)
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]
    model, probe = quantized_models.small()
    other = quantization.quantize_copy(model, "int4", probe=probe, sqnr_floor=0).model
    _files.export(other, path, probe=probe)
    same(_files.load(path, small), other)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.999])
def test_a_torn_file_is_refused(exported, share):
    path, _, _ = exported
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"whole file of.*which is none, or torn: .*Export the"):
        _files.load(path, small)


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6])
def test_a_changed_byte_is_refused(exported, share):
    path, _, _ = exported
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"which is none, or torn"):
        _files.load(path, small)


def test_a_file_of_keras_is_refused(exported):
    path, copy, _ = exported
    copy.save(path.with_suffix(".keras"))
    with pytest.raises(
        ValueError,
        match=r"torn: broken or without \['arrays.npz', 'quantized.json'\]",
    ):
        _files.load(path.with_suffix(".keras"), small)


def other(*, units=16, bias=True, more=()):
    model = keras.Sequential(
        [*small().layers[:-2], layers.Dense(units, name="middle"), layers.Dense(3, use_bias=bias)]
    )
    for layer in more:
        model.add(layer)
    return model


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"units": 8}, r"weights that differ.*first in \(8,\) float32 against \(16,\) float"),
        ({"bias": False}, r"weights that differ .*their number, \d+ against \d+"),
        ({"more": [layers.Softmax()]}, r"layers that differ.*their number, 10 against 9"),
    ],
)
def test_another_build_function_is_refused(exported, options, difference):
    with pytest.raises(ValueError, match=rf"makes the model that was exported.*{difference}"):
        _files.load(exported[0], lambda: other(**options))


def test_a_build_function_that_computes_something_else_is_refused(exported):
    def changed():
        model = small()
        model.get_layer("middle").activation = keras.activations.tanh
        return model

    with pytest.raises(RuntimeError, match=r"what the exported one did. Received: other predicti"):
        _files.load(exported[0], changed)


def test_stored_predictions_are_met_to_the_bit_here_and_closely_elsewhere(exported):
    path, copy, _ = exported
    rewritten(path, change=lambda output: output * np.float32(1 + 1e-6))
    with pytest.raises(RuntimeError, match=rf"written by Keras {keras.__version__} with JAX"):
        _files.load(path, small)
    rewritten(path, record={"machine": ["0.0.1"]})
    same(_files.load(path, small), copy)
    rewritten(path, change=lambda output: output * np.float32(1.1))
    with pytest.raises(RuntimeError, match=r"with JAX 0.0.1, read by"):
        _files.load(path, small)


def test_weights_are_compared_with_their_record(exported):
    path, _, _ = exported
    with zipfile.ZipFile(path) as archive:
        record = json.loads(archive.read("quantized.json"))
    record["weights"]["weights"][-1][3] = "0" * 64
    rewritten(path, record=record)
    with pytest.raises(RuntimeError, match=r"equals the saved one to the bit.*digest 00000000"):
        _files.load(path, small)


def test_only_quantized_models_are_exported(tmp_path):
    model, probe = quantized_models.small()
    path = tmp_path / "model"
    with pytest.raises(ValueError, match=r"Received: 'small' with no quantized layer. Call quanti"):
        _files.export(model, path, probe=probe)
    model.quantize("float8", filters="wide")
    with pytest.raises(ValueError, match=r"Received: 'small' with \['float8'\]"):
        _files.export(model, path, probe=probe)
    assert list(tmp_path.iterdir()) == []


def test_a_config_of_keras_comes_back(tmp_path):
    model, probe = quantized_models.small()
    config = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    copy = quantization.quantize_copy(model, "int8", probe=probe, config=config).model
    _files.export(copy, tmp_path / "model", probe=probe)
    loaded = _files.load(tmp_path / "model", small)
    assert loaded.get_layer("wide").inputs_quantizer is None
    same(loaded, copy)


def test_a_model_that_keras_quantized_goes_without_its_optimizer(tmp_path):
    model, probe = quantized_models.small()
    model.compile("adam", "mse")
    model.fit(probe, np.ones((16, 3)), verbose=0)
    optimizer = model.optimizer
    model.quantize("int8", filters="wide|middle|logits")
    _files.export(model, tmp_path / "model", probe=probe)
    assert model.optimizer is optimizer

    def compiled():
        made = small()
        made.compile("adam", "mse")
        return made

    loaded = _files.load(tmp_path / "model", compiled)
    same(loaded, model)
    assert loaded.optimizer is None
    copy = quantization.quantize_copy(small(), "int8", probe=probe, sqnr_floor=-99).model
    _files.export(copy, tmp_path / "copy", probe=probe)
    sizes = [(tmp_path / name).stat().st_size for name in ("model", "copy")]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.1)


def test_loading_leaves_policy_and_names_alone(tmp_path):
    keras.config.set_dtype_policy("mixed_bfloat16")
    model, probe = quantized_models.small()
    keras.config.set_dtype_policy("float32")
    copy = quantization.quantize_copy(model, "int8", probe=probe).model
    _files.export(copy, tmp_path / "model", probe=probe)
    number = int(layers.Dense(2).name.partition("_")[2] or 0)
    loaded = _files.load(tmp_path / "model", small)
    assert layers.Dense(2).name == f"dense_{number + 1}"
    assert keras.config.dtype_policy().name == "float32"
    assert loaded.layers[-1].compute_dtype == "bfloat16"
    same(loaded, copy)


def two_inputs():
    inputs = {name: keras.Input((8,), name=name) for name in ("a", "b")}
    outputs = [layers.Dense(5)(inputs[name]) for name in ("a", "b")]
    return keras.Model(inputs, outputs)


def test_a_probe_with_several_arrays_keeps_its_structure(tmp_path):
    rng = np.random.default_rng(0)
    probe = {name: rng.normal(size=(6, 8)).astype("float32") for name in ("b", "a")}
    copy = quantization.quantize_copy(two_inputs(), "int8", probe=probe).model
    _files.export(copy, tmp_path / "model", probe=probe)
    same(_files.load(tmp_path / "model", two_inputs), copy)


def test_copies_and_files_of_spread_models_predict_as_on_one_device():
    cases = [f"{name}-{mode}" for name in ("data", "megatron", "columns") for mode in MODES]
    out = run_child("quantized_scenario.py", *cases, devices=4)
    assert [line for line in out.splitlines() if line.startswith("right")] == [
        f"right {name.replace('-', ' ')}" for name in cases
    ]
    assert re.search(
        r"refused: Under a distribution, a model is copied that was made under it. Received: "
        r"'sequential.*', whose variable '.*kernel' is on 1 device\(s\), under a DataParallel over "
        r"4. Make the model under this distribution, or end it with",
        out,
    )


def quantized(model, probe, mode="int8", **options):
    return quantization.quantize_copy(model, mode, probe=probe, sqnr_floor=0, **options).model


def returns(path, copy, probe, build):
    _files.export(copy, path, probe=probe)
    loaded = _files.load(path, build)
    same(loaded, copy)
    return loaded


def test_what_layers_derived_from_data_comes_back(tmp_path):
    model, x = quantized_models.adapted()
    copy = quantized(model, x)
    loaded = returns(tmp_path / "model", copy, x, lambda: quantized_models.adapted(again=True)[0])
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), copy.predict(x, verbose=0))


def test_probes_of_every_form_come_back_and_others_are_refused(tmp_path):
    def pair():
        inputs = (keras.Input((8,)), keras.Input((8,), dtype="bfloat16"))
        return keras.Model(inputs, layers.Dense(3)(layers.Add()(inputs)))

    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 8)).astype("float32")
    probe = (x, keras.ops.cast(x, "bfloat16"))
    model = pair()
    copy = quantized(model, probe)
    returns(tmp_path / "pair", copy, probe, pair)
    read = _archives.read(tmp_path / "pair").probe
    assert type(read) is tuple
    assert [each.dtype.name for each in read] == ["float32", "bfloat16"]
    with pytest.raises(ValueError, match=r"A stored probe is an array of numbers.*Received: dict"):
        _archives.write(
            tmp_path / "other",
            _archives.read(tmp_path / "pair")._replace(probe={1: x}),
            lambda _: None,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["pair"]


def test_what_load_could_not_give_back_is_not_exported(tmp_path):
    path = tmp_path / "model"

    def refused(match, model, probe, error=ValueError):
        with pytest.raises(error, match=match):
            _files.export(model, path, probe=probe)
        assert list(tmp_path.iterdir()) == []

    model, probe = quantized_models.small()
    copy = quantized(model, probe)
    refused(r"Received: 'small' and predictions with NaN or inf. Mend", copy, probe * np.nan)
    copy.get_layer("logits").bias.assign([np.nan, 0, 0])
    refused(r"Received: 'small' and the variable '.*logits/bias' with NaN", copy, probe)
    copy = quantized(model, probe)
    copy.get_layer("wide").enable_lora(2)
    refused(r"no LoRA.*Received: 'small' with one in '.*wide'. Merge it", copy, probe)

    class Foreign(keras.quantizers.AbsMaxQuantizer):
        pass

    config = keras.quantizers.Int8QuantizationConfig(weight_quantizer=Foreign(axis=0))
    copy = quantized(model, probe, config=config, filters="wide")
    refused(r"again, on loading, from its config.*'.*wide' with a Int8Q.*Decorate", copy, probe)


class Forgetting(layers.Dense):
    """A layer that leaves its bias out of the file."""

    def save_own_variables(self, store):
        store["0"] = self.kernel.numpy()

    def load_own_variables(self, store):
        self.kernel.assign(store["0"])


def test_a_layer_that_does_not_save_all_its_variables_is_refused(tmp_path):
    model = keras.Sequential([keras.Input((8,)), Forgetting(5), layers.Dense(3)])
    model.layers[0].bias.assign(np.arange(5) + 1)
    probe = np.random.default_rng(0).normal(size=(4, 8)).astype("float32")
    copy = quantized(model, probe)
    with pytest.raises(RuntimeError, match=r"Received: a file without that of '.*bias'.*save_own"):
        _files.export(copy, tmp_path / "model", probe=probe)
    assert list(tmp_path.iterdir()) == []


def test_functions_evaluation_and_bfloat16_do_not_stand_in_the_way(tmp_path):
    def build(dtype="float32"):
        act = layers.Dense(6, activation=lambda x: x * keras.ops.sigmoid(x), dtype=dtype)
        return keras.Sequential([keras.Input((8,)), act, layers.Dense(3, dtype=dtype)])

    probe = np.random.default_rng(0).normal(size=(4, 8)).astype("float32")
    for dtype in ("float32", "bfloat16"):
        model = build(dtype)
        model.compile("adam", "mse", metrics=["mae"])
        copy = quantized(model, probe, build=lambda d=dtype: build(d))
        copy.compile(loss="mse", metrics=["mae"])
        copy.evaluate(probe, np.ones((4, 3)), verbose=0)
        returns(tmp_path / dtype, copy, probe, lambda d=dtype: build(d))


def test_links_are_followed_and_long_names_written(tmp_path):
    model, probe = quantized_models.small()
    copy = quantized(model, probe)
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    returns(link, copy, probe, small)
    assert link.is_symlink()
    assert [path.name for path in target.parent.iterdir()] == ["target"]
    returns(tmp_path / ("n" * 255), copy, probe, small)
