"""What a layer holds: the layers inside it, the variables that are its own, and learnt arrays.

Keras' private name for the layers inside a layer stands here alone.
"""

import jax
import keras
import numpy as np
from jaxtyping import Shaped


def inside(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return the layers that `layer` holds itself, in the order in which Keras holds them."""
    # Keras has no public way to the layers inside a layer that is no model. The private list was
    # seen in 3.15.1 and in 3.16.0.dev2026102704; a Keras without it is asked for its attributes.
    try:
        return list(layer._layers)
    except AttributeError:
        return held_by_attributes(layer)


def held_by_attributes(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return what `inside` does, by public means alone: the layers of a model, and otherwise what
    the attributes of `layer` hold, in lists, tuples and dicts too. Layers of inputs may lack.
    """
    if isinstance(layer, keras.Model):
        return list(layer.layers)
    leaves = [leaf for value in vars(layer).values() for leaf in keras.tree.flatten(value)]
    found = {id(leaf): leaf for leaf in leaves if isinstance(leaf, keras.layers.Layer)}
    return list(found.values())


def nested(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return every layer inside `layer`, at any depth, each before the layers inside it.

    A layer that is used twice is named once.
    """
    found: dict[int, keras.layers.Layer] = {}
    for inner in inside(layer):
        if id(inner) not in found:
            found |= {id(each): each for each in every(inner)}
    return list(found.values())


def every(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return `layer` itself and then every layer inside it, as `nested` does."""
    return [layer, *nested(layer)]


def own_variables(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Return the variables of `layer` that belong to none of the layers inside it."""
    return _own(layer, "variables")


def own_weights(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Return the weights of `layer`, without the states of random generators, that belong to none
    of the layers inside it."""
    return _own(layer, "weights")


def derived_state(model: keras.layers.Layer) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return what the layers of `model` have learnt that is no variable: arrays as attributes.

    An adapted `Normalization` keeps the mean and the variance that it computes with as such (seen
    in Keras 3.15.1 and 3.16.0.dev2026102704); layers of one's own may do the same. The keys are
    `"NUMBER/ATTRIBUTE"`, with the layer's place in `every`.
    """
    return {
        f"{number}/{name}": np.array(value)
        for number, layer in enumerate(every(model))
        for name, value in vars(layer).items()
        if isinstance(value, np.ndarray | np.generic | jax.Array)
        and not isinstance(value, jax.core.Tracer)
    }


def put_derived_back(
    model: keras.layers.Layer, state: dict[str, Shaped[np.ndarray, "..."]]
) -> None:
    """Give `model`, which has the same layers, the arrays that `derived_state` found."""
    layers = every(model)
    for key, value in state.items():
        number, name = key.split("/", 1)
        layer = layers[int(number)]
        keep = isinstance(vars(layer).get(name), np.ndarray | np.generic)
        setattr(layer, name, value if keep else jax.numpy.asarray(value))


def _own(layer, kind):
    others = {id(variable) for inner in inside(layer) for variable in getattr(inner, kind)}
    return [variable for variable in getattr(layer, kind) if id(variable) not in others]
