import nbformat
import pytest
import tiny_course

from chapter18 import building
from chapter18.course import CourseError

pytestmark = pytest.mark.once


@pytest.fixture
def root(tmp_path):
    return tiny_course.write(tmp_path)


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_rebuild_is_identical_to_the_byte_even_when_executed_again(root):
    assert dict(building.build(root)) == {"01_first": "executed", "02_second": "executed"}
    notebook = root / "notebooks/01_first.ipynb"
    before = notebook.read_bytes()
    assert b"image/png" in before
    assert dict(building.build(root, ["1"])) == {"01_first": "unchanged"}
    assert dict(building.build(root, ["1"], force=True)) == {"01_first": "executed, same outputs"}
    assert notebook.read_bytes() == before


def test_new_prose_keeps_outputs_and_new_code_does_not(root):
    list(building.build(root, ["1"]))
    notebook, source = root / "notebooks/01_first.ipynb", root / "notebooks/source/01_first.md"
    outputs = [c.get("outputs") for c in nbformat.read(notebook, as_version=4).cells]
    edit(source, "Read `rows`.", "Read `rows` again.")
    assert dict(building.build(root, ["1"])) == {"01_first": "prose updated"}
    assert [c.get("outputs") for c in nbformat.read(notebook, as_version=4).cells] == outputs
    edit(source, "rows = 3", "rows = 4")
    assert dict(building.build(root, ["1"])) == {"01_first": "executed"}
    assert [c.get("outputs") for c in nbformat.read(notebook, as_version=4).cells] != outputs


MODULE = """\
\"\"\"What it is for.\"\"\"
from chapter18 import lower


def rows():
    \"\"\"Return the rows.

    Their number is 3.
    \"\"\"
    return 3  # "three"
"""
USE = """\
```{code-cell} ipython3
from chapter18 import devices
```
"""


def test_only_what_runs_in_the_modules_executes_a_notebook_again(root, tmp_path, monkeypatch):
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(building, "PACKAGE", package)
    module, below = package / "devices.py", package / "lower.py"
    module.write_text(MODULE)
    below.write_text("one = 1\n")
    source = root / "notebooks/source/01_first.md"
    source.write_text(source.read_text(encoding="utf-8") + USE, encoding="utf-8")
    list(building.build(root, ["1"]))
    edit(module, "Their number is 3.", "They are three.\n\n    Always.")
    edit(module, '"three"', "'drei'")
    edit(module, "\n\n\n", "\n\n# A comment.\n")
    assert dict(building.build(root, ["1"])) == {"01_first": "unchanged"}
    edit(below, "one = 1", "one = 2")
    assert dict(building.build(root, ["1"])) == {"01_first": "executed"}
    edit(module, "return 3", "return 4")
    assert dict(building.build(root, ["1"])) == {"01_first": "executed"}


def test_nothing_of_the_machine_or_the_clock_is_kept(root):
    list(building.build(root, ["1"]))
    notebook = nbformat.read(root / "notebooks/01_first.ipynb", as_version=4)
    assert set(notebook.metadata) == {"chapter18", "kernelspec", "language_info"}
    assert "version" not in notebook.metadata.language_info
    assert all(set(cell.metadata) <= {"tags"} for cell in notebook.cells)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("Read `rows`.", "Read.", "cell 0 differs in its id"),
        ("[parameters]", "[parameters, more]", "cell 2 differs in its metadata"),
        ("  quick:\n    rows: 2\n", "", "the quick parameters differ"),
        (
            "```{code-cell} ipython3\nprint(",
            "+++\n\nMore.\n\n```{code-cell} ipython3\nprint(",
            "cells,",
        ),
    ],
)
def test_check_names_what_differs(root, old, new, fault):
    list(building.build(root, ["1"]))
    assert building.check(root, ["1"]) == []
    edit(root / "notebooks/source/01_first.md", old, new)
    (line,) = building.check(root, ["1"])
    assert line.startswith("01_first: ")
    assert fault in line


def test_check_names_a_notebook_that_was_never_built(root):
    (line,) = building.check(root, ["2"])
    assert "02_second: its notebook is not built" in line


def test_a_failing_cell_leaves_the_old_notebook_alone(root):
    list(building.build(root, ["1"]))
    notebook = root / "notebooks/01_first.ipynb"
    before = notebook.read_bytes()
    edit(root / "notebooks/source/01_first.md", "rows = 3", "rows = undefined_name")
    with pytest.raises(CourseError, match=r"(?s)Every cell.*01_first.*undefined_name"):
        list(building.build(root, ["1"]))
    assert notebook.read_bytes() == before
    assert sorted(path.name for path in notebook.parent.iterdir()) == ["01_first.ipynb", "source"]
