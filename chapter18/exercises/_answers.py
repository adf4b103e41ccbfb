"""Exercises that answer back, in English and in Persian: right, or what is wrong with this attempt.

A section's own module, such as `exercises.tuning`, holds its exercises and calls `checker`:

    check = checker(space=_space, objective=_objective)

An exercise is a function of the attempt, by keyword. It returns the `Answer` of a right attempt
(`right`) and raises `Hint` for any other; what it raises by accident becomes a hint as well.
"""

import html
import inspect
import re
import reprlib
from typing import NamedTuple

_CODE = re.compile(r"`([^`]*)`")


class Answer(NamedTuple):
    """What a checker says: whether the attempt is right, and why, in both languages.

    Code in `english` and `persian` stands in backticks; `quoted` is the message of an error, if
    there was one. A notebook shows the answer as HTML, each part in its own direction; a terminal
    as plain text.
    """

    is_right: bool
    english: str
    persian: str
    quoted: str = ""

    def __bool__(self):
        return self.is_right

    def __repr__(self):
        return "\n\n".join(part for part in (*self._halves(), self.quoted) if part)

    def _repr_html_(self):
        english, persian = map(markup, self._halves())
        parts = [
            f'<div dir="ltr" lang="en">\n{english}\n</div>',
            f'<div dir="rtl" lang="fa">\n{persian}\n</div>',
        ]
        if self.quoted:
            parts.append(f'<div dir="ltr">\n{markup(f"`{self.quoted}`")}\n</div>')
        return "\n".join(parts)

    def _halves(self):
        verdict = ("Right.", "درست است.") if self.is_right else ("Not yet.", "هنوز نه.")
        return f"{verdict[0]} {self.english}", f"{verdict[1]} {self.persian}"


class Hint(Exception):
    """Raised by an exercise for an attempt that is not right: what is wrong, in both languages.

    `quoted` is an error whose message the reader should see, or a part of that message.
    """

    def __init__(self, english, persian, quoted=""):
        super().__init__(english, persian)
        self.answer = Answer(False, english, persian, _message(quoted))


def right(english, persian):
    """Return the `Answer` of a right attempt: what makes it right, in both languages."""
    return Answer(True, english, persian)


def checker(**exercises):
    """Return `check(name, **attempt)` for these exercises, functions of keywords only.

    `check` returns an `Answer` whatever the attempt is; it raises ValueError only for the name of
    an exercise that there is none of.
    """

    def check(name, /, **attempt):
        """Say in English and in Persian whether this attempt at the exercise `name` is right."""
        if name not in exercises:
            raise ValueError(
                f"An exercise is checked under its own name. Received: {name!r}. "
                f"The exercises of this section are {list(exercises)}."
            )
        return _answer(exercises[name], attempt)

    return check


def markup(text):
    """Return `text` as HTML, with what stands in backticks as left-to-right code."""
    return _CODE.sub(r'<code dir="ltr">\1</code>', html.escape(text, quote=False))


def shown(value):
    """Return a short text for `value`, in backticks, whatever `value` is."""
    try:
        text = reprlib.repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return f"`{_one_line(text)}`"


def _message(error):
    if isinstance(error, str):
        return _one_line(error)
    try:
        return _one_line(f"{type(error).__name__}: {error}")
    except Exception:
        return type(error).__name__


def _one_line(text, limit=400):
    text = " ".join(text.replace("`", "'").split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _answer(exercise, attempt):
    wanted = list(inspect.signature(exercise).parameters)
    if set(attempt) != set(wanted):
        names = ", ".join(f"{name}=…" for name in wanted)
        return Hint(
            f"This exercise is checked with `{names}`.",
            f"این تمرین با `{names}` وارسی می‌شود.",
        ).answer
    try:
        return exercise(**attempt)
    except Hint as hint:
        return hint.answer
    except (Exception, SystemExit) as error:  # whatever is passed, the notebook goes on
        return Hint(
            "This attempt cannot be checked. It ends with the error below.",
            "این پاسخ را نمی‌شود وارسی کرد. اجرایش با خطای زیر تمام می‌شود.",
            error,
        ).answer
