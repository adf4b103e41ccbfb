import keras
import numpy as np
import pytest
import quantized_models
from keras import layers

from chapter18 import quantization
from chapter18._shared.layers import every
from chapter18.quantization import _candidates


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
        got = quantization.sqnr(model.predict(probe, verbose=0), copy.predict(probe, verbose=0))
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


def test_layers_are_looked_for_once(monkeypatch):
    asked, search = [], _candidates.candidates
    monkeypatch.setattr(_candidates, "candidates", lambda *of: asked.append(of) or search(*of))
    model, probe = quantized_models.tied()
    # Below its floor, so that each layer is quantized alone too.
    with pytest.raises(RuntimeError, match="Likeliest cause"):
        quantization.quantize_copy(model, "int8", probe=probe)
    assert asked == [(model, "int8")]
    assert len(quantization.sensitivity(model, "int4", probe=probe)) == 2
    assert asked == [(model, "int8"), (model, "int4")]


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
