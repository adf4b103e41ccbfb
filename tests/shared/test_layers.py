import jax
import keras
import numpy as np
import pytest

from chapter18._shared import layers


class Block(keras.layers.Layer):
    """A layer with a variable, two layers in a list, one in a dict, and one that it holds twice."""

    def __init__(self, **options):
        super().__init__(**options)
        self.listed = [keras.layers.Dense(2, name="a"), keras.layers.Dropout(0.5, name="drop")]
        self.named = {"b": keras.layers.Dense(2, name="b")}
        self.again = self.listed[0]

    def build(self, shape):
        self.factor = self.add_weight(shape=(1,), name="factor")
        for layer in (self.listed[0], self.named["b"]):
            layer.build(shape)

    def call(self, x):
        return self.named["b"](self.listed[0](x)) * self.factor


@pytest.fixture
def model():
    inputs = keras.Input((2,), name="in")
    inner = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="c")], name="inner")
    return keras.Model(inputs, inner(Block(name="block")(inputs)), name="outer")


def names(found):
    return [layer.name for layer in found if not isinstance(layer, keras.layers.InputLayer)]


def test_every_layer_is_found_once_and_before_what_is_inside_it(model):
    assert names(layers.inside(model)) == ["block", "inner"]
    assert names(layers.nested(model)) == ["block", "a", "drop", "b", "inner", "c"]
    assert names(layers.every(model)) == ["outer", *names(layers.nested(model))]
    assert layers.nested(model.get_layer("inner").get_layer("c")) == []


def test_the_public_way_finds_the_same_layers(model):
    deep = keras.layers.Bidirectional(keras.layers.LSTM(2))
    deep.build((None, 3, 2))
    attention = keras.layers.MultiHeadAttention(1, 2)
    attention.build((None, 3, 2), (None, 3, 2))
    for layer in (*layers.every(model), deep, attention):
        public = layers.held_by_attributes(layer)
        assert sorted(names(public)) == sorted(names(layers.inside(layer)))


def test_a_keras_without_the_private_list_is_asked_publicly(model):
    block = model.get_layer("block")
    tracked = block.__dict__.pop("_layers")
    try:
        assert names(layers.nested(block)) == ["a", "drop", "b"]
    finally:
        block.__dict__["_layers"] = tracked


def test_own_variables_and_weights_add_up_to_all_of_them(model):
    block = model.get_layer("block")
    assert [v.name for v in layers.own_weights(block)] == ["factor"]
    assert [v.name for v in layers.own_variables(block)] == ["factor"]
    dropout = block.listed[1]
    assert layers.own_weights(dropout) == []
    assert [v.dtype for v in layers.own_variables(dropout)] == ["uint32"]
    for attribute, own in (
        ("variables", layers.own_variables),
        ("weights", layers.own_weights),
    ):
        found = [id(v) for layer in layers.every(model) for v in own(layer)]
        assert sorted(found) == sorted(id(v) for v in getattr(model, attribute))
    numbers = sum(
        np.prod(v.shape) for each in layers.every(model) for v in layers.own_weights(each)
    )
    assert numbers == model.count_params()


class Statistics(keras.layers.Layer):
    """A layer with a mean that is an array of JAX, a largest value of NumPy's, and a variable."""

    def __init__(self, mean=0.0, **options):
        super().__init__(**options)
        self.mean = keras.ops.full((2,), mean)
        self.largest = np.float32(mean)
        self.seen = self.add_weight(shape=(), initializer="zeros")


def test_what_layers_derived_from_data_is_read_and_put_back_as_it_was():
    learnt, fresh = (keras.Sequential([keras.Input((2,)), Statistics(m)]) for m in (3.0, 0.0))
    state = layers.derived_state(learnt)
    name = next(f"{i}/" for i, each in enumerate(layers.every(learnt)) if each.name[:4] == "stat")
    assert {key: value.tolist() for key, value in state.items()} == {
        f"{name}mean": [3.0, 3.0],
        f"{name}largest": 3.0,
    }
    assert all(isinstance(value, np.ndarray) for value in state.values())
    layers.put_derived_back(fresh, state)
    layer = fresh.layers[-1]
    assert isinstance(layer.mean, jax.Array)
    assert isinstance(layer.largest, np.ndarray)
    assert layers.derived_state(fresh).keys() == state.keys()
    np.testing.assert_array_equal(layer.mean, [3.0, 3.0])
