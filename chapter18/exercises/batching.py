"""The exercises of section 3: where the last batch crashes, and a plan for eight devices."""

import numpy as np

from chapter18.batching import plan_batches
from chapter18.exercises._answers import Hint, checker, right, shown

TEST_ROWS, TEST_BATCH, CANDIDATES = 10_000, 240, range(2, 17)
ROWS, BATCH, RATE, DEVICES = 50_003, 64, 0.05, 8


def _crashing(*, devices):
    given = _device_numbers(devices)
    plans = _plans()
    _check_listed(given, plans)
    missing = {n for n, plan in plans.items() if plan and plan.remainder % n} - given
    if missing:
        found = f"`{len(given)}`", f"`{len(given | missing)}`"
        raise Hint(
            f"What you list crashes, but there is more: you have {found[0]} of {found[1]}. Let a "
            "loop ask `plan_batches` about every number.",
            f"آنچه نوشته‌اید از کار می‌افتد، ولی باز هم هست: {found[0]} تا از {found[1]} تا را "
            "دارید. بگذارید یک حلقه دربارهٔ همهٔ عددها از `plan_batches` بپرسد.",
        )
    rest = f"`{plans[2].remainder}`"
    return right(
        f"The last batch has {rest} rows, and these devices cannot share them. Now try other "
        "batch sizes: the list hardly changes. Where a full batch splits, only the number of rows "
        "decides.",
        f"دستهٔ آخر {rest} ردیف دارد و این تعداد دستگاه نمی‌توانند آن را میان خود تقسیم کنند. حالا "
        "اندازه‌های دیگری برای دسته امتحان کنید: فهرست تقریباً عوض نمی‌شود. جایی که دستهٔ کامل تقسیم "
        "می‌شود، فقط تعداد ردیف‌ها تعیین‌کننده است.",
    )


def _device_numbers(devices):
    given = list(devices) if isinstance(devices, list | tuple | set | range) else [None]
    if not all(_is_count(n) and n in CANDIDATES for n in given):
        raise Hint(
            f"Give a list of numbers from `2` to `16`; received {shown(devices)}.",
            f"فهرستی از عددهای `2` تا `16` بدهید؛ این رسید: {shown(devices)}.",
        )
    if not given:
        raise Hint(
            "The list is empty, but some numbers do crash. Ask `plan_batches`.",
            "فهرست خالی است، ولی بعضی عددها از کار می‌افتند. از `plan_batches` بپرسید.",
        )
    return {int(n) for n in given}


def _is_count(n):
    return isinstance(n, int | np.integer) and not isinstance(n, bool)


def _plans():
    """Return `{devices: BatchPlan}`; None where not even a full batch can be split."""
    plans = {}
    for n in CANDIDATES:
        try:
            plans[n] = plan_batches(TEST_ROWS, TEST_BATCH, n)
        except ValueError:
            plans[n] = None
    return plans


def _check_listed(given, plans):
    for n in sorted(given):
        if plans[n] is None:
            raise Hint(
                f"With `{n}` devices not even a full batch splits: `plan_batches` refuses it, and "
                "evaluation fails at its first step. We look for what goes well "
                "until the last one.",
                f"با `{n}` دستگاه حتی دستهٔ کامل هم تقسیم نمی‌شود: `plan_batches` آن را رد می‌کند و "
                "ارزیابی در همان گام نخست از کار می‌افتد. ما دنبال چیزی هستیم که "
                "تا دستهٔ آخر خوب پیش می‌رود.",
            )
        if plans[n].remainder % n == 0:
            each = f"`{plans[n].remainder // n}`"
            raise Hint(
                f"`{n}` devices do not crash: the last batch is short, but it splits, {each} rows "
                "for each of them.",
                f"با `{n}` دستگاه چیزی از کار نمی‌افتد: دستهٔ آخر کوتاه است ولی تقسیم می‌شود و به هر "
                f"کدام {each} ردیف می‌رسد.",
            )


def _eight(*, batch_size, learning_rate, rows):
    _check_batch(batch_size)
    _check_rate(learning_rate, batch_size)
    _check_rows(rows, batch_size)
    plan = plan_batches(rows, batch_size, DEVICES)
    return right(
        f"Each device still takes `{plan.per_replica}` rows a step, and an epoch loses only "
        f"`{ROWS - rows}` rows.",
        f"هر دستگاه در هر گام همان `{plan.per_replica}` ردیف را برمی‌دارد و هر دوره فقط "
        f"`{ROWS - rows}` ردیف از دست می‌دهد.",
    )


def _check_batch(batch_size):
    try:
        plan = plan_batches(ROWS, batch_size, DEVICES)
    except ValueError:
        raise Hint(
            f"The global batch size must be a positive multiple of `{DEVICES}`, the number of "
            f"devices; received {shown(batch_size)}.",
            f"اندازهٔ دستهٔ سراسری باید مضربی مثبت از `{DEVICES}`، یعنی تعداد دستگاه‌ها، باشد؛ این "
            f"رسید: {shown(batch_size)}.",
        ) from None
    if plan.per_replica != BATCH:
        raise Hint(
            f"With this global batch size each device gets `{plan.per_replica}` rows a step, "
            f"not `{BATCH}`. `batch_size` counts the rows of all devices together.",
            f"با این اندازهٔ دستهٔ سراسری به هر دستگاه در هر گام `{plan.per_replica}` ردیف می‌رسد، نه "
            f"`{BATCH}`. آرگومان `batch_size` ردیف‌های همهٔ دستگاه‌ها را با هم می‌شمارد.",
        )


def _check_rate(learning_rate, batch_size):
    times = batch_size // BATCH
    is_number = isinstance(learning_rate, int | float | np.number)
    if is_number and np.isclose(learning_rate, RATE * times):
        return
    if is_number and np.isclose(learning_rate, RATE):
        raise Hint(
            f"The batch has grown `{times}` times and the learning rate has not: an epoch takes "
            f"`{times}` times fewer steps, each as small as before.",
            f"دسته `{times}` برابر شده و نرخ یادگیری نه: گام‌های یک دوره `{times}` برابر کمتر "
            "شده‌اند و هر گام به همان کوچکی است.",
        )
    raise Hint(
        "By the linear scaling rule, a batch that is `k` times larger gets a learning rate that "
        f"is `k` times larger; received {shown(learning_rate)}.",
        "طبق قاعدهٔ مقیاس‌بندی خطی، دسته‌ای که `k` برابر شود نرخ یادگیری `k` برابر می‌گیرد؛ این "
        f"رسید: {shown(learning_rate)}.",
    )


def _check_rows(rows, batch_size):
    if not _is_count(rows) or not 0 < rows <= ROWS:
        raise Hint(
            f"Give the number of rows to train with, at most `{ROWS}`; received {shown(rows)}.",
            f"تعداد ردیف‌های آموزش را بدهید، دست بالا `{ROWS}`؛ این رسید: {shown(rows)}.",
        )
    plan = plan_batches(rows, batch_size, DEVICES)
    if plan.remainder % DEVICES:
        raise Hint(
            f"The last batch of `{plan.remainder}` rows does not split over `{DEVICES}` devices: "
            "`fit` crashes at the end of its first epoch.",
            f"دستهٔ آخر با `{plan.remainder}` ردیف میان `{DEVICES}` دستگاه تقسیم نمی‌شود: متد `fit` "
            "در پایان نخستین دوره از کار می‌افتد.",
        )
    if ROWS - rows >= DEVICES:
        raise Hint(
            f"You leave out `{ROWS - rows}` rows. A short last batch is allowed, if it splits: "
            f"fewer than `{DEVICES}` rows need to go.",
            f"شما `{ROWS - rows}` ردیف را کنار می‌گذارید. دستهٔ آخر می‌تواند کوتاه باشد، به شرط آنکه "
            f"تقسیم شود: کمتر از `{DEVICES}` ردیف باید برود.",
        )


check = checker(crashing=_crashing, eight=_eight)
