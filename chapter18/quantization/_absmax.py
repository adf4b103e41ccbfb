"""Absmax quantization by hand: int8 numbers and the scale that gives them back their meaning."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float32, Float64, Int8, Int32, Num

Array = np.ndarray | jax.Array

LARGEST = 127
# The most products of two int8 numbers, -128 included, whose sum always fits into int32.
MOST_TERMS = (2**31 - 1) // 128**2


class Quantized(NamedTuple):
    """A tensor in int8: `values * scale` is what it stands for.

    `values` int8, within -127 to 127, shaped as the tensor was. `scale` float32, the distance
    between two neighbouring numbers: shape `()` for one scale, else the shape of `values` with 1
    for every axis that shares its scale, so that it broadcasts.
    """

    values: Int8[np.ndarray, "..."]
    scale: Float32[np.ndarray, "..."]


def absmax_quantize(x: Num[Array, "..."], axis: int | tuple[int, ...] | None = None) -> Quantized:
    """Return `x` as a `Quantized`: its largest magnitude becomes 127, zero stays zero.

    `axis` is the axis, or the tuple of axes, over which the largest magnitude is taken, as in
    NumPy's `max`: these share a scale. None gives one scale for the whole tensor; for a kernel
    `(inputs, outputs)`, `axis=0` gives one per output channel; for a batch `(samples, features)`,
    `axis=1` gives one per sample. Computed in float32, ties rounded to even. A slice of zeros has
    scale 1, and comes back as zeros.

    Raises ValueError when `x` is empty or holds a number that is not finite in float32.
    """
    x = np.asarray(x)
    if x.size == 0:
        raise ValueError(
            "A scale is taken from at least one number. "
            f"Received: an empty array, shape {x.shape}. Pass an array with numbers in it."
        )
    with np.errstate(over="ignore"):
        x = x.astype("float32")
    _check_finite(x, "x")
    largest = np.max(np.abs(x), axis=axis, keepdims=axis is not None)
    step = np.asarray(largest / np.float32(LARGEST))
    scale = np.where(step > 0, step, np.float32(1))
    # Among the smallest floats the step itself is rounded so coarsely that 127 can be passed.
    values = np.clip(np.rint(x / scale), -LARGEST, LARGEST)
    return Quantized(values.astype("int8"), scale)


def dequantize(quantized: Quantized) -> Float32[np.ndarray, "..."]:
    """Return the float32 tensor that a `Quantized` stands for; each number is off by at most half
    its scale."""
    return quantized.values.astype("float32") * quantized.scale


def int8_matmul(
    a: Int8[Array, "rows terms"] | Quantized, b: Int8[Array, "terms columns"] | Quantized
) -> Int32[np.ndarray, "rows columns"] | Float32[np.ndarray, "rows columns"]:
    """Return the matrix product of `a` `(rows, terms)` and `b` `(terms, columns)`.

    Both are int8 arrays: then the product is int32 and exact. Or both are `Quantized`, with one
    scale per row of `a` and per column of `b` at the finest: then the exact product is rescaled,
    and float32. Sums are accumulated in int32, where an int8 accumulator would wrap around after
    the first few terms.

    Raises TypeError for anything else, ValueError when the shapes do not fit, when a scale varies
    along the terms, so that no factor can be taken out of the sum, and when there are more than
    131,071 terms, where int32 could overflow.
    """
    if isinstance(a, Quantized) and isinstance(b, Quantized):
        product = int8_matmul(a.values, b.values)
        rows, columns = _outer_scales(a, b)
        return (product * rows * columns).astype("float32")
    _check_factors(a, b)
    a, b = jnp.asarray(a), jnp.asarray(b)
    return np.asarray(jnp.matmul(a, b, preferred_element_type=jnp.int32))


def matmul_error_bound(a: Quantized, b: Quantized) -> Float64[np.ndarray, "rows columns"]:
    """Return the most by which `int8_matmul` of two `Quantized` can miss the product in float.

    An array `(rows, columns)`, float64. Each number is off by at most half a scale, so an entry
    misses by at most scale × scale / 2 × (sum of |a| + sum of |b| + terms / 2), with the int8
    magnitudes summed over the terms. Rounding in the float product itself comes on top.
    """
    rows, columns = _outer_scales(a, b)
    sum_a = np.abs(a.values.astype("float64")).sum(1, keepdims=True)
    sum_b = np.abs(b.values.astype("float64")).sum(0, keepdims=True)
    return rows * columns / 2 * (sum_a + sum_b + a.values.shape[1] / 2)


def sqnr(reference: Num[Array, "..."], approximation: Num[Array, "..."]) -> float:
    """Return the signal-to-quantization-noise ratio in dB: ten times the decimal logarithm of
    the power of `reference` over the power of the difference. Equal arrays give infinity.

    0 dB means that the error is as large as the signal; 6 dB more is about one bit more.

    Raises ValueError when the shapes differ, when there are no numbers, or one is not finite.
    """
    reference, approximation = (np.asarray(x, "float64") for x in (reference, approximation))
    if reference.shape != approximation.shape:
        raise ValueError(
            "An approximation has the shape of its reference. "
            f"Received: {approximation.shape} for {reference.shape}. Compare the same outputs."
        )
    if reference.size == 0:
        raise ValueError(
            "A loss is measured on at least one number. "
            f"Received: arrays of shape {reference.shape}. Pass outputs for a batch with samples."
        )
    _check_finite(reference, "reference")
    _check_finite(approximation, "approximation")
    signal, noise = np.square(reference).sum(), np.square(reference - approximation).sum()
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def _check_finite(x, name):
    bad = x.size - np.count_nonzero(np.isfinite(x))
    if bad:
        raise ValueError(
            "Only finite numbers can be scaled and compared. "
            f"Received: {name} with {bad} of {x.size} NaN or infinite. "
            "Find the layer or the step that made them first."
        )


def _check_factors(a, b):
    given = [str(getattr(x, "dtype", type(x).__name__)) for x in (a, b)]
    if given != ["int8", "int8"] or not all(isinstance(x, Array) for x in (a, b)):
        raise TypeError(
            "An int8 product takes two int8 arrays or two Quantized. "
            f"Received: {given[0]} and {given[1]}. Pass floats through absmax_quantize first."
        )
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(
            "A matrix product takes (rows, terms) and (terms, columns). "
            f"Received: {a.shape} and {b.shape}. Reshape or transpose one of them."
        )
    if a.shape[1] > MOST_TERMS:
        raise ValueError(
            f"A sum of up to {MOST_TERMS:,} products of int8 fits into int32. "
            f"Received: {a.shape[1]:,} terms. Split them, and add the parts in float."
        )


def _outer_scales(a, b):
    """The scales of the rows of `a` and of the columns of `b`, in float64."""
    for name, quantized, terms in (("a", a, 1), ("b", b, 0)):
        scale = np.asarray(quantized.scale, "float64")
        if scale.ndim and scale.shape[terms] != 1:
            raise ValueError(
                "A scale that varies along the terms of a sum cannot be taken out of it. "
                f"Received: scales of shape {scale.shape} for values {quantized.values.shape}. "
                f"Quantize with absmax_quantize({name}, axis={terms}) or axis=None."
            )
        yield scale
