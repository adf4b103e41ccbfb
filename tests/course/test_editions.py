"""Notebooks in one language: what stays, what goes, where links lead, what is refused."""

from urllib.parse import unquote

import nbformat
import papermill
import pytest
from bilingual_course import write_course

from course import building, built, editions, sections, website
from course.__main__ import main
from course.prose import cells, twins
from course.sections import CourseError

pytestmark = pytest.mark.once

SECTIONS = sections.sections(cells.ROOT)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def described(notebook):
    return [cell.metadata for cell in code(notebook) if "alt" in cell.metadata]


@pytest.fixture
def root(tmp_path):
    return write_course(tmp_path / "course")


def read(path):
    return nbformat.read(path, as_version=4)


@pytest.mark.parametrize("language", editions.LANGUAGES)
@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_an_edition_keeps_the_code_and_one_language(section, language):
    whole = read(section.notebook)
    ((name, edition),) = editions.editions(cells.ROOT, [section.name], language=language)
    assert name == section.name
    assert [cell.pop("alt") for cell in described(edition)] == [
        cell.pop("alt")[language] for cell in described(whole)
    ]
    assert code(edition) == code(whole)
    assert "parameters" in code(edition)[1].metadata.tags
    texts = [text for text in prose(whole) if cells.is_persian(text) == (language == "fa")]
    assert prose(edition) == texts
    assert len(texts) == len(prose(whole)) / 2
    nbformat.validate(edition)


def test_twins_carry_one_id_and_every_id_is_unique():
    for english, persian in zip(
        editions.editions(cells.ROOT, language="en"),
        editions.editions(cells.ROOT, language="fa"),
        strict=True,
    ):
        ids = [cell.id for cell in english.notebook.cells]
        assert ids == [cell.id for cell in persian.notebook.cells]
        assert len(set(ids)) == len(ids)


def test_links_lead_to_headings_of_the_same_language(root, tmp_path):
    for language, here, there in [("en", "The-end", "Second"), ("fa", "پایان", "دومین")]:
        out = tmp_path / language
        editions.write(root, language=language, out=out)
        text = prose(read(out / "01_first.ipynb"))[0]
        links = {unquote(link) for link in twins.links(text)}
        assert links == {f"#{here}", f"02_second.ipynb#{there}", "02_second.ipynb", "#nowhere"}


def test_an_edition_is_executed_by_papermill_with_given_parameters(root, tmp_path):
    (path, _) = editions.write(root, language="fa", out=tmp_path / "fa")
    done = papermill.execute_notebook(
        path, tmp_path / "done.ipynb", parameters={"rows": 7}, kernel_name="python3"
    )
    assert code(done)[-1].outputs[0].text == "7\n"


def test_the_command_writes_the_named_sections_and_says_where(root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(root)
    out = tmp_path / "out"
    assert main(["edition", "2", "--lang", "en", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out / '02_second.ipynb'}\n"
    assert [path.name for path in out.iterdir()] == ["02_second.ipynb"]


@pytest.mark.parametrize(
    ("wanted", "language", "folder", "message"),
    [
        ([], "de", "out", r"one of fa, en\. Received: 'de'\. Name one of them with --lang"),
        ([], "both", "out", r"one of fa, en\. Received: 'both'"),
        (["3"], "fa", "out", r"Received: '3'\. Valid: 01_first, 02_second"),
        ([], "fa", "notebooks", r"outside their folder\. Received: --out .*notebooks"),
        ([], "fa", "notebooks/persian", r"outside their folder.*Name another folder"),
        ([], "fa", "notebooks/source/01_first.md", r"outside their folder"),
        ([], "fa", "file", r"into a folder\. Received: --out .*file is a file\. Name a folder"),
        ([], "fa", "file/fa", r"into a folder\. Received: --out .*file is a file\. Name a folder"),
        ([], "fa", "links", r"links/01_first\.ipynb, a link to a file .*Remove the link, or name"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_written(
    root, wanted, language, folder, message
):
    (root / "file").touch()
    (root / "links").mkdir()
    (root / "links/01_first.ipynb").symlink_to(root / "notebooks/01_first.ipynb")
    before = sorted(root.rglob("*"))
    with pytest.raises(CourseError, match=message):
        editions.write(root, wanted, language=language, out=root / folder)
    assert sorted(root.rglob("*")) == before


def test_a_notebook_that_is_not_built_is_refused(root):
    (root / "notebooks/02_second.ipynb").unlink()
    with pytest.raises(CourseError, match=r"no file .*02_second\.ipynb\. Build it with"):
        editions.write(root, language="fa", out=root / "out")
    assert not (root / "out").exists()


def test_a_notebook_that_was_edited_is_refused(root):
    path = root / "notebooks/02_second.ipynb"
    for edit, named in [
        (lambda cells: cells[0].update(source="# Mine"), r"cell 0 \(`# Mine`\)\. To keep an edit"),
        (lambda cells: cells.pop(), r"cells taken away or moved\. To keep an edit"),
    ]:
        notebook = read(path)
        built.seal(notebook)
        edit(notebook.cells)
        nbformat.write(notebook, path)
        with pytest.raises(CourseError, match=rf"02_second\.ipynb, edited since.*: {named}"):
            editions.write(root, language="fa", out=root / "out")
        with pytest.raises(CourseError, match=r"02_second\.ipynb, edited since"):
            website.write(root, out=root / "out")
        assert not (root / "out").exists()
        list(building.build(root, discard=True))
    assert len(editions.write(root, language="fa", out=root / "out")) == 2
