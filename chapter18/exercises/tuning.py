"""The exercises of section 1: a search space with a condition, an objective with a direction."""

import keras
import keras_tuner as kt
import numpy as np

from chapter18.exercises._answers import Hint, checker, right, shown
from chapter18.tuning import _tuner

LOWEST, HIGHEST = 1e-4, 1e-1
NAMES = ("optimizer", "learning_rate", "momentum")


def _space(*, space):
    asked = {p.name: p for p in _ask(space).space}
    for name in NAMES[:2]:
        if name not in asked:
            raise Hint(
                f"Nothing is asked for under the name `{name}`; found `{', '.join(asked)}`.",
                f"چیزی با نام `{name}` پرسیده نشده است؛ این‌ها پیدا شد: `{', '.join(asked)}`.",
            )
    _check_choice(asked["optimizer"])
    _check_learning_rate(asked["learning_rate"])
    _check_momentum(space, asked)
    _check_used(space)
    return right(
        "The tuner tries each decade of the learning rate, and asks about `momentum` only where "
        "somebody reads it.",
        "تیونر همهٔ دهه‌های نرخ یادگیری را می‌آزماید و `momentum` را فقط جایی می‌پرسد که کسی آن را "
        "می‌خواند.",
    )


def _ask(space, **values):
    """Return the `kt.HyperParameters` that `space` was asked with; `values` answer beforehand."""
    return _run(space, **values)[0]


def _run(space, **values):
    if not callable(space):
        raise Hint(
            f"A search space is a function of `hp`; received {shown(space)}.",
            f"فضای جستجو تابعی از `hp` است؛ این رسید: {shown(space)}.",
        )
    hp = kt.HyperParameters()
    hp.values |= values
    try:
        made = space(hp)
    except Exception as error:
        raise _ends_with(error, hp) from error
    if not isinstance(made, keras.optimizers.Optimizer):
        raise Hint(
            f"The function must return a Keras optimizer; it returned {shown(made)}.",
            f"تابع باید یک بهینه‌ساز Keras برگرداند؛ این را برگرداند: {shown(made)}.",
        )
    return hp, made


def _ends_with(error, hp):
    chosen = f"`optimizer={hp.values.get('optimizer')!r}`"
    english = f"With {chosen} your function ends with the error below."
    persian = f"با {chosen} تابع شما با خطای زیر تمام می‌شود."
    if any(p.name == "momentum" and not hp.is_active(p) for p in hp.space):
        english += (
            " Where its condition does not hold, a request answers `None`: look at the condition, "
            "and use the answer behind a plain `if`."
        )
        persian += (
            " جایی که شرط برقرار نباشد، پاسخ `None` است: به شرط نگاه کنید و پاسخ را پشت یک `if` "
            "ساده به کار ببرید."
        )
    return Hint(english, persian, error)


def _check_choice(parameter):
    if set(getattr(parameter, "values", ())) != {"adam", "sgd"}:
        raise Hint(
            'Ask for `optimizer` with `hp.Choice`, between `"adam"` and `"sgd"`.',
            'نام `optimizer` را با `hp.Choice` بپرسید، میان `"adam"` و `"sgd"`.',
        )


def _check_learning_rate(parameter):
    ends = getattr(parameter, "min_value", None), getattr(parameter, "max_value", None)
    if not isinstance(parameter, kt.engine.hyperparameters.Float) or ends != (LOWEST, HIGHEST):
        raise Hint(
            "Ask for `learning_rate` with `hp.Float`, from `1e-4` to `1e-1`.",
            "نام `learning_rate` را با `hp.Float` بپرسید، از `1e-4` تا `1e-1`.",
        )
    if parameter.sampling != "log":
        draws = np.array([parameter.random_sample(seed) for seed in range(1000)])
        share = f"`{np.mean(draws > HIGHEST / 10):.0%}`"
        raise Hint(
            f"Of a thousand learning rates drawn from your space, {share} lie in the highest "
            "decade. The small ones are hardly ever tried: which scale gives each decade its part?",
            f"از هزار نرخ یادگیری که از فضای شما برداشتیم، {share} در بالاترین دهه است. نرخ‌های "
            "کوچک تقریباً هیچ‌گاه آزموده نمی‌شوند: کدام مقیاس به هر دهه سهمش را می‌دهد؟",
        )


def _check_momentum(space, asked):
    with_sgd = _ask(space, optimizer="sgd")
    if "momentum" not in asked and any(p.name == "momentum" for p in with_sgd.space):
        raise Hint(
            "`momentum` is asked for behind a plain `if`. A tuner discovers the space by calling "
            "your function once, so ask inside `hp.conditional_scope`, and put the `if` in there.",
            "نام `momentum` پشت یک `if` ساده پرسیده شده است. تیونر با یک بار صدا زدن تابع شما فضا "
            "را کشف می‌کند؛ پس آن را درون `hp.conditional_scope` بپرسید و `if` را همان‌جا بگذارید.",
        )
    if "momentum" not in asked:
        raise Hint(
            "Nothing is asked for under the name `momentum`.",
            "چیزی با نام `momentum` پرسیده نشده است.",
        )
    if _ask(space, optimizer="adam").is_active(asked["momentum"]):
        raise Hint(
            "`momentum` is active with Adam too, which has none: the search spends trials on a "
            "number that nobody reads. Make it conditional on `optimizer`.",
            "گزینهٔ `momentum` با Adam هم فعال است که چنین چیزی ندارد: جستجو آزمایش‌هایش را خرج عددی "
            "می‌کند که کسی نمی‌خواند. آن را به `optimizer` مشروط کنید.",
        )
    if not with_sgd.is_active(asked["momentum"]):
        raise Hint(
            "`momentum` is not active with SGD, the one that reads it. Look at the value that its "
            "condition waits for.",
            "گزینهٔ `momentum` با SGD فعال نیست، همان که آن را می‌خواند. ببینید شرطش منتظر کدام "
            "مقدار است.",
        )


def _check_used(space):
    rate, momentum = 0.0123, 0.456  # no default and no habit
    _, adam = _run(space, optimizer="adam", learning_rate=rate)
    _, sgd = _run(space, optimizer="sgd", learning_rate=rate, momentum=momentum)
    named = isinstance(adam, keras.optimizers.Adam) and isinstance(sgd, keras.optimizers.SGD)
    rates = [float(made.learning_rate) for made in (adam, sgd)]
    if not named or not np.allclose(rates, rate) or sgd.momentum != momentum:
        raise Hint(
            "What is asked for must also be used: build the optimizer that was chosen, with the "
            "`learning_rate` and, for SGD, the `momentum` that `hp` answered.",
            "آنچه پرسیده‌اید باید به کار هم برود: همان بهینه‌سازی را بسازید که انتخاب شده است، با "
            "`learning_rate` و برای SGD با `momentum` که از `hp` پاسخ گرفته‌اید.",
        )


def _objective(*, objective):
    logs = _two_candidates()
    chosen = _resolved(objective)
    if chosen.name not in logs["close"]:
        raise Hint(
            f"No log is called `{chosen.name}`. This model reports `{', '.join(logs['close'])}`.",
            f"هیچ گزارشی به نام `{chosen.name}` نیست. این مدل `{', '.join(logs['close'])}` را "
            "گزارش می‌کند.",
        )
    if not chosen.name.startswith("val_"):
        raise Hint(
            f"`{chosen.name}` is measured on the rows that the model was trained with; a search "
            "that follows it rewards overfitting. Take the validation rows.",
            f"معیار `{chosen.name}` روی همان ردیف‌هایی است که مدل با آن‌ها آموزش دیده؛ جستجویی که از "
            "آن پیروی کند به بیش‌برازش پاداش می‌دهد. ردیف‌های اعتبارسنجی را بردارید.",
        )
    if chosen.name != "val_r2_score":
        raise Hint(
            f"`{chosen.name}` can be searched for, but the question asked for R².",
            f"با `{chosen.name}` هم می‌شود جستجو کرد، ولی پرسش دربارهٔ R² بود.",
        )
    scores = {name: log[chosen.name] for name, log in logs.items()}
    best = (max if chosen.direction == "max" else min)(scores, key=scores.get)
    close, far = f"`{scores['close']:.2f}`", f"`{scores['far']:.2f}`"
    if best != "close":
        raise Hint(
            f"Of two models, one close to the truth with {close} and one far from it with {far}, "
            "your objective picks the second.",
            f"از دو مدل، یکی نزدیک به حقیقت با {close} و یکی دور از آن با {far}، هدف شما دومی را "
            "برمی‌دارد.",
        )
    return right(
        f"Of two models, one close to the truth with {close} and one far from it with {far}, your "
        "objective picks the first.",
        f"از دو مدل، یکی نزدیک به حقیقت با {close} و یکی دور از آن با {far}، هدف شما اولی را "
        "برمی‌دارد.",
    )


def _resolved(objective):
    try:
        chosen = _tuner.resolve_objective(objective)
    except (TypeError, ValueError):
        chosen = None
    if isinstance(chosen, kt.Objective):
        return chosen
    if isinstance(objective, str):
        raise Hint(
            f"The name {shown(objective)} does not say which way is better, so it is refused here; "
            'plain Keras Tuner would guess `"min"`. Add the direction.',
            f"از نام {shown(objective)} برنمی‌آید کدام سو بهتر است، پس اینجا پذیرفته نمی‌شود؛ Keras "
            'Tuner ساده `"min"` را حدس می‌زد. جهت را هم بگویید.',
        )
    raise Hint(
        f'An objective here is a pair, a name and `"min"` or `"max"`; received {shown(objective)}.',
        f'هدف در اینجا یک جفت است، یک نام و `"min"` یا `"max"`؛ این رسید: {shown(objective)}.',
    )


def _two_candidates():
    """Return `{candidate: logs}` for a prediction close to the truth and for one far from it."""
    rng = np.random.default_rng(18)
    truth = rng.normal(size=(64, 1)).astype("float32")
    return {
        name: _logs(truth, truth + size * rng.normal(size=truth.shape))
        for name, size in {"close": 0.3, "far": 1.5}.items()
    }


def _logs(truth, predicted):
    measured = {"loss": float(np.mean((truth - predicted) ** 2))}
    for metric in (keras.metrics.R2Score(), keras.metrics.MeanAbsoluteError()):
        metric.update_state(truth, predicted.astype("float32"))
        measured[metric.name] = float(metric.result())
    return measured | {f"val_{name}": value for name, value in measured.items()}


check = checker(space=_space, objective=_objective)
