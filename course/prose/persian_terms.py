"""The glossary: one Persian term for each English one, explained at its first use."""

import re
from pathlib import Path
from typing import NamedTuple

from course.prose.cells import around, blocks, matches, show
from course.prose.persian_spelling import NO_LETTER_BEFORE


class Term(NamedTuple):
    """A line of the glossary."""

    english: str
    persian: str
    note: str


GLOSSARY = [
    Term(*line.split("\t"))
    for line in Path(__file__).with_name("glossary.tsv").read_text("utf-8").splitlines()[1:]
]


REJECTED = {
    "ابرفراسنج": "ابرپارامتر",
    "ابر[ \u200c]پارامتر": "ابرپارامتر",
    "انتشار معکوس": "پس‌انتشار",
    "پاریز": "زیرریز",
    "توان عملیاتی": "گذردهی",
    "تابع هزینه": "تابع زیان",
    "تابع خطا": "تابع زیان",
    "ردپای حافظه": "حافظهٔ مصرفی",
    "واسنجی": "کالیبراسیون",
    "ریزتنظیم": "تنظیم دقیق",
    "فراسنج": "پارامتر",
    "نظام‌بخشی": "منظم‌سازی",
    "برون‌اندازی": "حذف تصادفی",
    "تعلیم": "آموزش",
}
# «روی همین مجموعه آموزش می‌بیند» is a verb, not a term that lost its ezafe.
NO_VERB_AFTER = "(?! (?:ن?می|دید|داد|شد|کرد|یاف|ببین|بده))"


def one_term(cell):
    """The glossary: no rejected synonym, and each term with its own half-spaces and هٔ."""
    for _, text in blocks(cell):
        for synonym, term in REJECTED.items():
            yield from matches(text, f"{NO_LETTER_BEFORE}{synonym}", f"write {term}")
        for term in GLOSSARY:
            yield from _misspelt(text, term.persian)


def _misspelt(text, term):
    if "\u200c" not in term and "\u0654" not in term:
        return
    loose = term.replace(" ", r"\s").replace("\u200c", "[\u200c ]?").replace("\u0654", "\u0654?")
    for match in re.finditer(f"{NO_LETTER_BEFORE}{loose}{NO_VERB_AFTER}", text):
        if re.sub(r"\s", " ", match.group()) != term:
            yield f"write {term}: {around(text, match)}"


def first_uses(twins):
    """Terms that the glossary explains at first use, not explained there.

    `twins` are (English, Persian) cells in order.
    """
    for term in GLOSSARY:
        explained = re.match(r"بار نخست: .*\((.+)\)", term.note)
        if not explained:
            continue
        for english, persian in twins:
            if re.search(rf"\b{term.english}s?\b", _prose(english), re.IGNORECASE):
                if not re.search(rf"\({explained[1]}s?\b", _prose(persian), re.IGNORECASE):
                    yield f"first use of {term.english} without ({explained[1]}): {persian[:80]!r}"
                break


def wrong_accuracy(english, persian):
    """«دقت» is precision; accuracy is «صحت»."""
    said, meant = _prose(persian), _prose(english).lower()
    if "accura" in meant and "precis" not in meant and "دقت" in said and "صحت" not in said:
        yield f"accuracy is صحت: {show(said)[:80]}"


def _prose(cell):
    return "\n".join(block.text for block in blocks(cell) if block.kind != "heading")


RULES = (one_term,)
