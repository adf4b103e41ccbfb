"""Nothing of ours needs what only POSIX has: names, modules, start methods, the system's encoding.

`tests/no_posix` takes those names away and runs everything; this reads what it does not reach.
Tests may leave the encoding to the system: what they write is ASCII.
"""

import ast
import contextlib
import functools
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIM = ROOT / "tests" / "no_posix" / "sitecustomize.py"
# These have to write the names.
ABOUT_THEM = [Path(__file__).with_name(f"test_{name}.py") for name in ("portable", "no_posix")]
FILES = [
    path
    for folder in ("chapter18", "course", "tests", "benchmarks", "recordings", "notebooks/source")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md") and path not in (SHIM, *ABOUT_THEM)
]
_OF_TESTS = ROOT / "tests"
# Where a line may name one all the same, because it asks first whether the name is there.
ASKED = re.compile(r"hasattr\(|getattr\(|get_all_start_methods\(")


@functools.cache
def missing():
    """What the shim takes away, as `module.name`, and the modules."""
    tree = ast.parse(SHIM.read_text(encoding="utf-8"))
    values = {
        statement.targets[0].id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    }
    keys, tuples = values["MISSING"].keys, values["MISSING"].values
    names = [
        f"{module.id}.{constant.value}"
        for module, names in zip(keys, tuples, strict=True)
        for constant in ast.walk(names)
        if isinstance(constant, ast.Constant)
    ]
    return names, ast.literal_eval(values["MODULES"])


CELL = re.compile(r"```\{code-cell\}[^\n]*\n(?:---\n.*?\n---\n|(?::[^\n]*\n)*)(.*?)```", re.DOTALL)


def sources(path):
    """The Python in a file, as trees and lines: its own or its cells', and programs in strings."""
    text = path.read_text(encoding="utf-8")
    # A line of IPython's own (`%pip`, `!ls`) is none of Python's, but may be a block's only one.
    cells = [re.sub(r"(?m)^( *)[%!].*$", r"\1pass", cell) for cell in CELL.findall(text)]
    codes = cells if path.suffix == ".md" else [text]
    found = [(ast.parse(code), code.splitlines()) for code in codes]
    for tree, _ in found:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                with contextlib.suppress(SyntaxError, ValueError):  # a text, or a template
                    program = ast.parse(textwrap.dedent(node.value))
                    if any(isinstance(line, ast.Import | ast.ImportFrom) for line in program.body):
                        found.append((program, textwrap.dedent(node.value).splitlines()))
    return found


def faults(tree, lines):
    names, modules = missing()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in names and not any(
                map(ASKED.search, lines[max(0, node.lineno - 3) : node.lineno])
            ):
                yield f"{name}, line {node.lineno}"
        elif isinstance(node, ast.Import):
            yield from (f"import {a.name}" for a in node.names if a.name.split(".")[0] in modules)
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            yield f"from {node.module} import …"
        elif isinstance(node, ast.Call):
            yield from _faults_of_call(node)


def _faults_of_call(node):
    """Text in the encoding of the system, and an option of one system only."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    if "preexec_fn" in options:
        yield f"preexec_fn, line {node.lineno}"
    if "encoding" in options or None in options:
        return
    if name in ("read_text", "write_text"):
        position = 0 if name == "read_text" else 1
        if len(node.args) <= position and not _reads_no_file(node):
            yield f"{name} without an encoding, line {node.lineno}"
    elif isinstance(node.func, ast.Name) and name == "open":
        mode = node.args[1] if len(node.args) > 1 else options.get("mode", ast.Constant("r"))
        if not (isinstance(mode, ast.Constant) and "b" in str(mode.value)):
            yield f"open without an encoding, line {node.lineno}"
    elif any(
        isinstance(options.get(n), ast.Constant) and options[n].value is True
        for n in ("text", "universal_newlines")
    ):
        yield f"text=True without an encoding, line {node.lineno}"


def _reads_no_file(node):
    """`distribution(…).read_text(name)` of importlib.metadata is UTF-8 by itself."""
    return "distribution" in ast.unparse(node.func)


def test_every_file_runs_anywhere():
    found = [
        f"{path.relative_to(ROOT).as_posix()}: {fault}"
        for path in FILES
        for tree, lines in sources(path)
        for fault in faults(tree, lines)
        if not (path.is_relative_to(_OF_TESTS) and "encoding" in fault)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("os.killpg(1, 2)", "os.killpg, line 1"),
        ("x = 1\n\n\n\nsignal.SIGKILL", "signal.SIGKILL, line 5"),
        ("import fcntl", "import fcntl"),
        ("from resource import getrusage", "from resource import …"),
        ("path.write_text('a')", "write_text without an encoding, line 1"),
        ("open('a')", "open without an encoding, line 1"),
        ("run(command, text=True)", "text=True without an encoding, line 1"),
        ("Popen(command, preexec_fn=f)", "preexec_fn, line 1"),
    ],
)
def test_each_kind_of_fault_is_found(code, fault):
    assert list(faults(ast.parse(code), code.splitlines())) == [fault]


@pytest.mark.parametrize(
    "code",
    [
        "if hasattr(os, 'killpg'):\n    os.killpg(1, 2)",
        "path.read_text('utf-8')",
        "path.write_text('a', encoding='utf-8')",
        "open('a', 'rb')",
    ],
)
def test_what_runs_anywhere_is_no_fault(code):
    assert list(faults(ast.parse(code), code.splitlines())) == []


def test_cells_are_read(tmp_path):
    path = tmp_path / "a.md"
    cells = ("---\nmystnb:\n  figure: one\n---\nos.fork()", ":tags: [a]\n\nimport fcntl")
    path.write_text(
        "".join(f"text\n\n```{{code-cell}} ipython3\n{cell}\n```\n" for cell in cells), "utf-8"
    )
    found = [fault for tree, lines in sources(path) for fault in faults(tree, lines)]
    assert found == ["os.fork, line 1", "import fcntl"]


def test_programs_in_strings_are_read(tmp_path):
    path = tmp_path / "a.py"
    path.write_text('CODE = """\nimport os\nos.fork()\n"""\n', encoding="utf-8")
    (fault,) = [fault for tree, lines in sources(path) for fault in faults(tree, lines)]
    assert fault == "os.fork, line 3"
