import random

import keras
import numpy as np
import pytest
from keras import layers
from keras.src.quantizers import gptq_core

from chapter18 import calibration, quantization

VERSION = tuple(int(part) for part in keras.__version__.split(".")[:2])


@pytest.fixture
def fresh_answers():
    calibration.calibration_changes_kernels.cache_clear()
    yield
    calibration.calibration_changes_kernels.cache_clear()


@pytest.fixture
def repaired_keras(monkeypatch):
    """Keras as it is once its calibration hooks, which sit on `call`, are reached."""
    unrepaired = layers.Layer.quantized_call

    def quantized_call(self, *args, **options):
        # A hook replaces `call` on the instance; what is calibrated needs none any more.
        done = any(getattr(self, f"is_{mode}_calibrated", False) for mode in calibration.MODES)
        return unrepaired(self, *args, **options) if done else self.call(*args, **options)

    monkeypatch.setattr(layers.Dense, "quantized_call", quantized_call)
    # GPTQ takes the offset of its data from hash(), whose answer for a string differs between
    # processes.
    monkeypatch.setattr(gptq_core, "hash", lambda _: 0, raising=False)


def network():
    """A model, its configs' layer structure, and batches of tokens to calibrate with."""
    keras.utils.set_random_seed(4)
    table = layers.Embedding(20, 16, name="table")
    blocks = [layers.Dense(16, activation="relu", name=f"block_{i}") for i in (1, 2)]
    model = keras.Sequential([keras.Input((8,), dtype="int32"), table, *blocks], name="network")
    structure = {"pre_block_layers": [table], "sequential_blocks": blocks}
    tokens = np.random.default_rng(0).integers(0, 20, (16, 8)).astype("int32")
    return model, structure, tokens


def config(mode, structure, tokens):
    kind = {"gptq": keras.quantizers.GPTQConfig, "awq": keras.quantizers.AWQConfig}[mode]
    return kind(
        list(tokens),
        lambda text: text,
        num_samples=len(tokens),
        sequence_length=8,
        group_size=-1,
        quantization_layer_structure=structure,
    )


@pytest.mark.skipif(VERSION > (3, 15), reason="the fault was seen in Keras 3.15")
@pytest.mark.parametrize("mode", calibration.MODES)
def test_on_keras_3_15_calibration_data_change_nothing(mode):
    assert calibration.calibration_changes_kernels(mode) is False


@pytest.mark.skipif(VERSION > (3, 15), reason="the fault was seen in Keras 3.15")
@pytest.mark.parametrize("mode", calibration.MODES)
def test_dead_calibration_is_refused_with_its_reason(mode):
    model, structure, tokens = network()
    before = [np.array(v.value) for v in model.variables]
    with pytest.raises(
        RuntimeError,
        match=rf"Received: mode='{mode}' on Keras 3.15.*real and junk data give identical kernels. "
        r"Use 'int8', or 'int4' with a smaller block_size",
    ):
        quantization.quantize_copy(
            model, mode, probe=tokens, config=config(mode, structure, tokens)
        )
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.value, value)


@pytest.mark.usefixtures("repaired_keras", "fresh_answers")
@pytest.mark.parametrize("mode", calibration.MODES)
def test_where_calibration_works_the_probe_sees_it_and_the_mode_is_accepted(mode):
    assert calibration.calibration_changes_kernels(mode) is True
    model, structure, tokens = network()
    before = [np.array(v.value) for v in model.variables]
    given = config(mode, structure, tokens)
    copy, report = quantization.quantize_copy(
        model, mode, probe=tokens, config=given, filters="block", sqnr_floor=5
    )
    assert report.layers["quantized"].tolist() == [False, True, True]
    assert report.bytes_after < report.bytes_before
    assert copy.predict(tokens, verbose=0).shape == (16, 8, 16)
    assert given.quantization_layer_structure is structure
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.value, value)


@pytest.mark.usefixtures("repaired_keras", "fresh_answers")
@pytest.mark.parametrize("offset", [0, 28, 56, 91, 119])
def test_no_offset_of_the_data_hides_that_calibration_works(monkeypatch, offset):
    monkeypatch.setattr(gptq_core, "hash", lambda _: offset, raising=False)
    assert calibration.calibration_changes_kernels("gptq") is True


@pytest.mark.usefixtures("fresh_answers")
def test_the_probe_leaves_no_trace(capsys):
    keras.config.set_dtype_policy("mixed_bfloat16")
    number = int(layers.Dense(2).name.partition("_")[2] or 0)
    state = random.getstate()
    for mode in calibration.MODES:
        calibration.calibration_changes_kernels(mode)
    assert random.getstate() == state
    assert layers.Dense(2).name == f"dense_{number + 1}"
    assert keras.config.dtype_policy().name == "mixed_bfloat16"
    out, err = capsys.readouterr()
    assert out == err == ""


@pytest.mark.usefixtures("fresh_answers")
def test_the_answer_is_kept(monkeypatch):
    first = calibration.calibration_changes_kernels("awq")
    monkeypatch.setattr(keras.Model, "quantize", None)
    assert calibration.calibration_changes_kernels("awq") is first


def test_other_modes_are_refused():
    with pytest.raises(ValueError, match=r"Received: mode='int8'. Valid: \['gptq', 'awq'\]"):
        calibration.calibration_changes_kernels("int8")
