"""A file written whole or not at all, whatever ends the process, and known when it is not whole."""

import contextlib
import os
import zipfile
import zlib
from pathlib import Path

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
def replacing(path: Path, suffix: str = ".tmp"):
    """Yield a path beside `path` to write to, which takes its place if the block ends well.

    What was written reaches the disk before, so that a reader, or a run after a crash, meets the
    old file or the new one and never half of one. On a failure `path` keeps what it had, and what
    was written is removed. The path to write to ends in `suffix`. A symbolic link stays one: the
    file that it names is replaced.
    """
    path = Path(os.path.realpath(path))
    # A name that has all the 255 bytes it can have leaves no room for more.
    name = zlib.crc32(os.fsencode(path.name))
    partial = path.with_name(f".{name:08x}.{os.getpid()}{suffix}")
    try:
        yield partial
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
