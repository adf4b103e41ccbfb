"""What a section says of itself, in each language."""

import re

import pytest
from nbformat import NotebookNode

from course import building, sections
from course.prose import cells
from course.sections import About, CourseError, about

FRONT = {
    "title": "7 · First · نخست",
    "minutes": "2½",
    "accelerator": {"en": "faster there", "fa": "آنجا سریع‌تر"},
}


def front(**changes):
    return NotebookNode(FRONT | changes)


def test_each_language_has_its_own_words_and_digits():
    assert about(front(), "07_first", "en") == About("7 · First", "2½", "faster there")
    assert about(front(), "07_first", "fa") == About("۷ · نخست", "۲½", "آنجا سریع‌تر")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"title": "7 · First"}, r"Received: '7 · First' in 07_first\. Write it as `1 · First"),
        ({"accelerator": "faster"}, r"Received: 'faster' in 07_first\. Give `accelerator` an `en`"),
        ({"accelerator": {"en": "faster"}}, r"Received: {'en': 'faster'} in 07_first\. Give"),
    ],
)
def test_what_lacks_a_language_is_refused(changes, message):
    with pytest.raises(CourseError, match=message):
        about(front(**changes), "07_first", "en")


def test_every_section_says_it_in_both_languages():
    for section in sections.sections(cells.ROOT):
        found = building.assemble(section.source).metadata.chapter18
        english, persian = (about(found, section.name, language) for language in ("en", "fa"))
        assert english.name.startswith(f"{int(section.name[:2])} · ")
        assert re.search("[آ-ی]{3}", persian.name)
        assert re.search("[آ-ی]{3}", persian.accelerator)
        assert not re.search("[آ-ی]", "".join(english))
