"""The checks of the twins on good and bad pairs, then on every pair of the course."""

import pytest

from course.prose import cells, twins

pytestmark = pytest.mark.once


def cell_of(text):
    return f"{cells.OPENING}\n\n{text}\n\n</div>"


PAIRS = [
    (
        "## Early stopping\n\nAfter `fit()`, 1.2× of 50,000 rows is 120% of [it](https://a.b/).",
        '## توقف زودهنگام\n\nپس از <code dir="ltr">fit()</code>، ۱٫۲ برابر ۵۰٬۰۰۰ ردیف ۱۲۰٪ '
        "[آن](https://a.b/) است.",
    ),
    (
        "Use `a | b` and `__call__` where $-127 \\le q$; `f(a, b)` and `a &lt; b`.",
        'ابزار <code dir="ltr">a &#124; b</code> و <code dir="ltr">&#95;&#95;call&#95;&#95;</code> '
        'جایی که $-127 \\le q$؛ نیز <code dir="ltr">f(a,\nb)</code> و '
        '<code dir="ltr">a &amp;lt; b</code>.',
    ),
    ("1. One\n2. Two\n\n`x` twice: `x`.", 'نخست:\n\n1. یک\n2. دو با <code dir="ltr">x</code>.'),
    ("From 1–3, in Keras 3.15.", "از ۱ تا ۳، در Keras 3.15."),
    (
        "Thus:\n\n```python\nif a < 5:\n\n    b = a\n```",
        'چنین:\n\n<pre dir="ltr">\nif a &lt; 5:\n\n    b = a\n</pre>',
    ),
]


@pytest.mark.parametrize(("english", "persian"), PAIRS)
def test_good_twins_have_no_difference(english, persian):
    assert list(twins.differences(english, cell_of(persian))) == []


@pytest.mark.parametrize(
    ("english", "persian", "fault"),
    [
        ("# One", "## یک", "heading levels differ, English ['h1'], Persian ['h2']"),
        ("# One\n\n## Two", "# یک", "heading levels differ"),
        ("Call `fit`.", "فرا بخوانید.", "code names differ, only English ['fit']"),
        ("Call.", 'تابع <code dir="ltr">fit</code>.', "only Persian ['fit']"),
        ("`a` and `b`", 'تابع <code dir="ltr">a</code>.', "code names differ"),
        ("In 3 steps.", "در سه گام.", "numbers differ, only English ['3']"),
        ("In three steps.", "در ۳ گام.", "only Persian ['3']"),
        ("50,000 rows", "۵٬۰۰۰ ردیف", "only English ['50000'], only Persian ['5000']"),
        ("0.5 of it", "۰٫۷ آن", "only English ['0.5'], only Persian ['0.7']"),
        ("$q \\le 127$", "$q \\le 128$", "numbers differ"),
        ("[a](https://a.b)", "[الف](https://a.c)", "links differ, only English ['https://a.b']"),
        ("![a](a.png)", "الف", "links differ, only English ['a.png']"),
        ("<https://a.b>", "الف", "links differ"),
        ("```python\na = b\n```", "الف", "blocks of code differ"),
        ("```python\na\n```", '<pre dir="ltr">\nb\n</pre>', "blocks of code differ"),
    ],
)
def test_a_difference_is_told(english, persian, fault):
    found = list(twins.differences(english, cell_of(persian)))
    assert any(fault in line for line in found), found


FA = cell_of("متن")


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ([(0, "One"), (1, FA), (3, "Two"), (4, FA)], None),
        ([(0, "One"), (1, FA), (3, "Two")], "cell 3 has no twin: Two"),
        ([(0, "One"), (1, "Two")], "cell 0 is not English followed by its Persian twin: One"),
        ([(0, FA), (1, "One")], "cell 0 is not English"),
        ([(0, "One"), (2, FA)], "cell 0 is not English"),
        ([(0, "One"), (1, FA), (2, FA), (3, "Two")], "cell 2 is not English"),
    ],
)
def test_the_languages_alternate(found, fault):
    lines = list(twins.unpaired(found))
    assert bool(lines) == bool(fault)
    assert not fault or fault in lines[0]


def test_there_are_sources():
    assert cells.SOURCES


@pytest.mark.parametrize("path", cells.SOURCES, ids=lambda path: path.stem)
def test_every_twin_of_the_course_agrees(path):
    found = cells.markdown_cells(path)
    assert found
    assert list(twins.unpaired(found)) == []
    lines = [line for pair in twins.pairs(found) for line in twins.differences(*pair)]
    assert not lines, "\n".join(lines)
