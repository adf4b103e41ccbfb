"""The exercises of section 8: absmax by hand, and all layers quantized but the one that hurts."""

import math

import keras
import numpy as np

from chapter18 import quantization
from chapter18.exercises._answers import Hint, checker, right, shown

ENOUGH = 25.0  # dB
LARGEST = np.iinfo("int8").max


def kernel():
    """Return a kernel `(inputs, outputs)`, float32, whose columns differ in size; one is zero."""
    rng = np.random.default_rng(18)
    sizes = np.array([4.0, 0.02, 1.0, 0.0, 0.3, 0.1])
    columns = rng.normal(size=(64, len(sizes))) * sizes
    columns[0] = -4 * sizes  # the largest magnitude is a negative number
    return columns.astype("float32")


def network():
    """Return a small model of four dense layers, one of which int8 hurts."""
    rng = np.random.default_rng(18)
    model = keras.Sequential([keras.Input((64,))], name="network")
    for name, units in {"first": 128, "second": 64, "third": 32, "last": 10}.items():
        model.add(keras.layers.Dense(units, "tanh" if units > 10 else None, name=name))
        kernel, bias = model.layers[-1].get_weights()
        kernel = rng.normal(size=kernel.shape) / np.sqrt(len(kernel))
        if name == "second":
            kernel[:, 0] = 1e-5  # a unit that is as good as silent …
        if name == "third":
            kernel[0] = 30.0  # … meets weights that share a scale with all others
        model.layers[-1].set_weights([kernel, bias])
    return model


def probe_batch():
    """Return a probe batch for `network`, float32 `(64, 64)`."""
    return np.random.default_rng(18).normal(size=(64, 64)).astype("float32")


def _by_hand(*, quantize):
    if not callable(quantize):
        raise Hint(
            f"Pass your function; received {shown(quantize)}.",
            f"تابع خودتان را بدهید؛ این رسید: {shown(quantize)}.",
        )
    x = kernel()
    with np.errstate(all="ignore"):
        values, scale = _two_arrays(quantize(x.copy()), x)
        _diagnose_scale(x, values, scale)
        _diagnose_values(x, values, scale)
    wanted = quantization.dequantize(quantization.absmax_quantize(x, axis=0))
    quality = quantization.sqnr(x, values * scale)
    if not np.allclose(values * scale, wanted, atol=1e-6):
        raise Hint(
            f"Your numbers come back with `{quality:.1f}` dB; absmax gives "
            f"`{quantization.sqnr(x, wanted):.1f}`.",
            f"عددهایتان با `{quality:.1f}` دسی‌بل برمی‌گردند؛ absmax به "
            f"`{quantization.sqnr(x, wanted):.1f}` می‌رسد.",
        )
    return right(
        f"Every column has a scale of its own, and the kernel comes back with `{quality:.1f}` dB.",
        f"هر ستون ضریب مقیاس خودش را دارد و کرنل با `{quality:.1f}` دسی‌بل برمی‌گردد.",
    )


def _two_arrays(made, x):
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise Hint(
            f"The function must return two things, values and scale; it returned {shown(made)}.",
            f"تابع باید دو چیز برگرداند، مقدارها و ضریب مقیاس؛ این را برگرداند: {shown(made)}.",
        )
    values, scale = map(np.asarray, made)
    if values.dtype != np.int8 or values.shape != x.shape:
        raise Hint(
            f"The values must be `int8` of shape `{x.shape}`; they are `{values.dtype}` of shape "
            f"`{values.shape}`.",
            f"مقدارها باید `int8` و به شکل `{x.shape}` باشند؛ این‌ها `{values.dtype}` به شکل "
            f"`{values.shape}` هستند.",
        )
    if np.array_equal(values, x.astype("int8")):
        raise Hint(
            "That is a cast: whatever lies between two whole numbers is gone. Divide by a scale "
            "first.",
            "این فقط تبدیل نوع است: هر چه میان دو عدد صحیح باشد از دست می‌رود. نخست بر ضریب مقیاس "
            "تقسیم کنید.",
        )
    return values, scale.astype("float32")


def _diagnose_scale(x, values, scale):
    if not np.isfinite(scale).all() or not scale.all():
        raise Hint(
            "One column is zero, and so is its scale: dividing by it is no number. A column of "
            "zeros may have any scale, for example `1`.",
            "یکی از ستون‌ها صفر است و ضریب مقیاسش هم: تقسیم بر آن عددی نمی‌دهد. ستون صفر هر ضریبی "
            "می‌تواند داشته باشد، مثلاً `1`.",
        )
    if scale.size == 1:
        worst = min(_column_sqnr(x, values * scale))
        raise Hint(
            f"One scale serves all columns, so the smallest column comes back with `{worst:.1f}` "
            "dB. Take the largest magnitude of each column.",
            f"یک ضریب مقیاس برای همهٔ ستون‌هاست؛ پس کوچک‌ترین ستون با `{worst:.1f}` دسی‌بل برمی‌گردد. "
            "بیشینهٔ قدر مطلق هر ستون را جدا بردارید.",
        )
    if scale.size == len(x):
        raise Hint(
            "You have a scale for each row, an input. It cannot be taken out of a sum over inputs; "
            "give each column one.",
            "برای هر سطر، یعنی هر ورودی، ضریبی دارید. آن را نمی‌شود از جمع روی ورودی‌ها بیرون کشید؛ "
            "به هر ستون یکی بدهید.",
        )


def _diagnose_values(x, values, scale):
    ratios = x / scale
    if np.abs(ratios).max() > LARGEST + 0.49:
        raise Hint(
            f"Some numbers divided by their scale are beyond `{LARGEST}`, and `int8` wraps them "
            "around. Take the largest magnitude, negative numbers included.",
            f"بعضی عددها پس از تقسیم بر ضریب از `{LARGEST}` فراتر می‌روند و در `int8` سرریز می‌کنند. "
            "بیشینهٔ قدر مطلق را بردارید؛ عددهای منفی هم به حساب می‌آیند.",
        )
    if np.array_equal(values, np.trunc(ratios)):
        raise Hint(
            "`astype` cuts towards zero, so every number gets smaller. Round to the nearest first.",
            "متد `astype` رو به صفر می‌بُرد و همهٔ عددها کوچک‌تر می‌شوند. نخست به نزدیک‌ترین عدد گرد "
            "کنید.",
        )


def _column_sqnr(x, approximation):
    return [
        quantization.sqnr(a, b)
        for a, b in zip(x.T, np.broadcast_to(approximation, x.shape).T, strict=True)
        if a.any()
    ]


def _filters(*, filters):
    model, probe = network(), probe_batch()
    try:
        report = quantization.quantize_copy(
            model, "int8", probe=probe, filters=filters, sqnr_floor=-math.inf
        ).report
    except (TypeError, ValueError) as error:
        raise Hint(
            "These filters are refused; the message says why.",
            "این فیلترها پذیرفته نمی‌شوند؛ پیام می‌گوید چرا.",
            error,
        ) from error
    done, rest = (report.layers[report.layers["quantized"] == yes] for yes in (True, False))
    numbers = f"`{report.sqnr:.1f}`", f"`{report.coverage:.0%}`"
    if report.sqnr < ENOUGH:
        raise _too_noisy(len(rest), numbers[0])
    if len(rest) > 1:
        raise Hint(
            f"{numbers[0]} dB are fine, but only {numbers[1]} of the parameters are quantized. "
            "More than one layer is left out, and only one of them hurts.",
            f"مقدار {numbers[0]} دسی‌بل خوب است، ولی فقط {numbers[1]} از پارامترها کوانتیزه شده‌اند. "
            "بیش از یک لایه کنار مانده و فقط یکی از آن‌ها آسیب می‌زند.",
        )
    return right(
        f"`{len(done)}` layers and {numbers[1]} of the parameters are in int8, and the outputs "
        f"keep {numbers[0]} dB.",
        f"تعداد `{len(done)}` لایه و {numbers[1]} از پارامترها در int8 هستند و خروجی‌ها "
        f"{numbers[0]} دسی‌بل نگه داشته‌اند.",
    )


def _too_noisy(left_out, decibels):
    if left_out:
        return Hint(
            f"{decibels} dB: the layer that hurts is still among those you quantize. Ask "
            "`sensitivity`, one layer at a time.",
            f"به {decibels} دسی‌بل رسیدید: لایه‌ای که آسیب می‌زند هنوز میان کوانتیزه‌هاست. "
            "لایه‌به‌لایه از `sensitivity` بپرسید.",
        )
    return Hint(
        f"Everything is quantized, and the outputs keep {decibels} dB. One layer alone does most "
        "of it: which?",
        f"همه‌چیز کوانتیزه شده و خروجی‌ها {decibels} دسی‌بل نگه داشته‌اند. بیشترِ آن کار یک لایه است: "
        "کدام؟",
    )


check = checker(by_hand=_by_hand, filters=_filters)
