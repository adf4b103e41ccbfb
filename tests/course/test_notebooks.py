"""What every committed notebook owes its reader, checked without running it."""

import re
from pathlib import Path

import nbformat
import pytest

from course import building, sections

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
SECTIONS = sections.sections(ROOT)
MAGIC = re.compile(r"^\s*(?:[%!]|\w+\s*=\s*[%!])\s*(\w*)", re.MULTILINE)
LARGEST = 600_000


def structure_faults(notebook):
    """Yield what breaks the structure that readers, papermill and nbval rely on."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    tags = [cell.metadata.get("tags", []) for cell in code]
    if not ("setup" in tags[0] and "parameters" in tags[1]):
        yield "the first two code cells are not tagged setup, parameters"
    if "completion" not in tags[-1]:
        yield "the last code cell is not tagged completion"
    for cell in code:
        yield from _cell_faults(cell)


def _cell_faults(cell):
    head = cell.source.strip().splitlines()[0]
    if cell.execution_count is None:
        yield f"no execution count: {head}"
    for output in cell.outputs:
        if output.output_type == "error":
            yield f"error output {output.ename}: {head}"
        elif output.get("name") == "stderr":
            yield f"output on stderr: {head}"
    for magic in MAGIC.findall(cell.source):
        if magic != "pip" or "setup" not in cell.metadata.get("tags", []):
            yield f"magic or shell line %{magic}: {head}"


@pytest.fixture(params=SECTIONS, ids=lambda section: section.name)
def section(request):
    return request.param


def test_there_are_sections():
    assert SECTIONS


def test_notebook_equals_its_source(section):
    assert building.check(ROOT, [section.name]) == []


def test_structure(section):
    assert list(structure_faults(nbformat.read(section.notebook, as_version=4))) == []


def test_valid_and_small_enough(section):
    nbformat.validate(nbformat.read(section.notebook, as_version=4))
    assert section.notebook.stat().st_size < LARGEST


def test_parameters_are_literals_and_quick_ones_exist(section):
    notebook = nbformat.read(section.notebook, as_version=4)
    values = sections.parameters(notebook, section.name)
    (cell,) = (c for c in notebook.cells if "parameters" in c.metadata.get("tags", []))
    assert [line.split(" = ")[0] for line in cell.source.splitlines() if line[:1] not in "# "] == [
        *values
    ], "lines other than `name = literal`"
    quick = notebook.metadata.chapter18.quick
    assert quick
    assert set(quick) <= set(values)
    assert any(quick[name] != values[name] for name in quick)


def test_every_notebook_has_a_source():
    assert sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb")) == [
        section.name for section in SECTIONS
    ]


def sound_notebook():
    cells = [
        nbformat.v4.new_code_cell("%pip install x", metadata={"tags": ["setup"]}),
        nbformat.v4.new_code_cell("rows = 1", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("print(rows % 2)", metadata={"tags": ["completion"]}),
    ]
    for count, cell in enumerate(cells, start=1):
        cell.execution_count = count
    return nbformat.v4.new_notebook(cells=cells)


def test_a_sound_notebook_passes():
    assert list(structure_faults(sound_notebook())) == []


@pytest.mark.parametrize(
    ("position", "change", "fault"),
    [
        (0, {"metadata": {"tags": []}}, "not tagged setup"),
        (1, {"metadata": {"tags": []}}, "not tagged setup, parameters"),
        (2, {"metadata": {"tags": []}}, "not tagged completion"),
        (1, {"execution_count": None}, "no execution count: rows = 1"),
        (2, {"source": "%timeit f()"}, "magic or shell line %timeit"),
        (2, {"source": "%%bash\nls"}, "magic or shell line %"),
        (2, {"source": "if x:\n    !false"}, "magic or shell line %false"),
        (2, {"source": "files = !ls"}, "magic or shell line %ls"),
        (2, {"source": "%pip install x"}, "magic or shell line %pip"),
        (2, {"outputs": [nbformat.v4.new_output("error", ename="E")]}, "error output E"),
        (2, {"outputs": [nbformat.v4.new_output("stream", name="stderr")]}, "on stderr"),
    ],
)
def test_a_broken_notebook_is_told(position, change, fault):
    notebook = sound_notebook()
    notebook.cells[position].update(change)
    assert any(fault in line for line in structure_faults(notebook))
