"""Each published solution is right; each first attempt, usual mistake and nonsense gets a hint."""

import json
import re

import exercise_attempts
import exercise_cells
import numpy as np
import pytest
from child import run_child

from chapter18.exercises._answers import Answer, Hint, checker, right, shown
from course.prose import cells, persian, twins

SECTIONS = {path.stem[:2]: path for path in cells.SOURCES}
NEEDS_DEVICES = {"04"}


@pytest.fixture(scope="module", params=SECTIONS)
def exchanges(request):
    """All `Exchange`s of a section, made once."""
    path = SECTIONS[request.param]
    if request.param not in NEEDS_DEVICES:
        return exercise_cells.exchanges(path)
    told = run_child("exercise_cells.py", request.param, devices=8, timeout=300)
    return [exercise_cells.Exchange(*each) for each in json.loads(told.splitlines()[-1])]


def test_every_attempt_gets_its_own_answer(exchanges):
    wrong = [
        f"{each.exercise}: {each.attempt}\n  expected {each.expected!r}\n  got {each.english}"
        for each in exchanges
        if not _as_expected(each)
    ]
    assert not wrong, "\n".join(wrong)


def _as_expected(exchange):
    if exchange.expected is True:
        return exchange.is_right
    return not exchange.is_right and exchange.expected in exchange.english + exchange.quoted


def test_every_answer_keeps_the_rules_of_both_languages(exchanges):
    found = []
    for each in exchanges:
        cell = f"{cells.OPENING}\n\n{_markdown(each.persian)}\n\n</div>"
        found += [*persian.faults(cell), *twins.differences(each.english, cell)]
    assert not found, "\n".join(sorted(set(found)))


def _markdown(text):
    """The text as a Persian cell would have it: code in entities, so that no Markdown is active."""
    return re.sub(
        "`([^`]*)`",
        lambda code: (
            '<code dir="ltr">'
            + "".join(c if c.isalnum() or c in " .,:'" else f"&#{ord(c)};" for c in code[1])
            + "</code>"
        ),
        text,
    )


def test_every_hint_is_told_from_the_others(exchanges):
    by_exercise = {}
    for each in exchanges:
        if isinstance(each.expected, str) and each.expected:
            by_exercise.setdefault(each.exercise, set()).add(each.expected)
    assert len(by_exercise) == 2
    assert all(len(hints) >= 3 for hints in by_exercise.values())


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_has_two_exercises(section):
    names = [each.name for each in exercise_cells.exercises(SECTIONS[section])]
    assert len(names) == 2
    assert {(section, name) for name in names} == {
        key for key in exercise_attempts.ATTEMPTS if key[0] == section
    }


@pytest.mark.parametrize("section", SECTIONS)
def test_an_exercise_changes_nothing_that_the_completion_cell_reads(section):
    made = exercise_cells.names_made(SECTIONS[section])
    assert "check" in made
    assert not made & exercise_cells.names_completed_with(SECTIONS[section])


def _half(*, number):
    if number != 2:
        raise Hint(f"Half of `4` is not `{number}`.", f"نصف `4` برابر `{number}` نیست.")
    return right("Half of `4`.", "نصف `4`.")


check = checker(half=_half)


def test_an_answer_is_shown_in_both_languages():
    assert check("half", number=2) == Answer(True, "Half of `4`.", "نصف `4`.")
    assert check("half", number=2)
    assert not check("half", number=3)
    assert repr(check("half", number=3)) == (
        "Not yet. Half of `4` is not `3`.\n\nهنوز نه. نصف `4` برابر `3` نیست."
    )
    assert check("half", number="<b>")._repr_html_() == (
        '<div dir="ltr" lang="en">\n'
        'Not yet. Half of <code dir="ltr">4</code> is not <code dir="ltr">&lt;b&gt;</code>.\n'
        "</div>\n"
        '<div dir="rtl" lang="fa">\n'
        'هنوز نه. نصف <code dir="ltr">4</code> برابر <code dir="ltr">&lt;b&gt;</code> نیست.\n'
        "</div>"
    )


@pytest.mark.parametrize("attempt", [{}, {"nummer": 2}, {"number": 2, "name": 3}])
def test_an_attempt_with_other_keywords_is_told_them(attempt):
    assert check("half", **attempt).english == "This exercise is checked with `number=…`."


def test_an_error_is_a_hint():
    broken = checker(broken=lambda *, x: x / 0)
    answer = broken("broken", x=1)
    assert "ends with the error below" in answer.english
    assert answer.quoted == "ZeroDivisionError: division by zero"
    assert repr(answer).endswith(f"\n\n{answer.quoted}")
    assert f'<div dir="ltr">\n<code dir="ltr">{answer.quoted}</code>' in answer._repr_html_()


def test_an_unknown_exercise_is_refused():
    with pytest.raises(ValueError, match=r"Received: 'third'. .* are \['half'\]\."):
        check("third", number=2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "`3`"),
        ("a`b", "`'a'b'`"),
        (np.zeros((2, 1)), "`array([[0.], [0.]])`"),
        ("long" * 99, "`'longlonglong...glonglonglong'`"),
    ],
)
def test_a_value_is_shown_on_one_line(value, text):
    assert shown(value) == text


def test_a_value_that_resists_is_shown_by_its_type():
    assert "Hostile" in shown(exercise_attempts.Hostile())
