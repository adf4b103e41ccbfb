"""The exercises of section 7: a scale that saves the gradients, and policies layer by layer."""

from functools import cache

import keras
import numpy as np

from chapter18.exercises._answers import Hint, checker, right, shown

WANTED, CLASSES = 0.99, 10


@cache
def gradients():
    """Return 100,000 gradients, float32, none of them zero, as a training step might have them.

    They are simulated: most are too small for float16, and a few are large.
    """
    rng = np.random.default_rng(18)
    sizes = np.exp2(rng.normal(-26, 5, 100_000)).clip(max=0.25)
    return (sizes * rng.choice([-1, 1], sizes.shape)).astype("float32")


def _scale(*, scale):
    if not _is_number(scale) or not np.isfinite(scale) or scale <= 0:
        raise Hint(
            f"A loss scale is a positive number; received {shown(scale)}.",
            f"ضریب مقیاس زیان عددی مثبت است؛ این رسید: {shown(scale)}.",
        )
    with np.errstate(over="ignore"):
        scaled = (gradients() * np.float32(scale)).astype("float16")
    kept, lost = np.mean(scaled != 0), np.count_nonzero(np.isinf(scaled))
    if lost:
        raise Hint(
            f"`{lost}` gradients overflow to infinity, so the step would be skipped, and the next "
            "one too. Take a smaller scale.",
            f"از گرادیان‌ها `{lost}` تا سرریز و بی‌نهایت می‌شوند؛ پس این گام کنار گذاشته می‌شود و گام "
            "بعدی هم. ضریب مقیاس کوچک‌تری برگزینید.",
        )
    if kept < WANTED:
        lead = ("Without scaling", "بدون مقیاس‌بندی") if scale == 1 else ("So far", "تا اینجا")
        raise Hint(
            f"{lead[0]} `{kept:.1%}` of the gradients survive in float16; the others become zero. "
            f"You want `{WANTED:.0%}`.",
            f"{lead[1]} `{kept:.1%}` از گرادیان‌ها در float16 زنده می‌مانند و بقیه صفر می‌شوند. شما "
            f"`{WANTED:.0%}` می‌خواهید.",
        )
    return right(
        f"`{kept:.1%}` of the gradients survive, and none overflows.",
        f"از گرادیان‌ها `{kept:.1%}` زنده می‌مانند و هیچ‌کدام سرریز نمی‌شود.",
    )


def _is_number(value):
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _policies(*, build):
    if not callable(build) or isinstance(build, keras.Model):
        raise Hint(
            f"Pass the function that builds the model; received {shown(build)}.",
            f"تابعی را بدهید که مدل را می‌سازد؛ این رسید: {shown(build)}.",
        )
    before = keras.config.dtype_policy()
    try:
        layers = _layers(build())
    finally:
        keras.config.set_dtype_policy(before)
    *hidden, last = layers
    for layer in layers:
        if layer.variable_dtype != "float32":
            raise Hint(
                f"`{layer.name}` keeps its weights in `{layer.variable_dtype}`: small updates are "
                "rounded away. Mixed precision computes in 16 bits and keeps weights in `float32`.",
                f"لایهٔ `{layer.name}` وزن‌هایش را در `{layer.variable_dtype}` نگه می‌دارد: گرد کردن "
                "به‌روزرسانی‌های کوچک را از میان می‌برد. دقت مختلط با ۱۶ بیت حساب می‌کند و وزن‌ها را در "
                "`float32` نگه می‌دارد.",
            )
    if last.compute_dtype != "float32":
        raise Hint(
            f"The outputs of `{last.name}` are `{last.compute_dtype}`: the softmax and the loss "
            "are computed from rounded numbers. Give the last layer a policy of its own.",
            f"خروجی `{last.name}` از نوع `{last.compute_dtype}` است: softmax و زیان از عددهای "
            "گردشده حساب می‌شوند. به لایهٔ آخر سیاست خودش را بدهید.",
        )
    slow = [layer.name for layer in hidden if layer.compute_dtype == "float32"]
    if slow:
        raise Hint(
            f"In `{', '.join(slow)}` the arithmetic is still `float32`: safe, and nothing gained.",
            f"محاسبه در `{', '.join(slow)}` هنوز `float32` است: خطری ندارد و سودی هم ندارد.",
        )
    return right(
        "Weights and outputs are `float32`; what lies between computes in 16 bits.",
        "وزن‌ها و خروجی `float32` هستند و آنچه در میان است با ۱۶ بیت حساب می‌کند.",
    )


def _layers(model):
    if not isinstance(model, keras.Model) or not model.built:
        raise Hint(
            f"The function must return a built Keras model; it returned {shown(model)}.",
            f"تابع باید یک مدل ساخته‌شدهٔ Keras برگرداند؛ این را برگرداند: {shown(model)}.",
        )
    layers = [layer for layer in model.layers if layer.weights]
    if len(layers) < 2 or model.output_shape != (None, CLASSES):
        raise Hint(
            f"The model needs a hidden layer and `{CLASSES}` outputs, as the cell has it.",
            f"مدل یک لایهٔ پنهان و `{CLASSES}` خروجی می‌خواهد، همان‌طور که در سلول هست.",
        )
    return layers


check = checker(scale=_scale, policies=_policies)
