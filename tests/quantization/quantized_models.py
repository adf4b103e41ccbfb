"""Models for the tests of quantization: trained on MNIST, and small with layers of their own."""

import keras
import numpy as np
from keras import layers

from chapter18 import datasets


def mlp():
    """A perceptron trained on MNIST for two epochs, and the data."""
    mnist = datasets.load_mnist()
    keras.utils.set_random_seed(1)
    # On a CPU, JAX 0.7.2 was seen to train layers of 256 and 512 wrongly, and these rightly.
    dense = [layers.Dense(128, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((28, 28)), layers.Flatten(), *dense, layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    model.fit(mnist.x_train, mnist.y_train, batch_size=250, epochs=2, verbose=0)
    return model, mnist


class Scaled(layers.Layer):
    """A layer that cannot be made from its configuration: its argument is not in it."""

    def __init__(self, factors):
        super().__init__()
        self.factors = factors
        self.dense = layers.Dense(4)

    def build(self, shape):
        self.dense.build(shape)

    def call(self, x):
        return self.dense(x) * self.factors[0]

    def get_config(self):
        raise NotImplementedError("Scaled has no configuration")


class Forgetful(Scaled):
    """A layer whose configuration leaves its argument out."""

    def __init__(self, factors=(1.0,), **_):
        super().__init__(factors)

    def get_config(self):
        return {}


def scaled(kind=Scaled, factor=3.0):
    """A functional model around a `kind` of layer."""
    keras.utils.set_random_seed(3)
    inputs = keras.Input((8,))
    return keras.Model(inputs, layers.Dense(2)(kind((factor,))(inputs)), name="scaled")


class Tied(layers.Layer):
    """Letters to logits over letters, embedding and output tied by hand, or by Keras."""

    def __init__(self, by_hand=True, **options):
        super().__init__(**options)
        self.by_hand = by_hand
        kind = layers.Embedding if by_hand else layers.ReversibleEmbedding
        self.table = kind(30, 16, name="table")
        self.hidden = layers.Dense(16, name="hidden")

    def build(self, shape):
        self.table.build(shape)
        self.hidden.build((*shape, 16))

    def call(self, x):
        x = self.hidden(self.table(x))
        if not self.by_hand:
            return self.table(x, reverse=True)
        return keras.ops.matmul(x, keras.ops.transpose(self.table.embeddings))

    def get_config(self):
        return super().get_config() | {"by_hand": self.by_hand}


def tied(by_hand=True):
    """A model of one `Tied` layer, and a batch of letters for it."""
    keras.utils.set_random_seed(2)
    letters = keras.Input((12,), dtype="int32")
    model = keras.Model(letters, Tied(by_hand, name="tied")(letters), name="letters")
    return model, np.random.default_rng(0).integers(0, 30, (4, 12)).astype("int32")


def small():
    """An uncompiled model with every kind of layer that matters, and a batch for it."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, name="conv"),
            layers.BatchNormalization(name="norm"),
            layers.Flatten(),
            layers.Dense(32, activation="relu", name="wide"),
            layers.Dropout(0.5),
            layers.Dense(16, activation="relu", name="middle"),
            layers.Dense(3, name="logits"),
        ],
        name="small",
    )
    return model, np.random.default_rng(0).normal(size=(16, 8, 8, 1)).astype("float32")


class Scale(layers.Layer):
    """A layer that divides by what it once saw, which is no variable of it."""

    def __init__(self, **options):
        super().__init__(**options)
        self.largest = np.ones((), "float32")

    def adapt(self, x):
        self.largest = np.abs(x).max()

    def call(self, x):
        return x / self.largest


def adapted(again=False):
    """A model that starts with statistics, and data; or, made `again`, without them."""
    keras.utils.set_random_seed(7)
    norm, scale = layers.Normalization(name="norm"), Scale(name="scale")
    x = np.random.default_rng(0).normal(5, [1, 100, 0.01, 7], (16, 4)).astype("float32")
    model = keras.Sequential([keras.Input((4,)), norm, scale, layers.Dense(8), layers.Dense(3)])
    if not again:
        norm.adapt(x)
        scale.adapt(np.asarray(norm(x)))
    return model, x
