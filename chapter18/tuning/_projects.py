"""The folder of a search: which files are its own, how only those go, and who holds its lock."""

import contextlib
import datetime
import inspect
import json
import os
import platform
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import filelock

from chapter18._shared.replacing import replacing
from chapter18.tuning import _snapshots

_LOCK, _HOLDER, _DISCARDED = "search.lock", "search.lock.json", "snapshot.json.discarded"
_PROJECT_FILES = re.compile(r"(oracle|tuner\d*|chief|worker_?\d*)\.json|snapshot\.json(\.backup)?")
_TRIAL_FILES = re.compile(
    r"trial\.json|executions\.json(\.backup)?|checkpoint\.weights\.h5|build_config\.json"
)
_TRIAL_FOLDER = re.compile(r"trial_\d+")
_TEMPORARY = re.compile(r"\.(.+)\.\d+\.tmp")


@contextlib.contextmanager
def only_one(project: Path) -> Iterator[None]:
    """Hold the lock of the folder `project` meanwhile; a killed process no longer holds it.

    Raises `RuntimeError`, which names the holder, where another search holds it. Where the file
    system cannot lock, as some network drives cannot, it warns and goes on.
    """
    # filelock 4 would else fall back to a marker file, which outlives a killed process; earlier
    # versions have no such option, and raise. It can go when pyproject asks for filelock 4.
    known = inspect.signature(filelock.FileLock.__init__).parameters
    strict: dict[str, Any] = {"fallback_to_soft": False} if "fallback_to_soft" in known else {}
    lock = filelock.FileLock(project / _LOCK, **strict)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise RuntimeError(
            "Only one search at a time may use a folder. "
            f"Received: {project}, where {_holder(project)}. "
            "Wait until that search ends, or choose another project_name."
        ) from None
    except (OSError, NotImplementedError) as error:
        warnings.warn(
            f"{project} cannot be locked ({error}): let no other process search there.",
            RuntimeWarning,
            stacklevel=2,
        )
    try:
        if lock.is_locked:
            _sign(project)
        yield
    finally:
        lock.release()


def _sign(project):
    # A file of its own: Windows lets nobody read the one that is locked.
    holder = {
        "pid": os.getpid(),
        "host": platform.node(),
        "since": datetime.datetime.now().astimezone().isoformat(" ", "seconds"),
    }
    with replacing(project / _HOLDER) as partial:
        partial.write_text(json.dumps(holder), encoding="utf-8")


def _holder(project):
    try:
        holder = json.loads((project / _HOLDER).read_text(encoding="utf-8"))
        return "process {pid} on {host} has been searching since {since}".format(**holder)
    except (OSError, ValueError, KeyError):
        return "another process is searching"


def prepare(project: Path) -> None:
    """Make the folder of a search, and finish what a killed `discard` began."""
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
    """Remove the search that the folder holds, if it holds one: its own files and nothing else."""
    # Removed last, it lets `prepare` finish what a kill interrupts.
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


def remove_leftovers(project: Path, trial_ids: Iterable[str]) -> None:
    """Remove what a kill left half written, and trials that no snapshot knows."""
    known = {f"trial_{trial_id}" for trial_id in trial_ids}
    for temporary in list(_temporaries(project)):
        temporary.unlink()
    for folder in _trial_folders(project):
        if folder.name not in known:
            (folder / "trial.json").unlink(missing_ok=True)


def own_files(project: Path) -> Iterator[Path]:
    """Yield the files that have a name, and a place, in which a search writes."""
    for folder, names in _places(project):
        yield from _named(folder, names)


def _temporaries(project):
    """Files that `replacing` was writing in place of own ones."""
    for folder, names in _places(project):
        for path in _named(folder, _TEMPORARY):
            if names.fullmatch(_TEMPORARY.fullmatch(path.name)[1]):
                yield path


def _places(project):
    return [(project, _PROJECT_FILES), *((each, _TRIAL_FILES) for each in _trial_folders(project))]


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
