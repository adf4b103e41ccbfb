"""The notebooks in one language: same code and outputs, the other language's cells gone."""

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

import nbformat

from course import built, sections
from course.sections import CourseError

LANGUAGES = ("fa", "en")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?)[ #]*$", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([\w.-]+\.ipynb)?#([^)\s]+)(?=\))")


class Edition(NamedTuple):
    """A section in one language: its name (`01_hyperparameter_optimization`) and notebook node."""

    name: str
    notebook: nbformat.NotebookNode


def write(root, wanted=(), *, language, out):
    """Write the sections in `language` ("fa" or "en") into `out`; return the paths written.

    Everything is checked before anything is written. Raises `CourseError` for an unknown language
    or section, a notebook that is not built or was edited, and an `out` among the notebooks.
    """
    check_language(language, LANGUAGES)
    files = [section.notebook.name for section in sections.sections(root, wanted)]
    out = sections.check_out(root, out, files)
    made = editions(root, wanted, language=language)
    for file, edition in zip(files, made, strict=True):
        sections.write_whole(out / file, nbformat.writes(edition.notebook, version=4) + "\n")
    return [out / file for file in files]


def editions(root, wanted=(), *, language):
    """Return an `Edition` for each section; twins carry the same cell id in both languages.

    A link to a heading of any section leads to that heading's twin in `language`. Raises
    `CourseError` for an unknown section and for a notebook that is not built or was edited.
    """
    chosen = [(s.name, built.read_unedited(s)) for s in sections.sections(root, wanted)]
    anchors = {
        f"{section.name}.ipynb": _anchors(built.read(section), language)
        for section in sections.sections(root)
        if section.notebook.is_file()
    }
    return [Edition(name, _edition(name, node, language, anchors)) for name, node in chosen]


def check_language(language, valid):
    """Raise `CourseError` unless `language` is one of `valid`."""
    if language not in valid:
        raise CourseError(
            f"The language is one of {', '.join(valid)}. Received: {language!r}. "
            "Name one of them with --lang."
        )


def anchor(heading):
    """Return the anchor that JupyterLab gives a heading, written as plain text or Markdown."""
    return re.sub(r"[`*]|<[^>]*>", "", heading).strip().replace(" ", "-")


def _edition(name, notebook, language, anchors):
    kept, twin = [], None
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            persian = _is_persian(cell)
            # One id for both twins, so that a reader can change the language at the same place.
            cell.id = (persian and twin) or cell.id
            twin = None if persian else cell.id
            if persian != (language == "fa"):
                continue
            cell.source = _with_links(cell.source, f"{name}.ipynb", anchors)
        elif "alt" in cell.metadata:
            cell.metadata.alt = cell.metadata.alt[language]
        kept.append(cell)
    notebook.cells = kept
    notebook.metadata.chapter18["language"] = language
    return notebook


def _is_persian(cell):
    return cell.cell_type == "markdown" and cell.source.startswith('<div dir="rtl" lang="fa">')


def _with_links(text, here, anchors):
    def twin(link):
        file, target = link[1] or "", unquote(link[2])
        return f"{file}#{quote(anchors.get(file or here, {}).get(target, target))}"

    return _LINK.sub(twin, text)


def _anchors(notebook, language):
    """Map each heading's anchor, in either language, to its anchor in `language`."""
    prose = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    english = _headings(cell for cell in prose if not _is_persian(cell))
    persian = _headings(cell for cell in prose if _is_persian(cell))
    kept = persian if language == "fa" else english
    return dict(zip(english + persian, kept + kept, strict=False))


def _headings(cells):
    return [
        anchor(heading)
        for cell in cells
        for heading in _HEADING.findall(_FENCE.sub("", cell.source))
    ]
