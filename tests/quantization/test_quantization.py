import math
import random

import keras
import numpy as np
import pytest
import quantized_models
from keras import layers

from chapter18 import quantization
from chapter18._shared.layers import every
from chapter18.quantization import _absmax


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


def test_the_report_says_what_was_quantized_what_was_skipped_and_why():
    model, probe = quantized_models.small()
    report = quantization.quantize_copy(
        model, "int8", probe=probe, filters=["wide$", "logits"]
    ).report
    rows = report.layers.set_index("path")
    names = ["conv", "norm", "wide", "middle", "logits"]
    assert list(rows.index) == [f"small/{name}" for name in names]
    assert rows["class"].tolist() == ["Conv2D", "BatchNormalization", "Dense", "Dense", "Dense"]
    assert rows["parameters"].tolist() == [40, 16, 36 * 4 * 32 + 32, 32 * 16 + 16, 16 * 3 + 3]
    assert rows["quantized"].tolist() == [False, False, True, False, True]
    assert rows["reason"].tolist() == [
        "Keras cannot quantize Conv2D",
        "Keras cannot quantize BatchNormalization",
        "",
        "left out by filters",
        "",
    ]
    assert rows["bytes_before"].tolist() == (rows["parameters"] * 4).tolist()
    # A byte each for the kernel; four for each bias and each scale.
    assert rows["bytes_after"].tolist() == [160, 64, 36 * 4 * 32 + 256, 2112, 16 * 3 + 24]
    assert report.bytes_before == sum(rows["bytes_before"])
    assert report.bytes_after == sum(rows["bytes_after"])
    assert report.coverage == pytest.approx((4640 + 51) / (40 + 16 + 4640 + 528 + 51))
    assert report.mode == "int8"


def test_the_sqnr_is_that_of_the_predictions():
    model, probe = quantized_models.small()
    for mode in ("int8", "int4"):
        copy, report = quantization.quantize_copy(model, mode, probe=probe, sqnr_floor=0)
        got = _absmax.sqnr(model.predict(probe, verbose=0), copy.predict(probe, verbose=0))
        assert report.sqnr == pytest.approx(got, abs=0.5)


def test_the_worst_of_several_outputs_counts():
    inputs = {"a": keras.Input((8,), name="a"), "b": keras.Input((8,), name="b")}
    outputs = [layers.Dense(5)(inputs[n]) for n in "ab"]
    model = keras.Model(inputs, {"left": outputs[0], "right": outputs[1]})
    rng = np.random.default_rng(0)
    probe = {n: rng.normal(size=(6, 8)).astype("float32") for n in "ab"}
    report = quantization.quantize_copy(model, "int8", probe=probe).report
    alone = quantization.sensitivity(model, "int8", probe=probe)
    assert len(alone) == 2
    assert report.sqnr == pytest.approx(min(alone["sqnr"]))


def test_sensitivity_is_the_sqnr_of_a_copy_with_that_layer_alone():
    model, probe = quantized_models.small()
    table = quantization.sensitivity(model, "int4", probe=probe, block_size=16)
    assert table["path"].tolist() == ["small/wide", "small/middle", "small/logits"]
    assert table["class"].tolist() == ["Dense"] * 3
    for row in table.itertuples():
        report = quantization.quantize_copy(
            model, "int4", probe=probe, block_size=16, filters=f"^{row.path}$", sqnr_floor=0
        ).report
        assert row.sqnr == report.sqnr
        assert report.layers.set_index("path")["quantized"].sum() == 1
    one = quantization.sensitivity(model, "int8", probe=probe, filters="middle")
    assert one["path"].tolist() == ["small/middle"]


def test_filters_match_paths_and_callables_see_layers():
    model, probe = quantized_models.tied(by_hand=False)

    def quantized(filters):
        layers = quantization.quantize_copy(model, "int8", probe=probe, filters=filters).report[1]
        return layers.loc[layers["quantized"], "path"].tolist()

    assert quantized("^tied/") == ["tied/table", "tied/hidden"]
    assert quantized(lambda layer: layer.name != "table") == ["tied/hidden"]
    assert quantized("tied/t") == ["tied/table"]
    # Keras' own filter sees the name without the path, so this one would name nothing.
    assert not any("tied/t" in layer.name for layer in every(model))


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_an_embedding_tied_by_hand_is_caught_and_the_reversible_one_is_right(mode):
    model, probe = quantized_models.tied()
    with pytest.raises(
        RuntimeError,
        match=r"Received: -\d+\.\d dB in int\d for 'letters' on the probe batch, below "
        r"sqnr_floor=10. Likeliest cause: the layer 'tied/table' \(Embedding\): quantized alone "
        r"it gives -\d+\.\d dB. Its table is read elsewhere.*keras.layers.ReversibleEmbedding",
    ):
        quantization.quantize_copy(model, mode, probe=probe)
    filtered = quantization.quantize_copy(model, mode, probe=probe, filters="hidden")
    assert filtered.report.sqnr > 10
    right, probe = quantized_models.tied(by_hand=False)
    assert quantization.quantize_copy(right, mode, probe=probe).report.sqnr > 10


def test_a_floor_that_no_single_layer_breaks():
    model, probe = quantized_models.small()
    alone = min(quantization.sensitivity(model, "int8", probe=probe)["sqnr"])
    whole = quantization.quantize_copy(model, "int8", probe=probe).report.sqnr
    assert whole < alone
    with pytest.raises(
        RuntimeError, match=r"the sum of small errors, none of the 3 layers.*Quantize fewer layers"
    ):
        quantization.quantize_copy(model, "int8", probe=probe, sqnr_floor=(whole + alone) / 2)
    with pytest.raises(RuntimeError, match=r"\(Dense\): quantized alone.*Leave it out with filte"):
        quantization.quantize_copy(model, "int8", probe=probe, sqnr_floor=alone + 1)


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


def test_a_bfloat16_model_is_quantized_under_another_policy():
    keras.config.set_dtype_policy("mixed_bfloat16")
    model, probe = quantized_models.small()
    keras.config.set_dtype_policy("float32")
    copy, report = quantization.quantize_copy(model, "int8", probe=probe)
    assert report.sqnr > 25
    assert copy.layers[-1].compute_dtype == "bfloat16"


def test_a_config_of_keras_is_followed():
    model, probe = quantized_models.small()
    config = keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    weights_alone = quantization.quantize_copy(model, "int8", probe=probe, config=config)
    both = quantization.quantize_copy(model, "int8", probe=probe)
    assert weights_alone.report.sqnr > both.report.sqnr + 1


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


class Subclassed(keras.Model):
    """A model that is built on its first call, with a subclass that Keras will not quantize."""

    class Own(layers.Dense):
        pass

    def __init__(self, **options):
        super().__init__(**options)
        self.first = layers.Dense(8)
        self.own = self.Own(4)
        self.last = layers.Dense(2)

    def call(self, x):
        return self.last(self.own(self.first(x)))


def test_a_subclassed_model_and_a_subclassed_layer():
    model, probe = (
        Subclassed(name="subclassed"),
        np.random.default_rng(0).normal(size=(4, 8)).astype("float32"),
    )
    with pytest.raises(ValueError, match=r"once it has weights. Received: 'subclassed', which is"):
        quantization.quantize_copy(model, "int8", probe=probe)
    model(probe)
    report = quantization.quantize_copy(model, "int8", probe=probe).report
    assert report.layers["reason"].tolist() == [
        "",
        "is a subclass of Dense, which Keras leaves alone",
        "",
    ]


def test_a_layer_that_holds_parameters_and_layers():
    class Gate(quantized_models.Tied):
        def build(self, shape):
            super().build(shape)
            self.gate = self.add_weight(shape=(1,), initializer="ones", name="gate")

        def call(self, x):
            return super().call(x) * self.gate

    letters = keras.Input((12,), dtype="int32")
    model = keras.Model(letters, Gate(by_hand=False)(letters))
    rows = quantization.quantize_copy(
        model, "int8", probe=np.arange(12, dtype="int32")[None]
    ).report.layers
    assert rows["reason"].tolist()[0] == "holds other layers, and these parameters itself"
    assert rows["quantized"].tolist() == [False, True, True]


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


def test_batches_in_lists_and_tuples_and_integers_of_numpy():
    inputs = [keras.Input((8,)), keras.Input((8,))]
    model = keras.Model(inputs, layers.Dense(3)(layers.Add()(inputs)))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(6, 8)).astype("float32") for _ in inputs]
    found = [
        quantization.quantize_copy(model, "int4", probe=probe, sqnr_floor=0, block_size=size)
        for probe, size in ((arrays, np.int64(4)), (arrays, 4))
    ]
    assert found[0].report.sqnr == found[1].report.sqnr
    whole = [
        quantization.quantize_copy(model, "int4", probe=arrays, sqnr_floor=0, block_size=size)
        for size in (np.int8(-1), -1)
    ]
    assert whole[0].report.sqnr == whole[1].report.sqnr < found[0].report.sqnr


def test_an_adapted_normalization_is_carried_over():
    model, x = quantized_models.adapted()
    expected = model.predict(x, verbose=0)
    assert np.std(expected) > 0.01
    copy, report = quantization.quantize_copy(model, "int8", probe=x)
    assert _absmax.sqnr(expected, copy.predict(x, verbose=0)) == pytest.approx(report.sqnr, abs=0.5)
    np.testing.assert_array_equal(copy.layers[0].mean, model.layers[0].mean)
    np.testing.assert_array_equal(model.predict(x, verbose=0), expected)


def test_a_layer_whose_activation_is_a_layer():
    prelu = layers.PReLU()
    dense = layers.Dense(8, activation=prelu, name="dense")
    model = keras.Sequential([keras.Input((8,)), dense, layers.Dense(4)])
    probe = np.random.default_rng(0).normal(size=(4, 8)).astype("float32")
    rows = quantization.quantize_copy(model, "int8", probe=probe).report.layers
    rows = rows.set_index("class").loc["Dense"]
    from_3_16 = hasattr(keras.quantizers, "QuantizationReport")
    assert rows["quantized"].tolist() == [from_3_16, True]
    reason = "" if from_3_16 else "holds other layers, and these parameters itself"
    assert rows["reason"].tolist() == [reason, ""]
