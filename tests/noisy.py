"""A layer that draws random numbers in predictions too."""

import keras


class Noisy(keras.layers.Layer):
    """Monte Carlo dropout; Keras 3.15 refuses to trace one without a seed of its own."""

    def __init__(self):
        super().__init__()
        self.seed = keras.random.SeedGenerator(3)

    def call(self, x):
        return keras.random.dropout(x, 0.5, seed=self.seed)
