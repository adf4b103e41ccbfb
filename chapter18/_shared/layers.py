"""The layers inside a layer, and which variables are its own: Keras' private name in one place."""

import keras


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
    found = {}
    for inner in inside(layer):
        if id(inner) not in found:
            found |= {id(inner): inner} | {id(each): each for each in nested(inner)}
    return list(found.values())


def every(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return `layer` itself and then every layer inside it, as `nested` does."""
    return [layer, *nested(layer)]


def own_variables(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Return the variables of `layer` that belong to none of the layers inside it."""
    return _without(layer.variables, [v for inner in inside(layer) for v in inner.variables])


def own_weights(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Return the weights of `layer`, without the states of random generators, that belong to none
    of the layers inside it."""
    return _without(layer.weights, [v for inner in inside(layer) for v in inner.weights])


def _without(variables, others):
    others = {id(variable) for variable in others}
    return [variable for variable in variables if id(variable) not in others]
