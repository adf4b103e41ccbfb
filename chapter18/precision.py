"""Floating-point formats taken apart: limits, bits, spacing. And Keras' dtype policy, for a while.

    precision.bits(3.14159, "bfloat16")       # sign, exponent, mantissa
    with precision.policy("bfloat16"):
        model = build()

A finite number is sign × significand × 2 ** power (IEEE 754; float8 as in arXiv:2209.05433).
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Num, Shaped

if TYPE_CHECKING:
    import keras

FORMATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16", "float16", "bfloat16")
_INFO = {name: ml_dtypes.finfo(name) for name in FORMATS}
Numbers: TypeAlias = float | Num[np.ndarray, "..."]


class Bits(NamedTuple):
    """A number's bits as text, and what they say; arrays of both when made from an array.

    `kind` is zero, subnormal, normal, infinity or nan. A significand is 1 or more, below 2, for a
    normal number and below 1 for a subnormal one; infinity and nan have themselves as significand.
    """

    sign: str | Shaped[np.ndarray, "..."]
    exponent: str | Shaped[np.ndarray, "..."]
    mantissa: str | Shaped[np.ndarray, "..."]
    kind: str | Shaped[np.ndarray, "..."]
    power: int | Int[np.ndarray, "..."]
    significand: float | Float[np.ndarray, "..."]

    def value(self) -> float | Float[np.ndarray, "..."]:
        """Return sign × significand × 2 ** power: a float, or a float64 array; always exact."""
        signs = np.where(np.asarray(self.sign) == "1", -1.0, 1.0)
        return _plain(np.copysign(np.ldexp(self.significand, self.power), signs))

    def __str__(self):
        return f"{self.sign} {self.exponent} {self.mantissa}"


def formats() -> pd.DataFrame:
    """Return a DataFrame with the sizes and the limits of each format, as `ml_dtypes` gives them.

    Counts of bits are integers and limits floats, all exact. `eps` is the step from 1 to the next
    number; `mantissa` counts the stored bits, without the leading 1 that is implied.
    """
    columns = {
        "bits": [info.bits for info in _INFO.values()],
        "exponent": [info.nexp for info in _INFO.values()],
        "mantissa": [info.nmant for info in _INFO.values()],
        "eps": [float(info.eps) for info in _INFO.values()],
        "max": [float(info.max) for info in _INFO.values()],
        "smallest normal": [float(info.smallest_normal) for info in _INFO.values()],
        "smallest subnormal": [float(info.smallest_subnormal) for info in _INFO.values()],
    }
    return pd.DataFrame(columns, index=pd.Index(FORMATS, name="format"))


def bits(value: Numbers, dtype: str) -> Bits:
    """Round `value`, a number or an array of any shape, to `dtype`; return its `Bits`.

    The rounding is that of `ml_dtypes` (to nearest, ties to even; from float64 to a format of 16
    bits or fewer, other than float16, by way of float32). A value that already has the dtype keeps
    its pattern, nan's too. Raises ValueError for a dtype not in `FORMATS`, TypeError for a value
    that is not made of real numbers.
    """
    info = _info(dtype)
    parts = _taken_apart(_rounded(value, info), info)
    fields = (
        _digits(parts.signs, 1),
        _digits(parts.exponents, info.nexp),
        _digits(parts.mantissas, info.nmant),
        _kinds(parts),
        _powers(parts, info),
        _significands(parts, info),
    )
    return Bits(*(_plain(field) for field in fields))


def spacing(value: Numbers, dtype: str) -> float | Float[np.ndarray, "..."]:
    """Return the distance from `value`, rounded to `dtype`, to the next number away from zero.

    A float, or a float64 array of the shape of `value`. At the format's largest number it is the
    distance to the one before, and nan where `value` is nan or beyond the range. Raises as `bits`.
    """
    info = _info(dtype)
    parts = _taken_apart(_rounded(value, info), info)
    steps = np.ldexp(1.0, _powers(parts, info) - info.nmant)
    return _plain(np.where(np.isfinite(parts.numbers), steps, np.nan))


def every_number(dtype: str) -> Float[np.ndarray, " numbers"]:
    """Return all finite numbers of a format of at most 16 bits, as sorted float64, `(numbers,)`.

    The two zeros count once. Raises ValueError for a larger format and for one not in `FORMATS`.
    """
    info = _info(dtype)
    if info.bits > 16:
        raise ValueError(
            "The numbers are listed of formats of at most 16 bits. "
            f"Received: {info.dtype}, with {info.bits}. Ask for its `spacing` instead."
        )
    patterns = np.arange(2**info.bits).astype(f"u{info.bits // 8}")
    numbers = _taken_apart(patterns.view(info.dtype), info).numbers
    return np.unique(numbers[np.isfinite(numbers)])


@contextlib.contextmanager
def policy(name: "str | keras.DTypePolicy") -> Iterator["keras.DTypePolicy"]:
    """Set Keras' global dtype policy within a `with` block, and put back the old one in any case.

    `name` is that of a floating-point policy of Keras, such as those in `POLICIES`, or a
    `keras.DTypePolicy`. Layers made in the block keep the policy they were made with; layers made
    before do not change. Raises ValueError for another name.
    """
    import keras

    wanted = _policy(name)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(wanted)
    try:
        yield keras.config.dtype_policy()
    finally:
        keras.config.set_dtype_policy(before)


def _policy(name):
    import keras

    try:
        # Keras would take None for the policy of the moment.
        taken = isinstance(name, str | keras.DTypePolicy)
        found = keras.dtype_policies.get(name) if taken else None
    except (TypeError, ValueError):
        found = None
    # Keras 3.15 lets a quantized policy be the global one, 3.16 does not.
    if (
        found is None
        or found.quantization_mode is not None
        or not keras.backend.is_float_dtype(found.compute_dtype)
    ):
        raise ValueError(
            "A dtype policy is a floating-point policy that Keras knows by name, or a "
            f"keras.DTypePolicy. Received: {name!r}. Names are for example {list(POLICIES)}."
        )
    return found


class _Parts(NamedTuple):
    """The three fields as unsigned integers, and the numbers themselves as float64."""

    signs: np.ndarray
    exponents: np.ndarray
    mantissas: np.ndarray
    numbers: np.ndarray


def _info(dtype):
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None)
    name = name or getattr(dtype, "__name__", None)
    if name not in _INFO:
        raise ValueError(
            "A floating-point format is one of those that can be taken apart here. "
            f"Received: {dtype!r}. The formats are {list(FORMATS)}."
        )
    return _INFO[name]


def _rounded(value, info):
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" and array.dtype.name not in _INFO:
        raise TypeError(
            "Bits are taken from real numbers. "
            f"Received: {type(value).__name__} with the dtype {array.dtype}. "
            "Pass a number or an array of numbers."
        )
    # Out of range is an answer here, infinity or nan, and nothing to warn of.
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(info.dtype)


def _taken_apart(rounded, info):
    patterns = np.asarray(rounded).view(f"u{info.bits // 8}").astype(np.uint64)
    exponents = (patterns >> np.uint64(info.nmant)) & np.uint64(2**info.nexp - 1)
    mantissas = patterns & np.uint64(2**info.nmant - 1)
    # NumPy warns of nan patterns with a quiet bit of zero.
    with np.errstate(invalid="ignore"):
        numbers = rounded.astype(np.float64)
    return _Parts(patterns >> np.uint64(info.bits - 1), exponents, mantissas, numbers)


def _digits(numbers, width):
    shifts = np.arange(width)[::-1].astype(np.uint64)
    ones = (np.asarray(numbers)[..., None] >> shifts) & np.uint64(1)
    code_points = (ones + np.uint64(ord("0"))).astype(np.uint32)
    return code_points.view(f"U{width}")[..., 0]


def _kinds(parts):
    numbers = parts.numbers
    conditions = [np.isnan(numbers), np.isinf(numbers), numbers == 0, parts.exponents == 0]
    return np.select(conditions, ["nan", "infinity", "zero", "subnormal"], "normal")


def _powers(parts, info):
    # An exponent of zero means the same power as one, without the leading 1.
    powers = np.maximum(parts.exponents, 1).astype(np.int64) + (int(info.minexp) - 1)
    return np.where(np.isfinite(parts.numbers), powers, 0)


def _significands(parts, info):
    leading = parts.exponents > 0
    significands = leading + parts.mantissas.astype(np.float64) / 2.0**info.nmant
    special = np.where(np.isnan(parts.numbers), np.nan, np.inf)
    return np.where(np.isfinite(parts.numbers), significands, special)


def _plain(array):
    array = np.asarray(array)
    return array if array.ndim else array.item()
