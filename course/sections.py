"""Where the course lives: its folder, its sections, what they say of themselves, their kernel."""

import ast
import contextlib
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from chapter18._shared.replacing import replacing

DIGITS = {"en": "0123456789", "fa": "۰۱۲۳۴۵۶۷۸۹"}


class CourseError(Exception):
    """A request the course cannot meet; the message is meant for the person who made it."""


class Section(NamedTuple):
    """One section: its name (`01_hyperparameter_optimization`), MyST source and built notebook."""

    name: str
    source: Path
    notebook: Path


class About(NamedTuple):
    """A section in one language, all of it text in that language's digits.

    `name` is its number and name, `minutes` how long it takes on a laptop, and `accelerator` what
    changes on a GPU or a TPU.
    """

    name: str
    minutes: str
    accelerator: str


def find_root(start=None):
    """Return the course's folder: the nearest one at or above `start` with `notebooks/source`.

    Without `start`, the current folder is tried, then the folder that holds this package.
    Raises `CourseError` when neither lies inside a copy of the course.
    """
    starts = [Path(start)] if start else [Path.cwd(), Path(__file__).parent]
    for folder in starts:
        for candidate in (folder.resolve(), *folder.resolve().parents):
            if (candidate / "notebooks" / "source").is_dir():
                return candidate
    raise CourseError(
        "The command must run inside a copy of the course, a folder with notebooks/source. "
        f"Received: {starts[0].resolve()}. Change to the course's folder and run it again."
    )


def sections(root, wanted=()):
    """Return the `Section`s named in `wanted` (`01`, `1` or a full name), all of them if empty.

    Raises `CourseError` that lists the valid names when one is unknown.
    """
    folder = root / "notebooks"
    known = [
        Section(path.stem, path, folder / f"{path.stem}.ipynb")
        for path in sorted((folder / "source").glob("[0-9][0-9]_*.md"))
    ]
    if not wanted:
        return known
    return [_section(name, known) for name in wanted]


def _section(wanted, known):
    for section in known:
        if wanted == section.name or wanted.zfill(2) == section.name[:2]:
            return section
    names = ", ".join(section.name for section in known)
    raise CourseError(
        f"A section is named by its number or its name. Received: {wanted!r}. Valid: {names}."
    )


def check_out(root, out, files=()):
    """Return `out`, resolved: a folder, new or not, where `files` may be written.

    Raises `CourseError` when it lies among the course's own notebooks, however the path is
    spelt, when one of `files` in it is a link to such a notebook, and when it is no folder.
    """
    folder, kept = Path(out).resolve(), root / "notebooks"
    standing = next(path for path in (folder, *folder.parents) if path.exists())
    if any(path.samefile(kept) for path in (standing, *standing.parents)):
        raise CourseError(
            "What is made from the notebooks is written outside their folder. "
            f"Received: --out {out}, inside {kept}. Name another folder, for example build/."
        )
    if not standing.is_dir():
        raise CourseError(
            "What is made from the notebooks is written into a folder. "
            f"Received: --out {out}, where {standing} is a file. "
            "Name a folder, which may be a new one."
        )
    own = [path for path in kept.rglob("*") if path.is_file()]
    for target in (folder / file for file in files):
        if target.exists() and any(target.samefile(path) for path in own):
            raise CourseError(
                "What is made from the notebooks is written outside their folder. "
                f"Received: {target}, a link to a file inside {kept}. "
                "Remove the link, or name another folder with --out."
            )
    return folder


def about(front, section, language):
    """Return `About` for `language` ("fa" or "en") from `front`, the section's front matter.

    `section` only serves the messages. Raises `CourseError` when the title is not a number, an
    English and a Persian name, or when a language has no text on accelerators.
    """
    parts, texts = front.title.split(" · "), front.accelerator
    if len(parts) != 3:
        raise CourseError(
            "A section's title is its number, its English and its Persian name. "
            f"Received: {front.title!r} in {section}. "
            "Write it as `1 · First · نخست` in its front matter."
        )
    if not isinstance(texts, dict) or set(texts) != set(DIGITS):
        raise CourseError(
            "What changes on an accelerator is said in both languages. "
            f"Received: {texts!r} in {section}. "
            "Give `accelerator` an `en` and a `fa` in its front matter."
        )
    number, english, persian = parts
    digits = str.maketrans(DIGITS["en"], DIGITS[language])
    return About(
        name=f"{number.translate(digits)} · {persian if language == 'fa' else english}",
        minutes=str(front.minutes).translate(digits),
        accelerator=texts[language],
    )


def parameters(notebook, name):
    """Return the parameters of a notebook node as a dict of plain values, in their order.

    `name` only serves the messages. Raises `CourseError` when no cell tagged `parameters` sets
    any, or when one is no literal: a derived value would go stale as soon as papermill replaces
    the one it was derived from.
    """
    import papermill  # a second, and not needed to find the course

    found = papermill.inspect_notebook(notebook)
    try:
        values = {each: ast.literal_eval(said["default"]) for each, said in found.items()}
    except (ValueError, SyntaxError):
        values = {}
    if not values:
        lines = [f"{each} = {said['default']}" for each, said in found.items()]
        raise CourseError(
            "A notebook has one cell tagged 'parameters', of `name = literal` lines. "
            f"Received: {', '.join(lines) or 'none'} in {name}. "
            "Tag that cell, and move what is derived from a parameter to a later one."
        )
    return values


@contextlib.contextmanager
def this_kernel(**environment):
    """Make the kernel name `python3` mean this very Python, whatever kernels the user installed.

    Its processes find the variables of `environment` set.
    """
    from ipykernel.kernelspec import write_kernel_spec  # slow, and not needed to find the course

    # Debugging is not wanted headless, and its start-up warning would land on stderr.
    environment["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    # A backend chosen for scripts (say, agg) would keep figures out of the notebook.
    environment["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    before = os.environ.get("JUPYTER_PATH")
    with tempfile.TemporaryDirectory() as folder:
        write_kernel_spec(
            Path(folder, "kernels", "python3"),
            overrides={"env": environment},
            # A kernel on this machine need not warn that its socket is not encrypted.
            extra_arguments=["--IPKernelApp.log_level=ERROR"],
        )
        # JUPYTER_PATH comes before the user's and the system's own kernels.
        os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [folder, before]))
        try:
            yield "python3"
        finally:
            if before is None:
                del os.environ["JUPYTER_PATH"]
            else:
                os.environ["JUPYTER_PATH"] = before


def write_whole(path, text):
    """Write `text` to `path` at once or not at all: a reader never meets half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
