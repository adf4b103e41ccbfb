"""What a layer has learnt that is no variable: arrays among its attributes, read and put back.

An adapted `Normalization` keeps the mean and the variance that it computes with as such (seen in
Keras 3.15.1 and 3.16.0.dev2026102704); layers of one's own may do the same with their statistics.
"""

import jax
import keras
import numpy as np

from chapter18._shared import layers


def read(model: keras.layers.Layer) -> dict[str, np.ndarray]:
    """Return the arrays that `model` and the layers inside it hold as attributes.

    The keys are `"NUMBER/ATTRIBUTE"`, with the layer's place in `layers.every`; variables are not
    among them.
    """
    return {
        f"{number}/{name}": np.array(value)
        for number, layer in enumerate(layers.every(model))
        for name, value in vars(layer).items()
        if _is_array(value)
    }


def put_back(model: keras.layers.Layer, state: dict[str, np.ndarray]) -> None:
    """Give `model`, which has the same layers, the arrays that `read` found."""
    every = layers.every(model)
    for key, value in state.items():
        number, name = key.split("/", 1)
        layer = every[int(number)]
        keep = isinstance(vars(layer).get(name), np.ndarray | np.generic)
        setattr(layer, name, value if keep else jax.numpy.asarray(value))


def _is_array(value):
    if isinstance(value, jax.core.Tracer):
        return False
    return isinstance(value, np.ndarray | np.generic | jax.Array)
