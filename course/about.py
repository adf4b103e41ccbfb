"""What a section's front matter says of it, in one language."""

from typing import NamedTuple

from course.sections import CourseError

DIGITS = {"fa": "۰۱۲۳۴۵۶۷۸۹", "en": "0123456789"}


class About(NamedTuple):
    """A section in one language, all of it text in that language's digits.

    `name` is its number and name, `minutes` how long it takes on a laptop, and `accelerator` what
    changes on a GPU or a TPU.
    """

    name: str
    minutes: str
    accelerator: str


def about(front, section, language):
    """Return `About` for `language` ("fa" or "en") from `front`, the section's front matter.

    `section` only serves the messages. Raises `CourseError` when the title is not a number, an
    English and a Persian name, or when a language has no text on accelerators.
    """
    number, english, persian = _title(front, section)
    digits = str.maketrans(DIGITS["en"], DIGITS[language])
    return About(
        name=f"{number.translate(digits)} · {persian if language == 'fa' else english}",
        minutes=str(front.minutes).translate(digits),
        accelerator=_accelerator(front, section)[language],
    )


def _title(front, section):
    parts = front.title.split(" · ")
    if len(parts) != 3:
        raise CourseError(
            "A section's title is its number, its English and its Persian name. "
            f"Received: {front.title!r} in {section}. "
            "Write it as `1 · First · نخست` in its front matter."
        )
    return parts


def _accelerator(front, section):
    texts = front.accelerator
    if not isinstance(texts, dict) or set(texts) != set(DIGITS):
        raise CourseError(
            "What changes on an accelerator is said in both languages. "
            f"Received: {texts!r} in {section}. "
            "Give `accelerator` an `en` and a `fa` in its front matter."
        )
    return texts
