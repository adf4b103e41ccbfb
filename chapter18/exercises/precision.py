"""The exercises of section 6: a number bit by bit, and the first whole number that is missing."""

import ml_dtypes
import numpy as np

from chapter18.exercises._answers import Hint, checker, right, shown

NUMBER, EXPONENT_BITS, MANTISSA_BITS, BIAS = -10.375, 8, 7, 127  # in bfloat16
FORMATS = ("float16", "bfloat16", "float8_e4m3fn")


def _bits(*, sign, exponent, mantissa):
    widths = {"sign": 1, "exponent": EXPONENT_BITS, "mantissa": MANTISSA_BITS}
    for name, digits in zip(widths, (sign, exponent, mantissa), strict=True):
        _check_digits(name, digits, widths[name])
    pattern = np.array(int(sign + exponent + mantissa, 2), "uint16")
    said = float(pattern.view(ml_dtypes.bfloat16))
    if said == NUMBER:
        return right(
            f"These `16` bits are `{NUMBER}`, exactly.", f"این `16` بیت دقیقاً `{NUMBER}` است."
        )
    _say_which_part(exponent, mantissa)
    raise Hint(
        f"Your bits say `{said:.6g}`, not `{NUMBER}`.",
        f"بیت‌های شما `{said:.6g}` را می‌گویند، نه `{NUMBER}`.",
    )


def _check_digits(name, digits, width):
    if isinstance(digits, str) and len(digits) == width and set(digits) <= {"0", "1"}:
        return
    raise Hint(
        f"`{name}` is a text of `{width}` zeros and ones in bfloat16; received {shown(digits)}.",
        f"در bfloat16 بخش `{name}` رشته‌ای از `{width}` صفر و یک است؛ این رسید: {shown(digits)}.",
    )


def _say_which_part(exponent, mantissa):
    significand, power = np.frexp(abs(NUMBER))  # the significand is below 1
    stored = f"{int(2 * significand * 2**MANTISSA_BITS):b}"  # with the leading 1
    if int(exponent, 2) == power - 1:
        raise Hint(
            f"The power is `{power - 1}`, but it is not stored as it is: `{BIAS}` is added, so "
            "that negative powers need no sign.",
            f"توان `{power - 1}` است، ولی همین‌طور ذخیره نمی‌شود: `{BIAS}` به آن می‌افزایند تا "
            "توان‌های منفی علامت نخواهند.",
        )
    if mantissa == stored[:MANTISSA_BITS]:
        raise Hint(
            "The leading `1` of the significand is implied and not stored: the mantissa begins "
            "behind it.",
            "یکِ نخستِ ضریب، همان `1`، ضمنی است و ذخیره نمی‌شود: مانتیس از رقم پس از آن آغاز می‌شود.",
        )


def _whole(*, limits):
    if not isinstance(limits, dict) or set(limits) != set(FORMATS):
        raise Hint(
            f"Give a dict with a number for each of `{', '.join(FORMATS)}`; received "
            f"{shown(limits)}.",
            f"دیکشنری‌ای بدهید با یک عدد برای هر یک از `{', '.join(FORMATS)}`؛ این رسید: "
            f"{shown(limits)}.",
        )
    for name in FORMATS:
        _check_limit(name, limits[name])
    return right(
        "Up to there every whole number is itself, and the next one is missing. A counter, a sum "
        "or an index does not belong in such a format.",
        "تا آنجا هر عدد صحیح خودش است و عدد بعدی جا افتاده است. جای شمارنده و جمع و شمارهٔ ردیف "
        "در چنین قالبی نیست.",
    )


def _check_limit(name, limit):
    if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1:
        raise Hint(
            f"The limit of `{name}` is a positive whole number; received {shown(limit)}.",
            f"حد `{name}` عددی صحیح و مثبت است؛ این رسید: {shown(limit)}.",
        )
    missing = _first_missing(name)
    largest = int(ml_dtypes.finfo(name).max)
    if limit == largest:
        raise Hint(
            f"`{limit}` is the largest number of `{name}`, but long before it whole numbers are "
            f"missing: `{missing}` becomes `{_rounded(missing, name):g}`.",
            f"عدد `{limit}` بزرگ‌ترین عدد `{name}` است، ولی بسیار پیش از آن بعضی عددهای صحیح جا "
            f"افتاده‌اند: `{missing}` می‌شود `{_rounded(missing, name):g}`.",
        )
    if limit >= missing:
        raise Hint(
            f"Up to `{limit}` not every whole number is in `{name}`: `{missing}` becomes "
            f"`{_rounded(missing, name):g}`.",
            f"تا `{limit}` همهٔ عددهای صحیح در `{name}` نیستند: `{missing}` می‌شود "
            f"`{_rounded(missing, name):g}`.",
        )
    if 2 * limit == missing - 1:
        raise Hint(
            f"`{name}` goes twice as far as `{limit}`: the implied leading `1` is a bit too.",
            f"قالب `{name}` دو برابر `{limit}` پیش می‌رود: آن `1` ضمنی هم یک بیت است.",
        )
    if limit < missing - 1:
        raise Hint(
            f"In `{name}` the next whole number, `{limit + 1}`, is exact too. Go on.",
            f"در `{name}` عدد صحیح بعدی، `{limit + 1}`، هم دقیق است. پیش‌تر بروید.",
        )


def _first_missing(name):
    numbers = np.arange(1, 5000)
    return int(numbers[_rounded(numbers, name) != numbers][0])


def _rounded(numbers, name):
    return np.asarray(numbers, "float32").astype(name).astype("float32")


check = checker(bits=_bits, whole=_whole)
