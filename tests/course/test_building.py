import os
import shutil
import subprocess
import sys

import nbformat
import papermill
import pytest
import tiny_course

from course import building
from course.__main__ import main
from course.prose.cells import ROOT
from course.sections import CourseError

pytestmark = pytest.mark.once

CURE = "run `python -m course build`"


@pytest.fixture
def root(tmp_path):
    return tiny_course.write(tmp_path)


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A course whose first section, without a figure, is built."""
    body = tiny_course.SETUP + tiny_course.PARAMETERS + tiny_course.PRINT
    root = tiny_course.write(tmp_path_factory.mktemp("executed"), first=body)
    list(building.build(root, ["1"]))
    return root


@pytest.fixture
def lab(executed, tmp_path):
    """A copy of that course to edit as a reader does in JupyterLab."""
    return shutil.copytree(executed, tmp_path / "lab")


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


def test_new_prose_keeps_outputs_and_new_code_does_not(lab):
    notebook, source = lab / "notebooks/01_first.ipynb", lab / "notebooks/source/01_first.md"
    outputs = [c.get("outputs") for c in nbformat.read(notebook, as_version=4).cells]
    edit(source, "Read `rows`.", "Read `rows` again.")
    assert dict(building.build(lab, ["1"])) == {"01_first": "prose updated"}
    assert [c.get("outputs") for c in nbformat.read(notebook, as_version=4).cells] == outputs
    edit(source, "rows = 3", "rows = 4")
    assert dict(building.build(lab, ["1"])) == {"01_first": "executed"}
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


def test_only_what_runs_in_the_modules_executes_a_notebook_again(lab, tmp_path, monkeypatch):
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(building, "PACKAGE", package)
    module, below = package / "devices.py", package / "lower.py"
    module.write_text(MODULE)
    below.write_text("one = 1\n")
    source = lab / "notebooks/source/01_first.md"
    source.write_text(source.read_text(encoding="utf-8") + USE, encoding="utf-8")
    list(building.build(lab, ["1"]))
    edit(module, "Their number is 3.", "They are three.\n\n    Always.")
    edit(module, '"three"', "'drei'")
    edit(module, "\n\n\n", "\n\n# A comment.\n")
    assert dict(building.build(lab, ["1"])) == {"01_first": "unchanged"}
    edit(below, "one = 1", "one = 2")
    assert dict(building.build(lab, ["1"])) == {"01_first": "executed"}
    edit(module, "return 3", "return 4")
    assert dict(building.build(lab, ["1"])) == {"01_first": "executed"}


FACE = '''\
"""A room.

    from chapter18 import idle
"""
from chapter18.room._inner import (
    one,  # (the first)
    two,
)
'''
PACKAGE = {
    "__init__.py": "",
    "room/__init__.py": FACE,
    "room/_inner.py": "import chapter18.single as it\n\nif it:\n    from chapter18 import late\n",
    "room/public.py": "three = 3\n",
    "single.py": "four = 4\n",
    "late.py": "five = 5\n",
    "idle/__init__.py": "from chapter18.idle._deep import six\n",
    "idle/_deep.py": "six = 6\n",
}
ALL_OF_ROOM = {"__init__.py", "room/__init__.py", "room/_inner.py", "single.py", "late.py"}
ALL_OF_IDLE = {"__init__.py", "idle/__init__.py", "idle/_deep.py"}


@pytest.mark.parametrize(
    ("code", "followed"),
    [
        ("from chapter18 import room", ALL_OF_ROOM),
        ("from chapter18 import nothing, room as r", ALL_OF_ROOM),
        (
            "from chapter18 import (\n    idle,  # (not it)\n    single,\n)",
            {*ALL_OF_IDLE, "single.py"},
        ),
        ("from chapter18.room import one", ALL_OF_ROOM),
        ("import chapter18.single as y", {"__init__.py", "single.py"}),
        ("import chapter18.room", ALL_OF_ROOM),
        ("from chapter18.room.public import three", {*ALL_OF_ROOM, "room/public.py"}),
        ("from chapter18.room import public", {*ALL_OF_ROOM, "room/public.py"}),
        ("if rows:\n    from chapter18.idle import six", ALL_OF_IDLE),
        ('PROGRAM = """\nimport os\nfrom chapter18 import idle\n"""', ALL_OF_IDLE),
        ('PROGRAM = """from chapter18 import idle\n"""', ALL_OF_IDLE),
        ("run('import os\\nimport chapter18.idle')", ALL_OF_IDLE),
        ("run('import chapter18')", {"__init__.py"}),
        ("print('all of chapter18')  # from chapter18 import idle", set()),
    ],
)
def test_a_change_counts_in_what_a_cell_imports_and_nowhere_else(
    lab, tmp_path, monkeypatch, code, followed
):
    package = tmp_path / "package"
    for name, text in PACKAGE.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(building, "PACKAGE", package)
    source = lab / "notebooks/source/01_first.md"
    cell = f"\n```{{code-cell}} ipython3\n{code}\n```\n"
    source.write_text(source.read_text(encoding="utf-8") + cell, encoding="utf-8")

    def digest():
        return building.assemble(source).metadata.chapter18.code_digest

    before, changed = digest(), set()
    for name, text in PACKAGE.items():
        (package / name).write_text(f"{text}more = 1\n", encoding="utf-8")
        changed |= {name} if digest() != before else set()
        (package / name).write_text(text, encoding="utf-8")
    assert changed == followed


def test_nothing_of_the_machine_or_the_clock_is_kept(lab):
    notebook = nbformat.read(lab / "notebooks/01_first.ipynb", as_version=4)
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
def test_check_names_what_differs(lab, old, new, fault):
    assert building.check(lab, ["1"]) == []
    edit(lab / "notebooks/source/01_first.md", old, new)
    (line,) = building.check(lab, ["1"])
    assert line.startswith("01_first: ")
    assert fault in line


def test_check_names_a_notebook_that_was_never_built(lab):
    (line,) = building.check(lab, ["2"])
    assert "02_second: its notebook is not built" in line


def test_a_failing_cell_leaves_the_old_notebook_alone(lab):
    notebook = lab / "notebooks/01_first.ipynb"
    before = notebook.read_bytes()
    edit(lab / "notebooks/source/01_first.md", "rows = 3", "rows = undefined_name")
    with pytest.raises(
        CourseError,
        match=r"(?s)Every cell.*01_first.*undefined_name.*Mend the cell in .*01_first\.md",
    ):
        list(building.build(lab, ["1"]))
    assert notebook.read_bytes() == before
    assert sorted(path.name for path in notebook.parent.iterdir()) == ["01_first.ipynb", "source"]


def change(path, function):
    """Change a notebook on the disk as Jupyter does: read, change, write."""
    notebook = nbformat.read(path, as_version=4)
    function(notebook)
    nbformat.write(notebook, path)


def with_other_rows(notebook):
    """Code edited and run: `rows = 9`, and the line that the print cell then prints."""
    notebook.cells[2].source = notebook.cells[2].source.replace("rows = 3", "rows = 9")
    notebook.cells[3].outputs[0].text = "9 0.5 a\n"


def with_a_cell(notebook):
    notebook.cells.insert(3, nbformat.v4.new_code_cell("mine = 1", execution_count=1))


def with_a_note(notebook):
    notebook.cells[0].source += "\nMy own note."


@pytest.mark.parametrize(
    ("edited", "named"),
    [
        (with_other_rows, r"edited since it was built: cell 2 \(`rows = 9`\)\. To keep"),
        (with_a_cell, r"edited since it was built: cell 3 \(`mine = 1`\)\. To keep"),
        (with_a_note, r"edited since it was built: cell 0 \(`# First`\)\. To keep"),
    ],
)
def test_what_was_edited_in_a_notebook_is_named_and_kept_until_discarded(lab, edited, named):
    notebook, source = lab / "notebooks/01_first.ipynb", lab / "notebooks/source/01_first.md"
    built = notebook.read_bytes()
    change(notebook, edited)
    before = notebook.read_bytes()
    for again in (False, True):
        with pytest.raises(CourseError, match=named):
            list(building.build(lab, ["1"], force=again))
    # Nor does another change of the source hide it.
    edit(source, "rate = 0.5", "rate = 0.25")
    with pytest.raises(CourseError, match=named):
        list(building.build(lab))
    assert notebook.read_bytes() == before
    assert not (lab / "notebooks/02_second.ipynb").exists(), "checked before anything runs"
    (line,) = building.check(lab, ["1"])
    assert "01_first: edited since it was built: cell " in line
    edit(source, "rate = 0.25", "rate = 0.5")
    done = "prose updated" if edited is with_a_note else "executed"
    assert dict(building.build(lab, ["1"], discard=True)) == {"01_first": done}
    assert notebook.read_bytes() == built


def test_an_edit_written_into_the_source_is_built(lab):
    notebook = lab / "notebooks/01_first.ipynb"
    change(notebook, with_other_rows)
    edit(lab / "notebooks/source/01_first.md", "rows = 3", "rows = 9")
    assert dict(building.build(lab, ["1"])) == {"01_first": "executed"}
    assert nbformat.read(notebook, as_version=4).cells[3].outputs[0].text.startswith("9 0.5 a ")
    assert building.check(lab) == ["02_second: its notebook is not built; " + CURE]


def without_outputs(notebook):
    for cell in notebook.cells[1:]:
        cell.outputs, cell.execution_count = [], None


def with_outputs_of_other_code(notebook):
    notebook.cells[3].outputs[0].text = "9 0.5 a\n"


def without_its_last_cell(notebook):
    del notebook.cells[-1]


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        (without_outputs, "it was run since it was built"),
        (with_outputs_of_other_code, "it was run since it was built"),
        (without_its_last_cell, "3 cells, 4 in the source"),
    ],
)
def test_what_build_did_not_make_is_made_again(lab, ran, said):
    notebook = lab / "notebooks/01_first.ipynb"
    built = notebook.read_bytes()
    change(notebook, ran)
    assert building.check(lab, ["1"]) == [f"01_first: {said}; {CURE}"]
    assert dict(building.build(lab, ["1"])) == {"01_first": "executed"}
    assert notebook.read_bytes() == built
    assert building.check(lab, ["1"]) == []


def test_a_notebook_that_papermill_has_overwritten_is_not_taken_for_the_course(lab):
    notebook = str(lab / "notebooks/01_first.ipynb")
    papermill.execute_notebook(notebook, notebook, {"rows": 2}, progress_bar=False)
    with pytest.raises(CourseError, match=r"edited since it was built: cell 3 \(`# Parameters`\)"):
        list(building.build(lab, ["1"]))


def test_jupyter_may_write_a_notebook_its_own_way(lab):
    notebook = lab / "notebooks/01_first.ipynb"

    def saved(node):
        node.metadata.language_info.version = "3.13"
        node.cells[3].metadata["scrolled"] = True

    change(notebook, saved)
    assert dict(building.build(lab, ["1"])) == {"01_first": "prose updated"}

    def without_ids(node):
        node.nbformat_minor = 4
        for cell in node.cells:
            del cell["id"]

    change(notebook, without_ids)
    assert dict(building.build(lab, ["1"])) == {"01_first": "prose updated"}


def test_a_notebook_from_before_seals_is_known_by_its_ids(lab):
    notebook = lab / "notebooks/01_first.ipynb"

    def unsealed(node):
        del node.metadata.chapter18["cells_digest"], node.metadata.chapter18["outputs_digest"]

    change(notebook, unsealed)
    assert building.edited(lab) == {}
    assert dict(building.build(lab, ["1"])) == {"01_first": "executed"}
    change(notebook, unsealed)
    change(notebook, with_other_rows)
    with pytest.raises(CourseError, match=r"cell 2 \(`rows = 9`\)"):
        list(building.build(lab, ["1"]))


def test_many_edits_are_counted_and_long_ones_cut(lab):
    notebook = lab / "notebooks/01_first.ipynb"

    def many(node):
        node.cells += [nbformat.v4.new_code_cell(f"a{'b' * 50} = {n}") for n in range(8)]

    change(notebook, many)
    first = f"cell 4 (`a{'b' * 39}…`)"
    (line,) = building.check(lab, ["1"])
    assert first in line
    assert line.count("(`") == 5
    assert "and 3 more" in line


def test_a_file_that_is_no_notebook_is_refused_until_discarded(lab):
    notebook = lab / "notebooks/01_first.ipynb"
    built = notebook.read_bytes()
    for torn in (built[:100], b"<<<<<<< HEAD\n" + built, b"\xff", b"[]"):
        notebook.write_bytes(torn)
        message = r"that Jupyter can read\. Received: .*01_first.* build 01_first --discard`"
        with pytest.raises(CourseError, match=message):
            list(building.build(lab, ["1"]))
        assert building.check(lab, ["1"]) == [f"01_first: its notebook cannot be read; {CURE}"]
        assert notebook.read_bytes() == torn
    assert dict(building.build(lab, ["1"], discard=True)) == {"01_first": "executed"}
    assert notebook.read_bytes() == built


def test_the_command_that_a_refusal_names_works(lab, monkeypatch, capsys):
    change(lab / "notebooks/01_first.ipynb", with_a_note)
    monkeypatch.chdir(lab)
    assert main(["build", "01_first"]) == 2
    words = capsys.readouterr().err.rpartition("`python -m course ")[2].split("`")[0].split()
    assert words == ["build", "01_first", "--discard"]
    assert main(words) == 0
    assert capsys.readouterr().out == "01_first: prose updated\n"


def test_a_persian_cell_is_named_on_a_terminal_that_knows_no_persian(lab):
    change(lab / "notebooks/01_first.ipynb", lambda node: node.cells[0].update(source="سلام"))
    done = subprocess.run(
        [sys.executable, "-m", "course", "build", "--check", "1"],
        cwd=lab,
        env=os.environ | {"PYTHONIOENCODING": "cp1252", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert rb"cell 0 (`\u0633\u0644\u0627\u0645`)" in done.stdout
