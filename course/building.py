"""Build notebooks from their text: MyST sources in, executed and normalised `.ipynb` out."""

import ast
import contextlib
import functools
import hashlib
import io
import re
import tempfile
import tokenize
from pathlib import Path

import jupytext
import nbformat

import chapter18
from course import built, sections
from course.sections import CourseError

PACKAGE = Path(chapter18.__file__).parent
_KEPT = ("alt", "tags")  # `alt` describes the cell's figure: {"en": text, "fa": text}
# At the start of a line or of a string, as some cells write a child's program into a string.
_IMPORTS = re.compile(
    r"""(?:^|["';]|\\n)\s*(?:from|import) (chapter18[\w.]*)"""
    r"(?: import (?:\(([^)]+)\)|([\w, ]+)))?",
    re.MULTILINE,
)
REPOSITORY = re.compile(r'^REPOSITORY = ".*?"', re.MULTILINE)


def build(root, wanted=(), *, force=False, discard=False):
    """Bring the notebooks of the sections up to their sources; yield `(name, what was done)`.

    A notebook is executed again only when its code, or the code of a module of `chapter18` that it
    uses, has changed, when somebody else has run it (or with `force`); new prose, comments and
    docstrings keep the outputs. Where nothing changed, the file stays identical to the byte.

    Raises `CourseError` when a cell fails and, before anything is executed, when a notebook holds
    edits that its source does not, or cannot be read; `discard` gives both up.
    """
    jobs = []
    for section in sections.sections(root, wanted):
        fresh = assemble(section.source)
        old = _kept(section, fresh, discard)
        jobs.append((section, fresh, None if force or old is None else _outputs_of(old, fresh)))
    for section, fresh, outputs in jobs:
        if outputs is None:
            _execute(fresh, section.name)
        else:
            for cell, (count, made) in zip(_code(fresh), outputs, strict=True):
                cell.execution_count, cell.outputs = count, made
        yield section.name, _write(section.notebook, fresh, executed=outputs is None)


def check(root, wanted=()):
    """Return a line for each notebook that differs from its source: what differs and the cure."""
    faults = []
    for section in sections.sections(root, wanted):
        difference = _difference(section)
        if difference:
            faults.append(f"{section.name}: {difference}; run `python -m course build`")
    return faults


def edited(root, wanted=()):
    """Return `{section: names of its cells}` of the notebooks that hold what no source holds.

    One that is missing or cannot be read holds nothing.
    """
    found = {}
    for section in sections.sections(root, wanted):
        with contextlib.suppress(CourseError):
            cells = built.edits(built.read(section), assemble(section.source).cells)
            found |= {section: cells} if cells else {}
    return found


def assemble(source):
    """Return the notebook node that a MyST source describes: no outputs, ids from its content."""
    text = jupytext.read(source, fmt="md:myst")
    notebook = nbformat.v4.new_notebook(
        metadata={
            "chapter18": dict(text.metadata.get("chapter18", {})),
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            # Fixed, because the version of the Python that built it is no concern of the reader's.
            "language_info": {
                "file_extension": ".py",
                "mimetype": "text/x-python",
                "name": "python",
            },
        }
    )
    for cell in text.cells:
        cell.metadata = {key: cell.metadata[key] for key in _KEPT if cell.metadata.get(key)}
    notebook.cells = text.cells
    built.identify(notebook)
    notebook.metadata.chapter18["code_digest"] = _digest(notebook)
    return notebook


def _code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _digest(notebook):
    # The stamped address changes no result, so stamping it need not cost a run.
    code = "\n\n".join(REPOSITORY.sub("REPOSITORY", cell.source) for cell in _code(notebook))
    digest = hashlib.sha256(code.encode())
    for path in _modules(code, set()):
        digest.update(_what_runs(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:16]


@functools.cache
def _what_runs(text):
    """The module's text without comments, docstrings and blank lines, which change no output."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _modules(code, found):
    """The paths, added to `found`, of the package's modules that `code` and they import."""
    for path in sorted(_imported(code) - found):
        found.add(path)
        _modules(_what_runs(path.read_text(encoding="utf-8")), found)
    return sorted(found)


def _imported(code):
    paths = set()
    for dotted, *lists in _IMPORTS.findall(re.sub("#.*", "", code)):
        names = [line.split()[0] for line in "".join(lists).split(",") if line.strip()]
        paths |= {path for name in ["", *names] for path in _paths_of(f"{dotted}.{name}")}
    return paths


def _paths_of(dotted):
    """Files that importing `chapter18.….name` runs: its own, if it is a module, and the faces."""
    parts = [part for part in dotted.split(".")[1:] if part]
    folders = [PACKAGE.joinpath(*parts[:length]) for length in range(len(parts) + 1)]
    faces = (folder / "__init__.py" for folder in folders)
    return [path for path in (*faces, folders[-1].with_suffix(".py")) if path.is_file()]


def _kept(section, fresh, discard):
    """The section's notebook as it stands, or None; refuses one whose edits would be lost."""
    if not section.notebook.is_file():
        return None
    try:
        notebook = built.read(section)
    except CourseError:
        if not discard:
            raise
        return None
    lost = built.edits(notebook, fresh.cells)
    if lost and not discard:
        raise CourseError(built.refusal(section, lost))
    return notebook


def _outputs_of(notebook, fresh):
    made_from = notebook.metadata.get("chapter18", {}).get("code_digest")
    if made_from != fresh.metadata.chapter18.code_digest or not built.has_its_outputs(notebook):
        return None
    return [(cell.execution_count, cell.outputs) for cell in _code(notebook)]


def _execute(notebook, name):
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder, sections.this_kernel() as kernel:
        # An empty folder, because that is where a reader's lone notebook stands in Colab.
        client = NotebookClient(
            notebook,
            kernel_name=kernel,
            timeout=None,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        try:
            client.execute()
        except Exception as error:  # a failed cell, or a kernel that died
            raise CourseError(
                "Every cell of a built notebook runs. "
                f"Received, in {name}:\n{type(error).__name__}: {error}\n"
                f"Mend the cell in notebooks/source/{name}.md, or the module that it uses."
            ) from error
    for cell in _code(notebook):
        cell.metadata.pop("execution", None)
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {
        key: notebook.metadata["language_info"][key]
        for key in ("file_extension", "mimetype", "name")
    }


def _write(path, notebook, *, executed):
    built.seal(notebook)
    text = nbformat.writes(notebook, version=4) + "\n"
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return "executed, same outputs" if executed else "unchanged"
    sections.write_whole(path, text)
    return "executed" if executed else "prose updated"


def _difference(section):
    if not section.notebook.is_file():
        return "its notebook is not built"
    try:
        notebook = built.read(section)
    except CourseError:
        return "its notebook cannot be read"
    source = assemble(section.source)
    lost = built.edits(notebook, source.cells)
    if lost:
        return f"edited since it was built: {', '.join(lost)}"
    return _difference_of_cells(source, notebook)


def _difference_of_cells(source, notebook):
    if len(source.cells) != len(notebook.cells):
        return f"{len(notebook.cells)} cells, {len(source.cells)} in the source"
    for position, (ours, theirs) in enumerate(zip(source.cells, notebook.cells, strict=True)):
        for part in ("id", "cell_type", "source", "metadata"):
            if ours.get(part) != theirs.get(part):
                return f"cell {position} differs in its {part}"
    if source.metadata.chapter18.get("quick") != notebook.metadata.chapter18.get("quick"):
        return "the quick parameters differ"
    return "" if built.has_its_outputs(notebook) else "it was run since it was built"
