import shlex
import shutil
import subprocess
import sys

import nbformat
import pytest
import tiny_course

from course import building, running, sections
from course.__main__ import main
from course.sections import CourseError


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tiny_course.write(tmp_path_factory.mktemp("course"))
    list(building.build(root))
    return root


def printed(path):
    return nbformat.read(path, as_version=4).cells[-2].outputs[0].text.split()


def test_runs_with_this_python_and_the_given_values(root, tmp_path, monkeypatch):
    monkeypatch.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS")
    results = running.run(root, ["1"], given=[("rows", "7"), ("rate", "2")], out=tmp_path)
    assert [(r.name, r.traceback) for r in results] == [("01_first", "")]
    assert printed(tmp_path / "01_first.ipynb") == ["7", "2.0", "a", sys.executable, "None"]


def test_quick_takes_the_small_parameters_and_a_given_value_wins(root, tmp_path):
    running.run(root, quick=True, given=[("label", "b")], out=tmp_path)
    for name in ("01_first", "02_second"):
        rows, rate, label, _, unoptimized = printed(tmp_path / f"{name}.ipynb")
        assert (rows, rate, label, unoptimized) == ("2", "0.5", "b", "1")


@pytest.mark.parametrize(
    ("wanted", "given", "message"),
    [
        (["03"], [], r"named by its number.*Received: '03'.*Valid: 01_first, 02_second"),
        ([], [("rowz", "3")], r"(?s)Received: 'rowz'.*01_first: rows, rate, label"),
        ([], [("rows", "many")], r"rows is of type int. Received: 'many'.*default, 3"),
        ([], [("rows", "True")], r"rows is of type int. Received: 'True'"),
        ([], [("rows", "3.5")], r"rows is of type int. Received: '3.5'"),
        ([], [("rate", "fast")], r"rate is of type float. Received: 'fast'.*default, 0.5"),
    ],
)
def test_bad_requests_are_refused_before_anything_runs(root, tmp_path, wanted, given, message):
    out = tmp_path / "out"
    with pytest.raises(CourseError, match=message):
        running.run(root, wanted, given=given, out=out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (tiny_course.SETUP, r"one cell tagged 'parameters', .* Received: none in 01_first"),
        (
            tiny_course.PARAMETERS.replace("rate = 0.5", "rate = rows / 2"),
            r"`name = literal` lines\. Received: .*, rate = rows / 2, .* in 01_first",
        ),
    ],
)
def test_a_bad_parameters_cell_is_refused(tmp_path, cells, message):
    root = tiny_course.write(tmp_path, first=cells)
    with pytest.raises(CourseError, match=message):
        running.run(root, ["01"])


@pytest.fixture
def own(root, tmp_path):
    """A copy of the course, and its first built notebook, to write into."""
    course = shutil.copytree(root, tmp_path / "course")
    return course, course / "notebooks/01_first.ipynb"


def test_the_notebooks_are_never_written_over(own, tmp_path, monkeypatch, capsys):
    root, notebook = own
    monkeypatch.chdir(root / "notebooks")
    (tmp_path / "link").symlink_to(root / "notebooks")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/01_first.ipynb").symlink_to(notebook)
    (tmp_path / "hard").mkdir()
    (tmp_path / "hard/01_first.ipynb").hardlink_to(notebook)
    (tmp_path / "file").touch()
    before = notebook.read_bytes()
    outside = "written outside their folder"
    for out, message in [
        (root / "notebooks", outside),
        (root / "build/../notebooks", outside),
        (root / "notebooks/new/folder", outside),
        (".", outside),
        (tmp_path / "link", outside),
        (tmp_path / "link/new", outside),
        (tmp_path / "in", "in/01_first.ipynb, a link to a file inside"),
        (tmp_path / "hard", "hard/01_first.ipynb, a link to a file inside"),
        (tmp_path / "file", "written into a folder"),
        (tmp_path / "file/new", "file is a file. Name a folder"),
    ]:
        assert main(["run", "--quick", "--out", str(out)]) == 2, out
        assert message in capsys.readouterr().err
        with pytest.raises(CourseError, match=message):
            running.run(root, quick=True, out=out)
    assert notebook.read_bytes() == before
    assert sorted(path.name for path in (root / "notebooks").iterdir()) == [
        *("01_first.ipynb", "02_second.ipynb", "source")
    ]


def test_what_runs_is_the_source_and_edits_in_the_notebook_are_named(
    own, tmp_path, monkeypatch, capsys
):
    root, notebook = own
    node = nbformat.read(notebook, as_version=4)
    node.cells[2].source = node.cells[2].source.replace("rows = 3", "rows = 9")
    nbformat.write(node, notebook)
    monkeypatch.chdir(root)
    assert main(["run", "1", "--out", str(tmp_path / "out")]) == 0
    assert printed(tmp_path / "out/01_first.ipynb")[:3] == ["3", "0.5", "a"]
    said = capsys.readouterr().err
    assert "not what was edited in" in said
    assert "cell 2 (`rows = 9`)" in said
    # The other way that it names.
    typed = said.partition("`python -m ")[2].partition("`")[0]
    words = shlex.split(typed.replace("OUT.ipynb", str(tmp_path / "out.ipynb")))
    subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True, timeout=120)
    assert (
        nbformat.read(tmp_path / "out.ipynb", as_version=4)
        .cells[3]
        .outputs[0]
        .text.startswith("9 ")
    )


def test_a_section_runs_before_it_is_built(tmp_path):
    root = tiny_course.write(tmp_path, first=tiny_course.PARAMETERS)
    (result,) = running.run(root, ["1"])
    assert result.traceback == ""
    assert (root / "build/01_first.ipynb").is_file()


def test_a_failing_notebook_does_not_stop_the_next_and_is_shown(tmp_path, monkeypatch, capsys):
    body = tiny_course.PARAMETERS + "```{code-cell} ipython3\nraise ValueError('on purpose')\n```\n"
    root = tiny_course.write(tmp_path, first=body)
    monkeypatch.chdir(root)
    assert main(["run"]) == 1
    text = capsys.readouterr().out
    assert "ValueError: on purpose" in text
    assert [line.split()[::2] for line in text.splitlines()[-2:]] == [
        ["01_first", "failed"],
        ["02_second", "passed"],
    ]


def test_a_misspelt_parameter_exits_2_and_names_the_right_one(root, monkeypatch, capsys):
    monkeypatch.chdir(root)
    assert main(["run", "01", "-p", "rowz", "3"]) == 2
    assert "rows" in capsys.readouterr().err
    assert not (root / "build").exists()


def test_outside_a_course_the_command_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sections, "__file__", str(tmp_path / "elsewhere" / "sections.py"))
    monkeypatch.chdir(tmp_path)
    assert main(["run"]) == 2
    assert "must run inside a copy of the course" in capsys.readouterr().err
