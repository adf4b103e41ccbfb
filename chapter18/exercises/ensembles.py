"""The exercises of section 2: weights that beat the mean, and a trio of members that differ."""

from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from chapter18 import ensembles
from chapter18.ensembles._weights import log_loss
from chapter18.exercises._answers import Hint, checker, right, shown

CLASSES, ROWS = 5, 2000


class Forecasts(NamedTuple):
    """`predictions`: a mapping from member to class probabilities (samples, classes); `y`: the
    true classes (samples,)."""

    predictions: dict
    y: np.ndarray


def forecasts():
    """Return the `Forecasts` of six members on 2,000 rows; the checker keeps as many to itself.

    The members are simulated, so that every run gives the same: three networks of one family,
    which err on the same rows, then trees and a linear model, which err on others, and one
    rushed member, often wrong and always sure of itself.
    """
    return _simulated()[0]


@cache
def _simulated():
    rng = np.random.default_rng(18)
    y = rng.integers(CLASSES, size=2 * ROWS)
    shape = (len(y), CLASSES)
    hard = rng.normal(size=shape)  # what makes a row hard for everybody
    family = rng.normal(size=shape)

    def member(skill, kin=None, sure=1.0):
        own = rng.normal(size=shape)
        noise = own if kin is None else np.sqrt(0.97) * kin + np.sqrt(0.03) * own
        noise = np.sqrt(0.2) * hard + np.sqrt(0.8) * noise
        scores = sure * skill * (skill * np.eye(CLASSES)[y] + noise)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    members = {f"net {seed}": member(2.2, family) for seed in (1, 2, 3)}
    members |= {"trees": member(2.1), "linear": member(2.1), "rushed": member(1.0, sure=5.0)}
    return tuple(
        Forecasts({name: p[rows] for name, p in members.items()}, y[rows])
        for rows in (slice(ROWS), slice(ROWS, None))
    )


def _loss(some, weights=None):
    mixture = ensembles.combine(some.predictions, weights)
    return log_loss(mixture[np.arange(len(some.y)), some.y][None], np.ones(1))


def _weights(*, weights):
    seen, hidden = _simulated()
    names = list(seen.predictions)
    shares = _shares(weights, names)
    learned = ensembles.fit_weights(*seen).weights
    uniform, yours, best = _loss(hidden), _loss(hidden, shares), _loss(hidden, learned)
    alone = min(_loss(hidden, shares) for shares in np.eye(len(names)))
    saved = (uniform - yours) / (uniform - best)
    _say_what_is_missing(shares, names, saved)
    return right(
        f"On rows that your weights have not seen, the log-loss is `{yours:.3f}`; the uniform "
        f"mean has `{uniform:.3f}` and the best single member `{alone:.3f}`.",
        f"روی ردیف‌هایی که وزن‌های شما ندیده‌اند، زیان لگاریتمی `{yours:.3f}` است؛ میانگین "
        f"یکنواخت `{uniform:.3f}` دارد و بهترین تک‌عضو `{alone:.3f}`.",
    )


def _shares(weights, names):
    try:
        shares = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        shares = np.zeros(0)
    if shares.shape != (len(names),):
        raise Hint(
            f"Give one number for each of `{', '.join(names)}`, in this order; "
            f"received {shown(weights)}.",
            f"به‌ازای هر یک از `{', '.join(names)}` یک عدد بدهید، به همین ترتیب؛ "
            f"این رسید: {shown(weights)}.",
        )
    if not np.isfinite(shares).all() or shares.min() < 0 or shares.sum() <= 0:
        raise Hint(
            "Weights are finite, never negative, and not all zero: a member can be left out, "
            "but not turned around.",
            "وزن‌ها متناهی‌اند، هرگز منفی نیستند و همه با هم صفر نمی‌شوند: عضوی را می‌شود کنار "
            "گذاشت، ولی نمی‌شود وارونه کرد.",
        )
    return shares / shares.sum()


def _say_what_is_missing(shares, names, saved):
    if np.ptp(shares) < 1e-9:
        raise Hint(
            "These are the weights of the uniform mean, the rival that you are to beat. Learn "
            "better ones from the rows you have.",
            "این‌ها همان وزن‌های میانگین یکنواخت‌اند، رقیبی که باید شکستش بدهید. از ردیف‌هایی که "
            "دارید وزن‌های بهتری یاد بگیرید.",
        )
    if shares.max() > 0.99:
        name = names[int(shares.argmax())]
        raise Hint(
            f"All the weight is on `{name}`: that is a choice, not an ensemble, and what the "
            "others know is thrown away.",
            f"همهٔ وزن روی `{name}` است: این انتخاب است، نه انسمبل، و دانستهٔ بقیه دور ریخته می‌شود.",
        )
    if saved > 0.9:
        return
    share = f"`{max(saved, 0):.0%}`"
    if shares[names.index("rushed")] > 0.02:
        raise Hint(
            f"On unseen rows you save {share} of what learned weights save. `rushed` still has "
            "a voice; it is often wrong and always sure, and log-loss makes you pay for that.",
            f"روی ردیف‌های ندیده {share} از آنچه وزن‌های آموخته صرفه‌جویی می‌کنند به دست "
            "آورده‌اید. عضو `rushed` هنوز حق حرف زدن دارد؛ زیاد اشتباه می‌کند و همیشه مطمئن است، "
            "و زیان لگاریتمی بهایش را از شما می‌گیرد.",
        )
    nets = shares[[name.startswith("net") for name in names]].sum()
    if nets > 0.8:
        raise Hint(
            f"The networks hold `{nets:.0%}` of the weight and err on the same rows: three of them "
            f"are hardly more than one voice. You save {share} of what learned weights save.",
            f"شبکه‌ها `{nets:.0%}` از وزن را دارند و در ردیف‌های یکسانی اشتباه می‌کنند: سه‌تایشان "
            f"چندان بیش از یک صدا نیستند. شما {share} از آنچه وزن‌های آموخته صرفه‌جویی می‌کنند به دست "
            "آورده‌اید.",
        )
    raise Hint(
        f"On unseen rows you save {share} of what learned weights save. Do not guess: ask the rows "
        "you have.",
        f"روی ردیف‌های ندیده {share} از آنچه وزن‌های آموخته صرفه‌جویی می‌کنند به دست آورده‌اید. حدس "
        "نزنید: از ردیف‌هایی که دارید بپرسید.",
    )


def _trio(*, members):
    seen, hidden = _simulated()
    trio = _three(members, list(seen.predictions))
    losses = {each: _loss(_only(hidden, each)) for each in combinations(seen.predictions, 3)}
    best = min(losses, key=losses.get)
    if losses[trio] <= losses[best] + 0.003:
        return right(
            f"Their mean has a log-loss of `{losses[trio]:.3f}` on unseen rows; no trio is "
            "clearly better. Good members that err on different rows.",
            f"میانگینشان روی ردیف‌های ندیده زیان لگاریتمی `{losses[trio]:.3f}` دارد و هیچ "
            "سه‌تایی دیگری آشکارا بهتر نیست. عضوهایی خوب که در ردیف‌های متفاوتی اشتباه می‌کنند.",
        )
    alike = _error_correlation(_only(seen, trio))
    numbers = f"`{losses[trio]:.3f}`", f"`{losses[best]:.3f}`", f"`{alike:.2f}`"
    raise _trio_hint(trio, *numbers)


def _three(members, names):
    given = list(members) if isinstance(members, list | tuple | set) else []
    if not all(isinstance(name, str) for name in given) or len(set(given) & set(names)) != 3:
        raise Hint(
            f"Name three different members out of `{', '.join(names)}`; received {shown(members)}.",
            f"سه عضو متفاوت از میان `{', '.join(names)}` نام ببرید؛ این رسید: {shown(members)}.",
        )
    return tuple(name for name in names if name in given)


def _only(some, names):
    return Forecasts({name: some.predictions[name] for name in names}, some.y)


def _error_correlation(some):
    return ensembles.diversity(*some)["error_correlation"].mean()


def _trio_hint(trio, yours, best, alike):
    if "rushed" in trio:
        return Hint(
            f"To differ is not enough: `rushed` errs on other rows, but far too often. The mean "
            f"of your trio has {yours} on unseen rows, the best trio {best}.",
            f"متفاوت بودن کافی نیست: `rushed` در ردیف‌های دیگری اشتباه می‌کند، ولی بیش از حد. "
            f"میانگین سه عضو شما روی ردیف‌های ندیده {yours} دارد و بهترین سه‌تایی {best}.",
        )
    return Hint(
        "Members of one family are good, and alike: the correlation of errors in your trio is "
        f"{alike} on average. Its mean has a log-loss of {yours} on unseen rows, the best trio "
        f"{best}.",
        "عضوهای یک خانواده خوب‌اند و شبیه هم: همبستگی خطاها در سه عضو شما به‌طور میانگین "
        f"{alike} است. زیان لگاریتمی میانگینشان روی ردیف‌های ندیده {yours} است و "
        f"از آنِ بهترین سه‌تایی {best}.",
    )


check = checker(weights=_weights, trio=_trio)
