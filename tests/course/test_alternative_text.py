"""Every figure is described in both languages, for readers who do not see it."""

import nbformat
import pytest
from bilingual_course import FIRST, write_course

from course import building, editions, sections, website
from course.prose import cells, persian

pytestmark = pytest.mark.once

FIGURES = [
    pytest.param(cell, id=f"{section.name}-{cell.id}")
    for section in sections.sections(cells.ROOT)
    for cell in nbformat.read(section.notebook, as_version=4).cells
    if any("image/png" in output.get("data", {}) for output in cell.get("outputs", []))
]
DESCRIBED = FIRST.replace(
    "{code-cell} ipython3\nprint(rows)",
    "{code-cell} ipython3\n---\nalt:\n  en: One <point>.\n  fa: یک نقطه.\n---\n\nprint(rows)",
)


@pytest.mark.parametrize("cell", FIGURES)
def test_every_figure_is_described(cell):
    assert sum("image/png" in output.get("data", {}) for output in cell.outputs) == 1
    alt = cell.metadata.get("alt", {})
    assert set(alt) == {"en", "fa"}, "write `alt` with en and fa above the figure's code"
    assert 40 < len(alt["en"]) < 400
    assert 40 < len(alt["fa"]) < 400
    assert list(persian.faults(f"{cells.OPENING}\n\n{alt['fa']}\n\n</div>")) == []


def test_a_description_reaches_the_page_of_its_language(tmp_path):
    root = write_course(tmp_path / "course", DESCRIBED)
    path = root / "notebooks/01_first.ipynb"
    built = nbformat.read(path, as_version=4)
    assert built.cells[-1].metadata == {"alt": {"en": "One <point>.", "fa": "یک نقطه."}}
    built.cells[-1].outputs = [nbformat.v4.new_output("display_data", {"image/png": "AAAA"})]
    nbformat.write(built, path)
    for language, text in [("en", 'alt="One &lt;point&gt;."'), ("fa", 'alt="یک نقطه."')]:
        ((_, edition), _) = editions.editions(root, language=language)
        assert isinstance(edition.cells[-1].metadata.alt, str)
        out = tmp_path / language
        website.write(root, language=language, out=out)
        page = (out / language / "01_first.html").read_text(encoding="utf-8")
        assert text in page


def test_a_new_description_executes_nothing(tmp_path):
    root = write_course(tmp_path / "course")
    source = root / "notebooks/source/01_first.md"
    source.write_text(
        source.read_text(encoding="utf-8").replace(FIRST, DESCRIBED), encoding="utf-8"
    )
    assert dict(building.build(root, ["1"])) == {"01_first": "prose updated"}
