"""One search at a time in a folder: a lock of the operating system, gone when its process is."""

import contextlib
import datetime
import inspect
import json
import os
import platform
import warnings
from collections.abc import Iterator
from pathlib import Path

import filelock

from chapter18._shared.replacing import replacing

LOCK, HOLDER = "search.lock", "search.lock.json"


@contextlib.contextmanager
def only_one(project: Path) -> Iterator[None]:
    """Hold the lock of the folder `project` meanwhile; a killed process no longer holds it.

    Raises `RuntimeError`, which names the holder, where another search holds it. Where the file
    system cannot lock, as some network drives cannot, it warns and goes on.
    """
    lock = _lock(project / LOCK)
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
        yield
        return
    try:
        _sign(project)
        yield
    finally:
        lock.release()


def _lock(path):
    # filelock 4 would else fall back to a marker file, which outlives a killed process; earlier
    # versions have no such option, and raise. It can go when pyproject asks for filelock 4.
    known = inspect.signature(filelock.FileLock.__init__).parameters
    return filelock.FileLock(
        path, **{"fallback_to_soft": False} if "fallback_to_soft" in known else {}
    )


def _sign(project):
    # A file of its own: Windows lets nobody read the one that is locked.
    holder = {
        "pid": os.getpid(),
        "host": platform.node(),
        "since": datetime.datetime.now().astimezone().isoformat(" ", "seconds"),
    }
    with replacing(project / HOLDER) as partial:
        partial.write_text(json.dumps(holder), encoding="utf-8")


def _holder(project):
    try:
        holder = json.loads((project / HOLDER).read_text(encoding="utf-8"))
        return "process {pid} on {host} has been searching since {since}".format(**holder)
    except (OSError, ValueError, KeyError):
        return "another process is searching"
