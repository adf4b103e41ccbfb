import math

import keras
import numpy as np
import pytest
import quantized_models
from keras import layers

from chapter18 import quantization


def test_models_that_cannot_be_quantized_are_refused():
    model, probe = quantized_models.small()
    copy = quantization.quantize_copy(model, "int8", probe=probe).model
    with pytest.raises(
        ValueError,
        match=r"quantized once.*layer '(small/)?wide' is 'int8_from_float32' already. Quantize a",
    ):
        quantization.quantize_copy(copy, "int4", probe=probe)
    bare = keras.Sequential([keras.Input((8, 8, 1)), layers.Conv2D(2, 3)], name="bare")
    with pytest.raises(
        ValueError, match=r"Received: 'bare', whose parameters are in \['Conv2D'\]. Keep this model"
    ):
        quantization.quantize_copy(bare, "int8", probe=probe)
    with pytest.raises(TypeError, match=r"Received: Dense. Pass a keras.Model"):
        quantization.quantize_copy(layers.Dense(2), "int8", probe=probe)
    model.layers[-1].bias.assign([np.nan, 0, 0])
    with pytest.raises(ValueError, match=r"finite predictions. Received: 'small', which predicts"):
        quantization.quantize_copy(model, "int8", probe=probe)


def test_float16_is_refused_for_int8():
    keras.config.set_dtype_policy("mixed_float16")
    model = keras.Sequential([keras.Input((8,)), layers.Dense(2, name="dense")], name="half")
    with pytest.raises(
        ValueError, match=r"Received: 'half/dense', which computes in float16. Build the same"
    ):
        quantization.quantize_copy(model, "int8", probe=np.ones((4, 8), "float32"))


def test_filters_that_name_nothing_are_refused():
    model, probe = quantized_models.small()

    def refused(error, match, filters):
        with pytest.raises(error, match=match):
            quantization.quantize_copy(model, "int8", probe=probe, filters=filters)

    nearest = r"which names none. The nearest paths are \['small/middle', .*\]"
    refused(ValueError, rf"Received: 'small/midle', {nearest}", ["wide", "small/midle"])
    refused(ValueError, r"Received: 'conv', which names none", "conv")
    refused(ValueError, r"Received: <function .* names none", lambda layer: layer.name == "conv")
    refused(ValueError, r"Received: '\(': missing .*re.escape", "(")
    refused(TypeError, r"a list of them, or a callable. Received: 3. Write", 3)
    refused(ValueError, r"Received: \[\], which names none", [])


def test_modes_and_arguments_that_do_not_go_together_are_refused():
    model, probe = quantized_models.small()

    def refused(error, match, mode, **options):
        with pytest.raises(error, match=match):
            quantization.quantize_copy(model, mode, probe=probe, **options)

    refused(ValueError, r"Received: mode='int3'. Valid: \['int8', 'int4', 'gptq', 'awq'\]", "int3")
    refused(ValueError, r"float8 is a way to train.*before fit\(\) instead", "float8")
    refused(TypeError, r"Received: dict. Pass for example keras", "int8", config={})
    int8 = keras.quantizers.Int8QuantizationConfig()
    refused(ValueError, r"mode='int4' with a config for 'int8'. Make", "int4", config=int8)
    refused(ValueError, r"gptq needs calibration data. Received: no config.*GPTQConfig", "gptq")
    refused(
        ValueError, r"block_size is for int4.*block_size=32, mode='int8'", "int8", block_size=32
    )
    for bad in (0, -2, 1.5, True):
        refused(ValueError, rf"Received: block_size={bad}. Pass", "int4", block_size=bad)


@pytest.mark.parametrize("floor", [math.nan, np.float32("nan"), True, "10", None])
def test_a_floor_that_would_let_anything_through_is_refused(floor):
    model, probe = quantized_models.tied()
    with pytest.raises(ValueError, match=r"a number of dB.*Received: sqnr_floor=.*Pass for exam"):
        quantization.quantize_copy(model, "int8", probe=probe, sqnr_floor=floor)
    with pytest.raises(RuntimeError, match="predicts nearly what its original"):
        quantization.quantize_copy(model, "int8", probe=probe, sqnr_floor=np.float32(10))


def test_a_probe_that_shows_no_loss_is_refused():
    model, probe = quantized_models.small()
    for act in (quantization.quantize_copy, quantization.sensitivity):
        with pytest.raises(ValueError, match=r"Received: a probe with an array of shape \(0, 8, 8"):
            act(model, "int8", probe=probe[:0])
        with pytest.raises(ValueError, match=r"Received: a probe with no array. Pass a batch"):
            act(model, "int8", probe=[])
        with pytest.raises(ValueError, match=r"Received: a probe of zeros, which only biases answ"):
            act(model, "int8", probe=np.zeros_like(probe))
    model.get_layer("logits").kernel.assign(np.zeros((16, 3)))
    with pytest.raises(ValueError, match=r"against a signal.*Received: 'small', which predicts z"):
        quantization.quantize_copy(model, "int8", probe=probe)
