"""Small models that a mesh of 2 × 4 can split, with a batch for each."""

import keras
import numpy as np


def mlp():
    return keras.Sequential(
        [
            keras.layers.Dense(32, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(8),
        ]
    )


@keras.saving.register_keras_serializable("tests")
class Block(keras.Model):
    """An embedding, attention and a feed-forward pair, then a layer without a partner."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = keras.layers.Embedding(16, 8)
        self.attention = keras.layers.MultiHeadAttention(num_heads=4, key_dim=4)
        self.norm = keras.layers.LayerNormalization()
        self.wide = keras.layers.Dense(32, activation="relu")
        self.narrow = keras.layers.Dense(8)
        self.head = keras.layers.Dense(10)

    def call(self, tokens):
        x = self.embedding(tokens)
        x = self.norm(x + self.attention(x, x))
        return self.head(x + self.narrow(self.wide(x)))


def batch(build, rows=16):
    """Return inputs and targets, `(rows, …)`, for one of this module's models."""
    rng = np.random.default_rng(0)
    if build is Block:
        return rng.integers(0, 16, (rows, 4)), rng.normal(size=(rows, 4, 10)).astype("float32")
    x = rng.normal(size=(rows, 16)).astype("float32")
    return x, rng.normal(size=(rows, 8)).astype("float32")


MODELS = {"mlp": mlp, "block": Block}
