import re

import keras
import numpy as np
import pytest
from keras import layers, ops

from chapter18.mixed_precision import gradient_underflow, policy_table
from chapter18.precision import policy


def table(model):
    return policy_table(model).set_index("layer")


def transformer(last=None):
    inputs = keras.Input((4,), dtype="int32")
    x = layers.Embedding(5, 8, name="embedding")(inputs)
    attended = layers.MultiHeadAttention(2, 4, dropout=0.1, name="attention")(x, x)
    inner = keras.Sequential(
        [
            keras.Input((4, 8)),
            layers.Dense(6, name="dense"),
            layers.BatchNormalization(name="normalization"),
        ],
        name="inner",
    )
    x = inner(layers.Add(name="add")([x, attended]))
    return keras.Model(inputs, layers.Dense(5, dtype=last, name="logits")(x))


def test_every_layer_has_a_row_and_parameters_add_up():
    with policy("mixed_float16"):
        model = transformer()
    # Layers that Keras makes inside attention are numbered as it goes.
    rows = table(model).rename(index=lambda path: re.sub(r"_\d+$", "", path))
    assert rows["parameters"].sum() == model.count_params()
    # By hand: inputs × outputs + biases; normalization has four vectors.
    assert rows["parameters"].to_dict() == {
        "embedding": 40,
        "attention": 0,
        "attention/query": 72,
        "attention/key": 72,
        "attention/value": 72,
        "softmax": 0,
        "dropout": 0,
        "attention/attention_output": 72,
        "add": 0,
        "inner/dense": 54,
        "inner/normalization": 24,
        "logits": 35,
    }
    assert set(rows["policy"]) == {"mixed_float16"}
    assert set(rows.loc[rows["parameters"] > 0, "variables"]) == {"float32"}
    assert set(rows["compute"]) == set(rows["output"]) == {"float16"}


@pytest.mark.parametrize(
    ("name", "last", "kept"),
    [
        ("float32", None, {}),
        ("mixed_float16", None, {"logits": False}),
        ("mixed_bfloat16", "float32", {}),
        ("bfloat16", "float32", {"attention/key": False, "inner/dense": False}),
    ],
)
def test_what_must_stay_float32_is_named_and_whether_it_does(name, last, kept):
    with policy(name):
        rows = table(transformer(last))
    assert rows.loc["logits", "float32 for"] == "weights, output"
    assert rows.loc["inner/dense", "float32 for"] == "weights"
    assert set(rows.loc[["add", "attention"], "float32 for"]) == {""}
    for layer in ("logits", "attention/key", "inner/dense", "add"):
        assert rows.loc[layer, "kept"] == kept.get(layer, True)


def test_the_output_layer_is_found_inside_a_nested_model_and_in_a_sequential():
    head = keras.Sequential([keras.Input((3,)), layers.Dense(2), layers.Softmax()], name="head")
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), head])
    rows = policy_table(model)
    assert rows["class"].tolist() == ["Dense", "Dense", "Softmax"]
    assert rows["float32 for"].tolist() == ["weights", "weights", "output"]


def ending_in(end, last=None):
    """A model whose output no layer gives: an operation is the last."""
    inputs = keras.Input((3,))
    hidden = layers.Dense(4, name="hidden")(inputs)
    return keras.Model(inputs, end(layers.Dense(4, name="logits", dtype=last)(hidden), hidden))


@pytest.mark.parametrize(
    ("end", "last", "outputs", "kept"),
    [
        (lambda x, _: ops.cast(x, "float32"), None, ["logits"], False),
        (lambda x, _: ops.cast(x, "float32"), "float32", ["logits"], True),
        (lambda x, _: ops.softmax(ops.cast(x, "float16")), "float32", ["logits"], False),
        (lambda x, _: ops.cast(ops.cast(x, "float16"), "float32"), "float32", ["logits"], False),
        (lambda x, hidden: x + hidden, "float32", ["hidden", "logits"], False),
        (lambda x, _: {"a": x, "b": ops.argmax(x)}, "float32", ["logits"], True),
        (lambda x, _: [x * x * x * x, x], "float32", ["logits"], True),
    ],
)
def test_operations_at_the_end_count_for_the_layers_before_them(end, last, outputs, kept):
    with policy("mixed_float16"):
        inner = ending_in(end, last)
        nested = keras.Sequential([keras.Input((3,)), layers.Dense(3), inner])
    for model in (inner, nested):
        rows = table(model).rename(index=lambda path: path.rpartition("/")[2])
        assert sorted(rows.index[rows["float32 for"].str.contains("output")]) == outputs
        assert rows["kept"].all() == kept


def test_a_deep_end_of_operations_is_walked_once():
    def doubled(x, _):
        for _ in range(60):
            x = x + x
        return x

    assert table(ending_in(doubled)).loc["logits", "float32 for"] == "weights, output"


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.shared = layers.Dense(3)
        self.scale = self.add_weight(shape=(3,), name="scale")

    def call(self, x):
        return self.shared(self.shared(x)) * self.scale


def test_a_subclassed_model_inside_another_keeps_its_own_weights():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, layers.Dense(2)(Subclassed()(inputs)))
    rows = policy_table(model)
    assert rows["class"].tolist() == ["Subclassed", "Dense", "Dense"]
    assert rows["parameters"].tolist() == [3, 12, 8]
    alone = Subclassed()
    alone(np.ones((1, 3)))
    assert policy_table(alone)["float32 for"].tolist() == ["weights"]


POWERS = np.arange(0, 40)


def powers_of_two(name, **options):
    """A model whose kernel has the gradients 1, 1/2, 1/4, … and, last, one of 0; and its batch."""
    with policy(name):
        dense = layers.Dense(len(POWERS) + 1, use_bias=False, **options)
        model = keras.Sequential([keras.Input((1,)), dense])
    model.compile("sgd", loss=lambda y, p: keras.ops.sum(y * p, axis=-1))
    y = np.append(np.ldexp(1.0, -POWERS), 0.0).astype("float32")
    return model, np.ones((1, 1), "float32"), y[None]


@pytest.mark.parametrize("exponent", [-3, 0, 5, 10, 15, 20])
def test_float16_loses_the_powers_of_two_below_its_smallest_number(exponent):
    model, x, y = powers_of_two("mixed_float16")
    row = gradient_underflow(model, x, y, 2.0**exponent).loc[2.0**exponent]
    # float16's smallest number is 2 ** -24, its largest below 2 ** 16.
    assert row["lost"] == sum(exponent - POWERS < -24)
    assert row["not finite"] == sum(exponent - POWERS >= 16)
    assert row["zero anyway"] == 1
    assert row["entries"] == len(POWERS) + 1
    assert row["lost share"] == row["lost"] / len(POWERS)


@pytest.mark.parametrize("name", ["float32", "mixed_bfloat16"])
def test_wide_exponents_lose_nothing(name):
    rows = gradient_underflow(*powers_of_two(name), [1.0, 2.0**15])
    assert rows.index.tolist() == [1.0, 2.0**15]
    assert rows[["lost", "not finite"]].to_numpy().max() == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_of_16_bits_are_refused(dtype):
    match = rf"of float32 weights. Received: '.*/kernel' in {dtype}. Build .* under mixed_{dtype}"
    with pytest.raises(ValueError, match=match):
        gradient_underflow(*powers_of_two(dtype), 1)


def test_regularizers_count_and_only_once():
    model, x, y = powers_of_two("mixed_float16", kernel_regularizer=keras.regularizers.L2(0.5))
    model.layers[0].kernel.assign(np.full((1, len(POWERS) + 1), 2.0**-10, "float32"))
    # The gradient of the penalty is the kernel itself, so no entry is tiny.
    rows = gradient_underflow(model, x, y, 1)
    assert rows.iloc[0].tolist() == [len(POWERS) + 1, 0, 0, 0, 0]
    model.layers[0].kernel.assign(-y)
    assert gradient_underflow(model, x, y, 1)["zero anyway"].tolist() == [len(POWERS) + 1]


def named_batch(rows=8):
    rng = np.random.default_rng(0)
    x = {"a": rng.normal(size=(rows, 3)), "b": rng.normal(size=(rows, 2)).astype("float32")}
    y = {"class": rng.integers(0, 4, (rows, 1)), "value": rng.normal(size=(rows, 1))}
    return x, y


def named_model(**options):
    """Two named inputs and two named outputs."""
    keras.utils.set_random_seed(1)
    with policy("mixed_float16"):
        inputs = {"a": keras.Input((3,), name="a"), "b": keras.Input((2,), name="b")}
        x = layers.Concatenate()([inputs["a"], inputs["b"]])
        classes = layers.Dense(4, dtype="float32", name="class")(x)
        value = ops.cast(layers.Dense(1, name="value")(x), "float32")
        model = keras.Model(inputs, {"class": classes, "value": value})
    crossentropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", {"class": crossentropy, "value": "mse"}, **options)
    return model


def test_batches_may_be_dicts_labels_columns_and_weighted():
    model, (x, y) = named_model(), named_batch()
    rows = gradient_underflow(model, x, y, [1.0, 2.0**-20])
    assert rows["entries"].tolist() == [4 * 6 + 6] * 2
    assert rows["lost"].iloc[0] < rows["lost"].iloc[1]
    flat = y | {"class": y["class"][:, 0]}
    assert gradient_underflow(model, x, flat, [1.0, 2.0**-20]).equals(rows)
    x32 = x | {"a": x["a"].astype("float32")}
    model.fit(x32, y, verbose=0)
    weights = {"class": np.ones(8), "value": np.zeros(8)}
    weighted = gradient_underflow(model, x, y, 1, sample_weight=weights)
    # Without a weight the second output has no gradient at all: its kernel and its bias.
    assert weighted["zero anyway"].tolist() == [6]
    assert gradient_underflow(named_model(), x, y, 1, sample_weight=weights).equals(weighted)


def test_a_loss_of_the_model_alone_needs_no_labels():
    class Penalty(layers.Layer):
        def call(self, x):
            self.add_loss(ops.sum(x))
            return x

    with policy("mixed_float16"):
        inputs = keras.Input((2,))
        model = keras.Model(inputs, Penalty()(layers.Dense(3, use_bias=False)(inputs)))
    model.compile("sgd")
    rows = gradient_underflow(model, np.ones((1, 2), "float32"), None, np.int64(1))
    assert rows.to_numpy().tolist() == [[6, 0, 0, 0, 0]]


def test_the_model_is_left_untouched():
    with policy("mixed_float16"):
        model = keras.Sequential(
            [
                keras.Input((3,)),
                layers.Dense(4),
                layers.BatchNormalization(),
                layers.Dropout(0.5, seed=1),
                layers.Dense(2, dtype="float32"),
            ]
        )
        model.compile("adam", "mse", metrics=["mae"])
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    model.fit(x, y, verbose=0)

    def state():
        variables = (*model.variables, *model.optimizer.variables, *model.metrics_variables)
        return [np.array(variable.value) for variable in variables]

    before, policies = state(), policy_table(model)
    gradient_underflow(model, x, y, [1, 2.0**30])
    assert all(np.array_equal(*pair) for pair in zip(before, state(), strict=True))
    assert policy_table(model).equals(policies)
    assert model.dtype_policy.name == "mixed_float16"
    assert keras.config.dtype_policy().name == "float32"


def test_policies_are_put_back_when_the_loss_fails():
    def fails_in_float32(y, p):
        if p.dtype == "float32":
            raise ArithmeticError("wide")
        return keras.ops.sum(y * p, axis=-1)

    model, x, y = powers_of_two("mixed_float16")
    model.compile("sgd", fails_in_float32)
    with pytest.raises(ArithmeticError, match="wide"):
        gradient_underflow(model, x, y, 1)
    with pytest.raises((ValueError, TypeError), match=r"(?i)shape|incompatible"):
        gradient_underflow(*powers_of_two("mixed_float16")[:2], y[:, :2], 1)
    assert set(policy_table(model)["policy"]) == {"mixed_float16"}


@pytest.mark.parametrize("scale", [0, -1.0, np.inf, np.nan, [], [1.0, 0.0]])
def test_scales_must_be_positive_and_finite(scale):
    with pytest.raises(ValueError, match=r"positive finite number. Received: scale=.*\. Pass for"):
        gradient_underflow(*powers_of_two("mixed_float16"), scale)


def test_what_is_no_compiled_model_is_refused():
    with pytest.raises(TypeError, match=r"Received: Dense. Pass a keras.Model"):
        policy_table(layers.Dense(2))
    bare = keras.Sequential([layers.Dense(2)], name="bare")
    with pytest.raises(ValueError, match=r"Received: 'bare', which is not built. Give it an Input"):
        policy_table(bare)
    bare.build((1, 3))
    with pytest.raises(ValueError, match=r"Received: 'bare', not compiled. Call model.compile"):
        gradient_underflow(bare, np.ones((1, 3)), np.ones((1, 2)), 1)
