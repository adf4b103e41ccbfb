import keras
import ml_dtypes
import numpy as np
import pytest
from keras import layers

from chapter18 import checkpoints
from chapter18.mixed_precision import float8
from chapter18.precision import policy

E4M3_MAX, E5M2_MAX = 448.0, 57344.0


def dense(**options):
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((3,)), layers.Dense(2, use_bias=False, **options)])


def block():
    inputs = keras.Input((4,), dtype="int32")
    x = layers.Embedding(5, 8, name="embedding")(inputs)
    x = x + layers.MultiHeadAttention(2, 4, name="attention")(x, x)
    x = layers.LayerNormalization(name="normalization")(x)
    return keras.Model(inputs, layers.Dense(5, name="logits")(x))


def numbers(rows=8):
    rng = np.random.default_rng(0)
    return rng.normal(size=(rows, 3)).astype("float32"), np.ones((rows, 2), "float32")


def rounded(values, scale):
    """What float8 e4m3 leaves of `values`, by hand."""
    return (values / scale).astype(ml_dtypes.float8_e4m3fn).astype("float32") * scale


def step(model, x, y):
    return model.train_on_batch(x, y)


def value(variable):
    return np.asarray(variable.value)


def test_the_product_is_that_of_float8_numbers_rounded_by_hand():
    model, (x, y) = dense(), numbers()
    float8.convert(model, keras.optimizers.SGD(0.0), loss="mse")
    kernel = value(model.layers[0].kernel)
    np.testing.assert_allclose(
        model.predict(x, verbose=0), rounded(x, 1.0) @ rounded(kernel, 1.0), atol=1e-6
    )
    step(model, x, y)
    step(model, x, y)
    scales = np.abs(x).max() / E4M3_MAX, np.abs(kernel).max() / E4M3_MAX
    np.testing.assert_allclose(
        model.predict(x, verbose=0),
        rounded(x, scales[0]) @ rounded(kernel, scales[1]),
        atol=1e-6,
    )


def test_scales_follow_the_largest_value_one_step_late():
    model, (x, y) = dense(), numbers()
    float8.convert(model, keras.optimizers.SGD(0.0), loss=lambda y, p: keras.ops.sum(y * p, -1))
    found = []
    for factor in (1, 4, 2):
        step(model, x * np.float32(factor), y * np.float32(factor))
        found.append(float8.scales_table(model).set_index("tensor"))
    amax = np.abs(x).max()
    inputs = [table.loc["inputs"] for table in found]
    assert [row["scale"] for row in inputs[:1]] == [1.0]
    np.testing.assert_allclose([row["largest"] for row in inputs], amax * np.array([1, 4, 4]))
    # The scale at a step comes from the steps before it.
    np.testing.assert_allclose([row["limit"] for row in inputs[1:]], amax * np.array([1, 4]))
    gradients = [table.loc["gradient of the output"] for table in found]
    # The loss is a mean over 8 rows of y * p, so the gradient of p is y / 8.
    np.testing.assert_allclose([row["largest"] for row in gradients], [1 / 8, 4 / 8, 4 / 8])
    np.testing.assert_allclose(gradients[2]["scale"], 4 / 8 / E5M2_MAX)
    assert found[0]["format"].tolist() == ["float8_e4m3fn", "float8_e4m3fn", "float8_e5m2"]
    assert set(found[0]["steps"]) == {1024}


def test_the_report_names_what_is_float8_and_what_is_not():
    model = block()
    weights = [value(variable) for variable in model.weights]
    before = model.count_params()
    report = float8.convert(model, "adam", loss="mse").set_index("layer")
    products = [f"attention/{name}" for name in ("query", "key", "value")]
    products += ["attention/attention_output", "logits"]
    assert set(report.index[report["float8"]]) == set(products)
    assert set(report.index[~report["float8"]]) == {"embedding", "normalization"}
    assert report["parameters"].sum() == before
    # Three tensors a layer: a scale and 1,024 largest values each.
    assert set(report.loc[products, "remembered"]) == {3 * 1025}
    assert report["remembered"].sum() + before == model.count_params()
    kept = [value(v) for v in model.weights if not v.overwrite_with_gradient]
    assert all(np.array_equal(*pair) for pair in zip(weights, kept, strict=True))


def converted():
    model = block()
    float8.convert(model)
    return model


def test_training_lowers_the_loss_and_goes_on_after_saving(tmp_path):
    x = np.random.default_rng(0).integers(0, 5, (64, 4))
    with policy("mixed_bfloat16"):
        keras.utils.set_random_seed(1)
        model = block()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        float8.convert(model, keras.optimizers.Adam(0.01), loss=loss)
        losses = model.fit(x, x, batch_size=16, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    checkpoints.save(model, tmp_path / "model.keras")
    again = checkpoints.restore(tmp_path / "model.keras", build=converted, sample=x[:1])
    assert float8.scales_table(again).equals(float8.scales_table(model))
    options = {"batch_size": 16, "shuffle": False, "verbose": 0}
    assert model.fit(x, x, **options).history == again.fit(x, x, **options).history


def test_filters_keep_a_layer_out(capsys):
    model = block()
    report = float8.convert(model, "sgd", loss="mse", filters=lambda layer: layer.name != "logits")
    assert not report.set_index("layer").loc["logits", "float8"]
    assert report["float8"].sum() == 4
    assert capsys.readouterr().out == ""


def policies(model):
    return [layer.dtype_policy.name for layer in model.layers]


@pytest.mark.parametrize("wrapped", [False, True])
def test_gradient_accumulation_is_refused(wrapped):
    model, optimizer = dense(), keras.optimizers.Adam(gradient_accumulation_steps=4)
    if wrapped:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    match = r"does not go with gradient accumulation.*Received: gradient_accumulation_steps=4\. Use"
    with pytest.raises(ValueError, match=match):
        float8.convert(model, optimizer, loss="mse")
    assert policies(model) == ["float32"]
    assert not model.compiled


def test_what_cannot_be_compiled_leaves_the_model_as_it_was():
    model = dense(name="kept")
    with pytest.raises(TypeError, match="nonsense"):
        float8.convert(model, "adam", loss="mse", nonsense=1)
    assert not model.compiled
    assert model.get_layer("kept").dtype_policy.name == "float32"
    assert float8.convert(model, "adam", loss="mse")["float8"].all()


def test_a_used_optimizer_is_refused():
    model, optimizer = dense(), keras.optimizers.Adam()
    model.compile(optimizer, "mse")
    model.fit(*numbers(), batch_size=4, verbose=0)
    for given in (optimizer, None):
        with pytest.raises(ValueError, match=r"Received: Adam after 2 updates\. Pass a new one"):
            float8.convert(model, given)
    assert policies(model) == ["float32"]
    float8.convert(model, "adam", loss="mse")
    model.fit(*numbers(), batch_size=4, verbose=0)


@pytest.mark.parametrize("mode", ["float8", "int8"])
def test_quantized_layers_are_refused(mode):
    model = dense()
    model.layers[0].quantize(mode)
    match = rf"plain layers. Received: '.*dense.*', {mode}_from_float32. Build the model anew"
    with pytest.raises(ValueError, match=match):
        float8.convert(model, "adam", loss="mse")


def test_lora_is_refused():
    with pytest.raises(ValueError, match=r"Received: '.*dense.*', LoRA. Build the model anew"):
        float8.convert(dense(lora_rank=2), "adam", loss="mse")


def test_a_model_without_dense_products_is_refused():
    model = keras.Sequential([keras.Input((8, 3)), layers.Conv1D(2, 3), layers.ReLU()])
    match = r"Dense and EinsumDense.*a model of Conv1D, InputLayer, ReLU, none of them chosen"
    with pytest.raises(ValueError, match=match):
        float8.convert(model, "adam", loss="mse")
    with pytest.raises(ValueError, match=r"which has none. Call float8.convert first"):
        float8.scales_table(model)


def test_what_is_no_built_model_is_refused():
    with pytest.raises(TypeError, match=r"Received: Dense. Pass a keras.Model"):
        float8.convert(layers.Dense(2), "adam")
    with pytest.raises(ValueError, match=r"Received: 'bare', which is not built. Give it an Input"):
        float8.convert(keras.Sequential([layers.Dense(2)], name="bare"), "adam")
