"""A file written whole or not at all, whatever ends the process, and known when it is not whole."""

import contextlib
import hashlib
import os
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

# The bytes that file systems of Linux, macOS and Windows allow a name.
_LONGEST = 255

# What reading a damaged zip archive, or what it should hold, raises: a flipped bit may claim a
# compression, an encryption or a length that is not there.
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], suffix: str = ".tmp") -> Iterator[Path]:
    """Yield a path beside `path` to write to, which takes its place if the block ends well.

    What was written reaches the disk before, so that a reader, or a run after a crash, meets the
    old file or the new one and never half of one. On a failure `path` keeps what it had, and what
    was written is removed. The path to write to ends in `suffix`. A symbolic link stays one: the
    file that it names is replaced.
    """
    target = Path(os.path.realpath(path))
    partial = target.with_name(_beside(target.name, f".{os.getpid()}{suffix}"))
    try:
        yield partial
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _beside(name, ending):
    beside = f".{name}{ending}"
    if len(os.fsencode(beside)) <= _LONGEST:
        return beside
    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}{ending}"
