"""The exercises of section 5: a group of steps that is always full, and widths without idle "
"columns."""

import numpy as np

from chapter18.exercises._answers import Hint, checker, right, shown

ROWS, BATCH, IMAGE_BYTES, ROOM = 50_000, 16, 784 * 4, 2_000_000
HABIT, COLUMNS = (500, 200), 128


def _group(*, k):
    if not _is_count(k):
        raise Hint(
            f"`k` is a positive whole number of steps; received {shown(k)}.",
            f"آرگومان `k` تعداد گام‌هاست، عددی صحیح و مثبت؛ این رسید: {shown(k)}.",
        )
    k, steps = int(k), ROWS // BATCH
    if k == 1:
        raise Hint(
            "A group of `1` is plain `fit`: Python is still asked at every step.",
            "گروه `1` تایی همان `fit` ساده است: هنوز در هر گام از پایتون می‌پرسند.",
        )
    if steps % k:
        raise Hint(
            f"An epoch has `{steps}` steps. After `{steps // k}` full groups `{steps % k}` steps "
            "are left, and those run singly.",
            f"هر دوره `{steps}` گام دارد. پس از `{steps // k}` گروه کامل `{steps % k}` گام می‌ماند "
            "و آن‌ها تک‌تک اجرا می‌شوند.",
        )
    if _bytes(k) > ROOM:
        raise Hint(
            f"All groups are full, but one holds `{_bytes(k) / 1e6:.1f}` MB of images at once, "
            f"more than `{ROOM / 1e6:.1f}`.",
            f"همهٔ گروه‌ها پُرند، ولی یکی از آن‌ها هم‌زمان `{_bytes(k) / 1e6:.1f}` مگابایت تصویر نگه "
            f"می‌دارد، بیش از `{ROOM / 1e6:.1f}`.",
        )
    best = max(n for n in range(1, steps + 1) if steps % n == 0 and _bytes(n) <= ROOM)
    if k < best:
        raise Hint(
            f"With `{k}` no step runs singly and memory is kept, but a larger group does both too.",
            f"با `{k}` هیچ گامی تنها اجرا نمی‌شود و حافظه هم رعایت شده، ولی گروه بزرگ‌تری هم هر دو "
            "کار را می‌کند.",
        )
    return right(
        f"Python is asked `{steps // k}` times in an epoch instead of `{steps}` times, and no step "
        "runs singly.",
        f"در هر دوره به‌جای `{steps}` بار فقط `{steps // k}` بار از پایتون می‌پرسند و هیچ گامی تنها "
        "اجرا نمی‌شود.",
    )


def _bytes(k):
    return k * BATCH * IMAGE_BYTES


def _is_count(n):
    return isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0


def _widths(*, widths):
    given = list(widths) if isinstance(widths, list | tuple) else []
    if len(given) != 2 or not all(map(_is_count, given)):
        raise Hint(
            f"Give two widths, positive whole numbers; received {shown(widths)}.",
            f"دو پهنا بدهید، عددهایی درست و مثبت؛ این رسید: {shown(widths)}.",
        )
    for units, habit in zip(given, HABIT, strict=True):
        _check_width(int(units), habit)
    return right(
        "No column is idle in either layer, and no layer is wider than that needs.",
        "در هیچ‌کدام از دو لایه ستونی بیکار نیست و هیچ لایه‌ای پهن‌تر از نیاز نیست.",
    )


def _check_width(units, habit):
    grids = -(-units // COLUMNS)
    if units < habit:
        raise Hint(
            f"`{units}` units are fewer than the `{habit}` that the layer has. Round up, so that "
            "the model loses nothing.",
            f"عدد `{units}` از `{habit}` واحدی که لایه دارد کمتر است. رو به بالا گرد کنید تا مدل "
            "چیزی از دست ندهد.",
        )
    if units % COLUMNS:
        idle = 1 - units / (grids * COLUMNS)
        raise Hint(
            f"A layer of `{units}` units opens `{grids}` grids and leaves `{idle:.0%}` of their "
            "columns idle.",
            f"لایه‌ای با `{units}` واحد `{grids}` شبکه باز می‌کند و `{idle:.0%}` از ستون‌هایشان را "
            "بیکار می‌گذارد.",
        )
    if units - habit >= COLUMNS:
        raise Hint(
            f"`{units}` units leave no column idle, but a whole grid of them is more than "
            f"`{habit}` needs.",
            f"با `{units}` واحد ستونی بیکار نمی‌ماند، ولی یک شبکهٔ کامل از آن بیش از نیاز `{habit}` "
            "واحد است.",
        )


check = checker(group=_group, widths=_widths)
