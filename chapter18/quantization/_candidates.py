"""Which layers of a model Keras can quantize, which a filter names, and why the rest is skipped."""

import difflib
import math
import re
from typing import NamedTuple

import keras

from chapter18._shared import layers
from chapter18.quantization import _copies

# One of these is defined by a class that Keras can quantize, and not only inherited: up to 3.15
# `quantize`, from 3.16 on the private method, and for its own layers in both the public property.
_SUPPORT = ("quantize", "_quantization_geometry", "variable_serialization_spec")
# Up to 3.15, Model.quantize passes over a layer that holds another, as Dense(activation=PReLU()).
_HOLDERS_TOO = hasattr(keras.quantizers, "QuantizationReport")


class Candidate(NamedTuple):
    """A layer with parameters of its own: where it stands among all, and why it is skipped.

    `obstacle` is empty when Keras can quantize the layer.
    """

    index: int
    layer: keras.layers.Layer
    path: str
    parameters: int
    obstacle: str


def candidates(model: keras.Model, mode: str) -> list[Candidate]:
    """Return a `Candidate` for each layer of `model` with parameters of its own, in their order.

    `mode` is the mode of quantization in question.
    """
    order = {id(weight): place for place, weight in enumerate(model.weights)}
    found = []
    for index, layer in enumerate(layers.every(model)):
        own = layers.own_weights(layer)
        if own:
            size = sum(math.prod(weight.shape) for weight in own)
            path, obstacle = layer.path or layer.name, _obstacle(layer, mode)
            each = Candidate(index, layer, path, size, obstacle)
            found.append((order[id(own[0])], each))
    return [each for _, each in sorted(found, key=lambda pair: pair[0])]


def choose(model, found, filters=None):
    """Return the `index` of every layer to quantize: those that Keras can, and `filters` names.

    `found` are the `candidates` of `model`.
    `filters` is a regular expression or a list of them, searched for in the layer's path
    (`model/block/dense`), or a callable from a layer to a bool; None names all.

    Raises ValueError when the model is quantized already, when it has nothing to quantize, and
    when a filter names no layer that can be quantized.
    """
    _check_float(model)
    able = [each for each in found if not each.obstacle]
    if not able:
        kinds = sorted({type(each.layer).__name__ for each in found})
        raise ValueError(
            "Keras (3.15 and 3.16) quantizes Dense, EinsumDense, Embedding, ReversibleEmbedding "
            "and what defines its own way, and none that only inherits it. "
            f"Received: {model.name!r}, whose parameters are in {kinds}. "
            "Keep this model in floating point."
        )
    if filters is None:
        return [each.index for each in able]
    if filters in ([], ()):
        raise _names_none(filters, able)
    named = {index for rule in _as_list(filters) for index in _named(rule, able)}
    return [each.index for each in able if each.index in named]


def _obstacle(layer, mode):
    kind = type(layer)
    owner = next(each for each in kind.__mro__ if any(name in vars(each) for name in _SUPPORT))
    supported = owner not in (keras.layers.Layer, keras.Model)
    if layers.inside(layer) and not (supported and _HOLDERS_TOO):
        return "holds other layers, and these parameters itself"
    if not supported:
        return f"Keras cannot quantize {kind.__name__}"
    if owner is not kind and _copies.is_from_keras(owner):
        return f"is a subclass of {owner.__name__}, which Keras leaves alone"
    spec = getattr(layer, "variable_serialization_spec", None)
    return "" if spec is None or mode in spec else f"Keras has no {mode} for {kind.__name__}"


def _check_float(model):
    for layer in layers.every(model):
        if layer.quantization_mode is not None:
            raise ValueError(
                "A model is quantized once, from floating point. "
                f"Received: {model.name!r}, whose layer {layer.path or layer.name!r} is "
                f"{layer.dtype_policy.name!r} already. Quantize a copy of the float model."
            )


def _as_list(filters):
    rules = list(filters) if isinstance(filters, list | tuple) else [filters]
    for rule in rules:
        if not isinstance(rule, str) and not callable(rule):
            raise TypeError(
                "A filter is a regular expression, a list of them, or a callable. "
                f"Received: {rule!r}. Write for example 'block_1/' or "
                "lambda layer: layer.name != 'table'."
            )
    return rules


def _named(rule, able):
    try:
        names = [each.index for each in able if _matches(rule, each)]
    except re.error as error:
        raise ValueError(
            "A filter is a valid regular expression. "
            f"Received: {rule!r}: {error}. Escape what is meant literally with re.escape."
        ) from error
    if names:
        return names
    raise _names_none(rule, able)


def _names_none(rule, able):
    paths = [each.path for each in able]
    text = rule if isinstance(rule, str) else ""
    near = difflib.get_close_matches(text, paths, n=3, cutoff=0.0) if text else paths[:3]
    return ValueError(
        "A filter names at least one layer that can be quantized, by its path. "
        f"Received: {rule!r}, which names none. The nearest paths are {near}."
    )


def _matches(rule, candidate):
    if callable(rule):
        return bool(rule(candidate.layer))
    return re.search(rule, candidate.path) is not None
