"""A built notebook on the disk: what of it `build` made, and what somebody has edited since.

A cell's id is a digest of its text, and two digests in the metadata seal the cells and their
outputs, so an edit is known even after the source has changed too.
"""

import hashlib
import json

from course.sections import CourseError

_NAMED = 5  # cells that a message names
_SHOWN = 40  # characters of a cell that a message shows


def read(section):
    """Return the notebook node of a `Section`.

    Raises `CourseError` when it is not built, or is no notebook (any more).
    """
    import nbformat  # slow, and not needed to find the course

    if not section.notebook.is_file():
        raise CourseError(
            f"A section is read from its built notebook. Received: no file {section.notebook}. "
            "Build it with `python -m course build`."
        )
    try:
        return nbformat.read(section.notebook, as_version=4)
    except Exception as cause:  # not text, not JSON, no notebook: nbformat raises many kinds
        raise CourseError(
            "A built notebook is a file that Jupyter can read. "
            f"Received: {section.notebook}, {type(cause).__name__}: {_start(str(cause))}. "
            f"Make it anew with `python -m course build {section.name} --discard`."
        ) from cause


def read_unedited(section):
    """Return the notebook node of a `Section`; raise `CourseError` also when it was edited."""
    notebook = read(section)
    found = edits(notebook)
    if found:
        raise CourseError(refusal(section, found))
    return notebook


def refusal(section, found):
    """Return the message that a notebook was edited: `found`, and how to keep or drop it."""
    return (
        "A notebook is made from its source, and what was edited in it would be lost. "
        f"Received: {section.notebook}, edited since it was built: {', '.join(found)}. "
        f"To keep an edit, write it into notebooks/source/{section.source.name}, or save the "
        "notebook under another name. Then drop the rest with "
        f"`python -m course build {section.name} --discard`."
    )


def identify(notebook):
    """Give each cell an id made from its kind and text, and from how often they came before.

    So a rebuild changes no id, and a reader's diff shows only real changes.
    """
    seen = set()
    for cell in notebook.cells:
        cell.id = next(name for name in _names(cell, notebook) if name not in seen)
        seen.add(cell.id)


def seal(notebook):
    """Note in the metadata of a notebook that is about to be written what it holds."""
    notebook.metadata.chapter18["cells_digest"] = _cells_digest(notebook)
    notebook.metadata.chapter18["outputs_digest"] = _outputs_digest(notebook)


def edits(notebook, kept=()):
    """Return a name for each cell that somebody edited or added, or say that some are gone.

    What also stands in `kept`, cells of the source as it is now, is not lost and not named;
    neither is, then, what `build` brings back.
    """
    sealed = notebook.metadata.get("chapter18", {}).get("cells_digest")
    if sealed == _cells_digest(notebook):
        return []
    texts = {(cell.cell_type, cell.source) for cell in kept}
    named = [
        f"cell {position} (`{_start(cell.source)}`)"
        for position, cell in enumerate(notebook.cells)
        if (cell.cell_type, cell.source) not in texts
        and cell.get("id") not in _names(cell, notebook)
    ]
    if len(named) > _NAMED:
        return [*named[:_NAMED], f"and {len(named) - _NAMED} more"]
    # Without a seal, the course is older than seals, and its ids tell all there is to tell.
    gone = sealed and not named and not kept
    return ["cells taken away or moved"] if gone else named


def has_its_outputs(notebook):
    """Whether the code and its outputs are those that `build` wrote: nobody ran it since."""
    said = notebook.metadata.get("chapter18", {})
    return said.get("outputs_digest") == _outputs_digest(notebook)


def _names(cell, notebook):
    """Yield the ids that `identify` may give the cell, in the order in which it tries them."""
    for repeat in range(len(notebook.cells)):
        text = f"{cell.cell_type}\n{cell.source}\n{repeat}"
        yield hashlib.sha256(text.encode()).hexdigest()[:12]


def _cells_digest(notebook):
    return _digest([(cell.cell_type, cell.source) for cell in notebook.cells])


def _outputs_digest(notebook):
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return _digest([(cell.source, cell.execution_count, cell.outputs) for cell in code])


def _digest(values):
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _start(text):
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _SHOWN else line[:_SHOWN].rstrip() + "…"
