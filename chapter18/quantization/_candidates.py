"""Which layers of a model Keras can quantize, which a filter names, and why the rest is skipped."""

import difflib
import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras

from chapter18._shared import layers
from chapter18.quantization import _copies

Rule = str | Callable[[keras.layers.Layer], bool]
Filters = Rule | Sequence[Rule] | None

# One of these is defined by a class that Keras can quantize, and not only inherited: up to 3.15
# `quantize`, from 3.16 on the private method, and for its own layers in both the public property.
_SUPPORT = ("quantize", "_quantization_geometry", "variable_serialization_spec")
# Up to 3.15, Model.quantize passes over a layer that holds another, as Dense(activation=PReLU()).
_HOLDERS_TOO = hasattr(keras.quantizers, "QuantizationReport")


class Candidate(NamedTuple):
    """A layer with parameters of its own: its place in `layers.every`, and why it is skipped.

    `obstacle` is empty when Keras can quantize the layer.
    """

    number: int
    layer: keras.layers.Layer
    path: str
    parameters: int
    obstacle: str


def candidates(model: keras.Model, mode: str) -> list[Candidate]:
    """Return a `Candidate` for each layer of `model` with parameters of its own, in their order.

    Raises ValueError when a layer is quantized already, and when none can be quantized to `mode`.
    """
    found = []
    for number, layer in enumerate(layers.every(model)):
        path = layer.path or layer.name
        if layer.quantization_mode is not None:
            raise ValueError(
                "A model is quantized once, from floating point. "
                f"Received: {model.name!r}, whose layer {path!r} is "
                f"{layer.dtype_policy.name!r} already. Quantize a copy of the float model."
            )
        own = layers.own_weights(layer)
        if own:
            size = sum(math.prod(weight.shape) for weight in own)
            found.append(Candidate(number, layer, path, size, _obstacle(layer, mode)))
    if all(each.obstacle for each in found):
        kinds = sorted({type(each.layer).__name__ for each in found})
        raise ValueError(
            "Keras (3.15 and 3.16) quantizes Dense, EinsumDense, Embedding, ReversibleEmbedding "
            "and what defines its own way, and none that only inherits it. "
            f"Received: {model.name!r}, whose parameters are in {kinds}. "
            "Keep this model in floating point."
        )
    return found


def choose(found: list[Candidate], filters: Filters = None) -> list[Candidate]:
    """Return those of the `candidates` that Keras can quantize, and that any of `filters` names.

    Raises ValueError when a filter names none of them, TypeError for what is no filter.
    """
    able = [each for each in found if not each.obstacle]
    if filters is None:
        return able
    rules = list(filters) if isinstance(filters, list | tuple) else [filters]
    for rule in rules:
        if not isinstance(rule, str) and not callable(rule):
            raise TypeError(
                "A filter is a regular expression, a list of them, or a callable. "
                f"Received: {rule!r}. Write for example 'block_1/' or "
                "lambda layer: layer.name != 'table'."
            )
    if not rules:
        raise _names_none(filters, able)
    named = {each.number for rule in rules for each in _named(rule, able)}
    return [each for each in able if each.number in named]


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


def _named(rule, able):
    try:
        found = [e for e in able if (rule(e.layer) if callable(rule) else re.search(rule, e.path))]
    except re.error as error:
        raise ValueError(
            "A filter is a valid regular expression. "
            f"Received: {rule!r}: {error}. Escape what is meant literally with re.escape."
        ) from error
    if not found:
        raise _names_none(rule, able)
    return found


def _names_none(rule, able):
    paths = [each.path for each in able]
    text = rule if isinstance(rule, str) else ""
    near = difflib.get_close_matches(text, paths, n=3, cutoff=0.0) if text else paths[:3]
    return ValueError(
        "A filter names at least one layer that can be quantized, by its path. "
        f"Received: {rule!r}, which names none. The nearest paths are {near}."
    )
