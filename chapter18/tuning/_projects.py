"""The folder of a search: which of its files are the search's own, and how only those go."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from chapter18.tuning import _snapshots

_DISCARDED = "snapshot.json.discarded"
_PROJECT_FILES = re.compile(r"(oracle|tuner\d*|chief|worker_?\d*)\.json|snapshot\.json(\.backup)?")
_TRIAL_FILES = re.compile(
    r"trial\.json|executions\.json(\.backup)?|checkpoint\.weights\.h5|build_config\.json"
)
_TRIAL_FOLDER = re.compile(r"trial_\d+")
_TEMPORARY = re.compile(r"\.(.+)\.\d+\.tmp")


def prepare(project: Path) -> None:
    """Make the folder of a search, and finish what a killed `discard` began.

    Raises `ValueError` where something else than a folder stands in the way.
    """
    for path in (project, *project.parents):
        if (path.exists() or path.is_symlink()) and not path.is_dir():
            raise ValueError(
                "The project folder of a search must be a folder. "
                f"Received: {path}, which is none. Choose another directory or project_name."
            )
    project.mkdir(parents=True, exist_ok=True)
    if (project / _DISCARDED).exists():
        discard(project)


def discard(project: Path) -> None:
    """Remove the search that the folder holds, if it holds one: its own files and nothing else.

    A mark, removed last, lets `prepare` finish what a kill interrupts.
    """
    mark = project / _DISCARDED
    if not (mark.exists() or _holds_a_search(project)):
        return
    mark.touch()
    for path in [*own_files(project), *_temporaries(project)]:
        path.unlink()
    for folder in _trial_folders(project):
        # Files of others stay, and with them their folder.
        with contextlib.suppress(OSError):
            folder.rmdir()
    mark.unlink()


def require_free(project: Path) -> None:
    """Raise `ValueError` where a new search would overwrite files that no search wrote."""
    foreign = sorted(path.relative_to(project).as_posix() for path in own_files(project))
    if foreign:
        raise ValueError(
            "A new search must not overwrite files that make_tuner did not write. "
            f"Received: {', '.join(foreign[:5])} in {project}. "
            "Choose another project_name, or move these files away."
        )


def remove_leftovers(project: Path, trial_ids) -> None:
    """Remove what a kill left half written, and trials that no snapshot knows."""
    known = {f"trial_{trial_id}" for trial_id in trial_ids}
    for temporary in list(_temporaries(project)):
        temporary.unlink()
    for folder in _trial_folders(project):
        if folder.name not in known:
            (folder / "trial.json").unlink(missing_ok=True)


def own_files(project: Path) -> Iterator[Path]:
    """Yield the files that have a name, and a place, in which a search writes."""
    yield from _named(project, _PROJECT_FILES)
    for folder in _trial_folders(project):
        yield from _named(folder, _TRIAL_FILES)


def _temporaries(project):
    """Files that `replacing` was writing in place of own ones."""
    for folder, names in [
        (project, _PROJECT_FILES),
        *((folder, _TRIAL_FILES) for folder in _trial_folders(project)),
    ]:
        for path in _named(folder, _TEMPORARY):
            if names.fullmatch(_TEMPORARY.fullmatch(path.name)[1]):
                yield path


def _named(folder, pattern):
    return [path for path in folder.iterdir() if pattern.fullmatch(path.name) and path.is_file()]


def _trial_folders(project):
    # A link leads to a place that no search has made.
    return [
        path
        for path in project.iterdir()
        if _TRIAL_FOLDER.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    ]


def _holds_a_search(project):
    """Whether the files say by their content that a search, or plain Keras Tuner, wrote them."""
    with contextlib.suppress(ValueError):
        return _snapshots.load_project(project) is not None
    copies = [path for path in _named(project, _PROJECT_FILES) if "snapshot" in path.name]
    if any(path.read_bytes().startswith(b'{"sha256": "') for path in copies):
        return True
    with contextlib.suppress(OSError, ValueError, TypeError):
        oracle = json.loads((project / "oracle.json").read_text(encoding="utf-8"))
        return {"start_order", "end_order", "tried_so_far"} <= set(oracle)
    return False
