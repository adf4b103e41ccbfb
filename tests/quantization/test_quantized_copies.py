import random

import keras
import numpy as np
import pytest
import quantized_models
from keras import layers

from chapter18 import quantization
from chapter18._shared.layers import every


@pytest.fixture(scope="module")
def mlp():
    return quantized_models.mlp()


def state(model):
    """Everything that training or quantizing could change, as bytes and objects."""
    optimizer = getattr(model, "optimizer", None)
    variables = (*model.variables, *(optimizer.variables if optimizer else []))
    functions = [getattr(model, f"{name}_function", None) for name in ("train", "test", "predict")]
    policies = [layer.dtype_policy.name for layer in every(model)]
    return [
        [(v.path, v.dtype, np.array(v.value).tobytes()) for v in variables],
        [id(function) for function in functions],
        policies,
        [id(metric) for metric in model.metrics],
    ]


@pytest.mark.parametrize(
    ("mode", "options", "points", "share"),
    [
        ("int8", {}, 0.2, 0.27),
        ("int4", {}, 0.5, 0.18),
        ("int4", {"block_size": 32}, 0.5, 0.24),
        ("int4", {"block_size": -1}, 0.5, 0.15),
    ],
)
def test_an_mnist_perceptron_keeps_its_accuracy_and_its_original(mlp, mode, options, points, share):
    model, mnist = mlp
    loss, accuracy = model.evaluate(mnist.x_test, mnist.y_test, batch_size=1000, verbose=0)
    before = state(model)
    copy, report = quantization.quantize_copy(model, mode, probe=mnist.x_val[:100], **options)
    quantized = copy.evaluate(mnist.x_test, mnist.y_test, batch_size=1000, verbose=0)
    assert state(model) == before
    assert accuracy > 0.95
    assert abs(quantized[1] - accuracy) <= points / 100
    assert quantized[0] == pytest.approx(loss, rel=0.2)
    assert quantized[1] == pytest.approx(
        np.mean(np.argmax(copy.predict(mnist.x_test, verbose=0), -1) == mnist.y_test)
    )
    assert report.coverage == 1
    assert report.bytes_after < share * report.bytes_before


def test_the_original_trains_on_as_if_nothing_had_happened():
    weights = []
    for quantized in (False, True):
        model, probe = quantized_models.small()
        model.compile("adam", "mse")
        y = np.ones((16, 3))
        model.fit(probe, y, epochs=2, verbose=0)
        if quantized:
            quantization.quantize_copy(model, "int8", probe=probe)
        model.fit(probe, y, epochs=2, verbose=0)
        weights.append([np.array(variable.value) for variable in model.variables])
    for a, b in zip(*weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_copy_does_not_follow_its_original():
    model, probe = quantized_models.small()
    copy = quantization.quantize_copy(model, "int8", probe=probe).model
    before = copy.predict(probe, verbose=0)
    model.compile("sgd", "mse")
    model.fit(probe, np.ones((16, 3)), verbose=0)
    np.testing.assert_array_equal(copy.predict(probe, verbose=0), before)


def test_keras_names_seeds_and_policy_are_left_alone():
    model, probe = quantized_models.small()
    keras.config.set_dtype_policy("mixed_bfloat16")
    keras.utils.set_random_seed(5)
    first = layers.Dense(2).name, random.random()
    keras.utils.set_random_seed(5)
    number = int(layers.Dense(2).name.split("_")[1])
    quantization.quantize_copy(model, "int4", probe=probe)
    assert random.random() == first[1]
    assert layers.Dense(2).name == f"dense_{number + 1}"
    assert keras.config.dtype_policy().name == "mixed_bfloat16"
    assert {layer.compute_dtype for layer in every(model)} == {"float32"}


def test_training_the_copy_is_refused_and_predict_still_works():
    model, probe = quantized_models.small()
    copy = quantization.quantize_copy(model, "int8", probe=probe).model
    y = np.ones((16, 3))
    before = copy.predict(probe, verbose=0)
    copy.compile("adam", "mse")
    with pytest.raises(RuntimeError, match=r"for inference.*Received: fit\(\) of 'small'. Train"):
        copy.fit(probe, y, epochs=2)
    with pytest.raises(RuntimeError, match=r"Received: train_on_batch\(\) of 'small'"):
        copy.train_on_batch(probe, y)
    np.testing.assert_array_equal(copy.predict(probe, verbose=0), before)
    assert copy.evaluate(probe, y, verbose=0) == pytest.approx(np.mean((before - 1) ** 2), rel=1e-5)
    model.compile("adam", "mse")
    model.fit(probe, y, verbose=0)


def test_a_copy_of_an_uncompiled_model_and_of_one_with_a_loss_of_its_own():
    model, probe = quantized_models.small()
    assert not quantization.quantize_copy(model, "int8", probe=probe).model.compiled
    model.compile("sgd", loss=lambda y, p: (y - p) ** 2)
    copy = quantization.quantize_copy(model, "int8", probe=probe).model
    copy.compile(loss="mse")
    assert copy.evaluate(probe, np.ones((16, 3)), verbose=0) > 0


def test_a_model_without_a_configuration_is_copied_by_its_build_function():
    model, probe = quantized_models.scaled(), np.ones((4, 8), "float32")
    with pytest.raises(
        ValueError, match=r"Received: 'scaled' \(Functional\), which cannot.*Scaled has no conf.*b"
    ):
        quantization.quantize_copy(model, "int8", probe=probe)
    report = quantization.quantize_copy(
        model, "int8", probe=probe, build=quantized_models.scaled
    ).report
    assert report.sqnr > 25
    with pytest.raises(
        ValueError, match=r"layers and the weights of its original.*first in Functional against S"
    ):
        quantization.quantize_copy(
            model, "int8", probe=probe, build=lambda: quantized_models.small()[0]
        )


def test_a_configuration_that_leaves_an_argument_out_is_caught():
    model = quantized_models.scaled(quantized_models.Forgetful)
    with pytest.raises(
        ValueError, match=r"before anything is changed. Received: 'scaled'.*A get_config of yours"
    ):
        quantization.quantize_copy(model, "int8", probe=np.ones((4, 8), "float32"))


def test_an_adapted_normalization_is_carried_over():
    model, x = quantized_models.adapted()
    expected = model.predict(x, verbose=0)
    assert np.std(expected) > 0.01
    copy, report = quantization.quantize_copy(model, "int8", probe=x)
    assert quantization.sqnr(expected, copy.predict(x, verbose=0)) == pytest.approx(
        report.sqnr, abs=0.5
    )
    np.testing.assert_array_equal(copy.layers[0].mean, model.layers[0].mean)
    np.testing.assert_array_equal(model.predict(x, verbose=0), expected)
