from pathlib import Path

import nbformat
import pytest
import tiny_course

from course import building, built, links, sections
from course.sections import CourseError

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]


def test_the_committed_files_all_name_the_same_repository():
    repo = links.repository(ROOT)
    for path, text in links.stamped(ROOT, repo).items():
        assert path.read_text(encoding="utf-8") == text, path
    for section in sections.sections(ROOT):
        setup = nbformat.read(section.notebook, as_version=4).cells[2]
        assert setup.source.startswith(f'REPOSITORY = "{repo}"'), section.name


def test_one_command_stamps_every_place_without_running_a_notebook(tmp_path):
    root = tiny_course.write(tmp_path)
    list(building.build(root))
    outputs = nbformat.read(root / "notebooks/01_first.ipynb", as_version=4).cells[-2].outputs
    changed = {path.relative_to(root).as_posix() for path in links.stamp(root, "ada/course")}
    assert changed == {
        "pyproject.toml",
        "README.md",
        "colab_links.md",
        "notebooks/01_first.ipynb",
        "notebooks/02_second.ipynb",
        "notebooks/source/01_first.md",
        "notebooks/source/02_second.md",
    }
    assert links.repository(root) == "ada/course"
    assert all("ada/course" in (root / name).read_text(encoding="utf-8") for name in changed)
    assert (
        nbformat.read(root / "notebooks/01_first.ipynb", as_version=4).cells[-2].outputs == outputs
    )
    assert building.check(root) == []
    assert links.stamp(root, "ada/course") == []
    links.stamp(root, "bob/other")
    assert not any("ada/course" in (root / name).read_text(encoding="utf-8") for name in changed)


@pytest.mark.parametrize(
    "repo", ["course", "https://github.com/ada/course", "a b/c", "ada/x.git", ""]
)
def test_a_bad_name_is_refused(tmp_path, repo):
    root = tiny_course.write(tmp_path)
    before = (root / "README.md").read_bytes()
    with pytest.raises(CourseError, match=r"given as OWNER/NAME\. Received: "):
        links.stamp(root, repo)
    assert (root / "README.md").read_bytes() == before


def test_stale_notebooks_are_refused(tmp_path):
    with pytest.raises(CourseError, match=r"(?s)stamped on built notebooks. Received:.*01_first"):
        links.stamp(tiny_course.write(tmp_path), "ada/course")


def test_edited_notebooks_are_refused_and_nothing_is_stamped(tmp_path):
    root = tiny_course.write(tmp_path)
    for section in sections.sections(root):
        notebook = building.assemble(section.source)
        built.seal(notebook)
        nbformat.write(notebook, section.notebook)
    assert building.check(root) == []
    notebook.cells[0].source = "# Mine"
    nbformat.write(notebook, section.notebook)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(CourseError, match=r"02_second: edited since it was built: cell 0"):
        links.stamp(root, "ada/course")
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
