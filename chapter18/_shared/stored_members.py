"""One member of a zip archive as a file, read where it lies rather than into memory."""

import contextlib
import io
import shutil
import struct
import tempfile
import zipfile
from pathlib import Path

# PKWARE's APPNOTE, 4.3.7: a local header of 30 bytes, whose last two fields are these lengths.
_HEADER, _LENGTHS = 30, 26


@contextlib.contextmanager
def opened(path, name):
    """Yield the member `name` of the zip archive at `path` as a seekable file to read.

    A member that is compressed is unpacked to a file beside the archive meanwhile.
    """
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(name)
        if member.compress_type == zipfile.ZIP_STORED:
            with open(path, "rb") as file:
                yield io.BufferedReader(_Part(file, _start(file, member), member.file_size))
            return
        with archive.open(name) as packed, tempfile.TemporaryFile(dir=Path(path).parent) as file:
            shutil.copyfileobj(packed, file)
            file.seek(0)
            yield file


def _start(file, member):
    file.seek(member.header_offset + _LENGTHS)
    return member.header_offset + _HEADER + sum(struct.unpack("<HH", file.read(4)))


class _Part(io.RawIOBase):
    """The bytes from `start` on, `size` of them, of an open file."""

    def __init__(self, file, start, size):
        super().__init__()
        self._file, self._start, self._size, self._at = file, start, size, 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=io.SEEK_SET):
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at

    def readinto(self, buffer):
        self._file.seek(self._start + self._at)
        wanted = max(0, min(len(buffer), self._size - self._at))
        read = self._file.readinto(memoryview(buffer)[:wanted])
        self._at += read
        return read
