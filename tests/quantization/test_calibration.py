import random

import keras
import numpy as np
import pytest
from keras import layers

from chapter18 import quantization
from chapter18.quantization import _modes

VERSION = tuple(int(part) for part in keras.__version__.split(".")[:2])
dead = pytest.mark.skipif(VERSION > (3, 15), reason="Keras 3.15 has the fault")
alive = pytest.mark.skipif(VERSION < (3, 16), reason="Keras 3.16 is the first to calibrate")
MODES = ("gptq", "awq")
TOKENS, LENGTH = 20, 8


@pytest.fixture
def fresh_answers():
    _modes._data_change_kernels.cache_clear()
    yield
    _modes._data_change_kernels.cache_clear()


def network():
    """A model, its configs' layer structure, and batches of tokens to calibrate with."""
    keras.utils.set_random_seed(4)
    table = layers.Embedding(TOKENS, 16, name="table")
    blocks = [layers.Dense(16, activation="relu", name=f"block_{i}") for i in (1, 2)]
    model = keras.Sequential([keras.Input((LENGTH,), dtype="int32"), table, *blocks], name="net")
    # Few directions carry the vectors of the letters, as in a trained table.
    rng = np.random.default_rng(1)
    table.embeddings.assign(rng.normal(size=(TOKENS, 4)) @ rng.normal(size=(4, 16)))
    structure = {"pre_block_layers": [table], "sequential_blocks": blocks}
    tokens = rng.integers(0, TOKENS, (64, LENGTH)).astype("int32")
    return model, structure, tokens


def config(mode, structure, tokens):
    kind = {"gptq": keras.quantizers.GPTQConfig, "awq": keras.quantizers.AWQConfig}[mode]
    return kind(
        list(tokens),
        lambda text: text,
        num_samples=len(tokens),
        sequence_length=LENGTH,
        group_size=-1,
        quantization_layer_structure=structure,
    )


@pytest.mark.parametrize("mode", MODES)
def test_calibration_data_change_nothing_in_3_15_and_something_from_3_16_on(mode):
    assert quantization.calibration_changes_kernels(mode) is (VERSION >= (3, 16))


@dead
@pytest.mark.parametrize("mode", MODES)
def test_dead_calibration_is_refused_with_its_reason(mode):
    model, structure, tokens = network()
    before = [np.array(v.value) for v in model.variables]
    with pytest.raises(
        RuntimeError,
        match=rf"Received: mode='{mode}' on Keras 3.15.*real and junk data give identical kernels. "
        r"Use 'int8', or 'int4' with a smaller block_size, or Keras 3.16",
    ):
        quantization.quantize_copy(
            model, mode, probe=tokens, config=config(mode, structure, tokens)
        )
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.value, value)


@alive
@pytest.mark.parametrize("mode", MODES)
def test_working_calibration_beats_rounding_and_leaves_the_original(mode):
    model, structure, tokens = network()
    before = [np.array(v.value) for v in model.variables]
    given = config(mode, structure, tokens)
    copy, report = quantization.quantize_copy(model, mode, probe=tokens, config=given)
    assert given.quantization_layer_structure is structure
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.value, value)
    assert report.layers["quantized"].tolist() == [False, True, True]
    assert report.layers["reason"].tolist() == [f"Keras has no {mode} for Embedding", "", ""]
    assert report.bytes_after < report.bytes_before
    got = quantization.sqnr(model.predict(tokens, verbose=0), copy.predict(tokens, verbose=0))
    assert report.sqnr == pytest.approx(got, abs=0.01)
    # The same 4 bits and one scale a column, by plain rounding.
    rounding = quantization.quantize_copy(
        model, "int4", probe=tokens, block_size=-1, filters="block", sqnr_floor=0
    ).report
    assert report.sqnr > rounding.sqnr + (3 if mode == "gptq" else 0)


@alive
def test_layers_outside_the_structure_are_named_and_none_inside_it_is_refused():
    model, structure, tokens = network()
    first = structure | {"sequential_blocks": structure["sequential_blocks"][:1]}
    report = quantization.quantize_copy(
        model, "gptq", probe=tokens, config=config("gptq", first, tokens)
    ).report
    assert report.layers["reason"].tolist()[2] == "outside the config's layer structure"
    with pytest.raises(
        ValueError, match=r"at least one layer is quantized. Received: 'net' in gptq.*structure"
    ):
        quantization.quantize_copy(
            model, "gptq", probe=tokens, config=config("gptq", first, tokens), filters="block_2"
        )


@pytest.mark.usefixtures("fresh_answers")
def test_the_probe_leaves_no_trace(capsys):
    keras.config.set_dtype_policy("mixed_bfloat16")
    number = int(layers.Dense(2).name.partition("_")[2] or 0)
    state = random.getstate()
    for mode in MODES:
        quantization.calibration_changes_kernels(mode)
    assert random.getstate() == state
    assert layers.Dense(2).name == f"dense_{number + 1}"
    assert keras.config.dtype_policy().name == "mixed_bfloat16"
    out, err = capsys.readouterr()
    assert out == err == ""


@pytest.mark.usefixtures("fresh_answers")
def test_the_answer_is_kept(monkeypatch):
    first = quantization.calibration_changes_kernels("awq")
    monkeypatch.setattr(keras.Model, "quantize", None)
    assert quantization.calibration_changes_kernels("awq") is first


def test_other_modes_are_refused():
    with pytest.raises(ValueError, match=r"Received: mode='int8'. Valid: \['gptq', 'awq'\]"):
        quantization.calibration_changes_kernels("int8")
