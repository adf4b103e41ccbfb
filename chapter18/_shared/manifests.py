"""What a checkpoint must give back: policy, optimizer class, seeds, a digest of each variable."""

import contextlib
import hashlib
import io
import json
import shutil
import struct
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import h5py
import keras
import numpy as np

from chapter18._shared import gathering, layers

NAME = "chapter18.json"
# PKWARE's APPNOTE, 4.3.7: a local header of 30 bytes, whose last two fields are these lengths.
_HEADER, _LENGTHS = 30, 26


class Entry(NamedTuple):
    """One variable: its path, shape, dtype, SHA-256 of its bytes, and its value if it has one."""

    path: str
    shape: list
    dtype: str
    digest: str
    value: float | None


class Manifest(NamedTuple):
    """A model's record: `policy` as Keras serialises it, `optimizer` class names, outer first.

    `seeds` are the states of its random generators, which Keras leaves out of its files;
    `trainable` tells it of each layer and of each of the model's variables, None in older files.
    """

    policy: dict | str
    optimizer: list
    weights: list
    optimizer_variables: list
    seeds: list
    trainable: list | None = None

    def to_json(self):
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text):
        fields = json.loads(text)
        for name in ("weights", "optimizer_variables"):
            fields[name] = [Entry(*entry) for entry in fields[name]]
        return cls(**fields)


def describe(model):
    """Return the `Manifest` of `model` as it is now; in a multi-process run, in every process.

    An optimizer that has not stepped yet gets its slots here, as its first step would do.
    """
    optimizer = _optimizer(model)
    if optimizer and not optimizer.built:
        optimizer.build(model.trainable_variables)
    return Manifest(
        keras.dtype_policies.serialize(model.dtype_policy),
        _classes(optimizer),
        [_entry(v) for v in model.weights],
        [_entry(v) for v in optimizer.variables] if optimizer else [],
        [gathering.to_host(v).tolist() for v in _seeds(model)],
        [[part.trainable for part in parts] for parts in _trainable(model)],
    )


def state(model):
    """Return the variables a checkpoint holds: those of the model and of its optimizer."""
    optimizer = _optimizer(model)
    return model.variables + (optimizer.variables if optimizer else [])


def restore_seeds(model, saved):
    """Put the random generators of `model` where they were; `check` tells if it has others."""
    for variable, state in zip(_seeds(model), saved.seeds, strict=False):
        variable.assign(np.array(state, variable.dtype))


def restore_trainable(model, saved):
    """Freeze and unfreeze layers and variables of `model`, which has the same, as were `saved`."""
    for parts, flags in zip(_trainable(model), saved.trainable or [], strict=False):
        for part, trainable in zip(parts, flags, strict=False):
            if part.trainable != trainable:
                part.trainable = trainable


def check(model, saved):
    """Raise RuntimeError, naming the first difference, unless `model` is what was `saved`."""
    now = describe(model)
    for name in ("policy", "optimizer", "seeds"):
        if getattr(saved, name) != getattr(now, name):
            raise _different(f"{name} {getattr(now, name)}, saved {getattr(saved, name)}")
    _check_entries("model", saved.weights, now.weights)
    _check_entries("optimizer", saved.optimizer_variables, now.optimizer_variables)


def check_file(path, manifest):
    """Raise RuntimeError unless the `.keras` file holds every value that `manifest` lists."""
    found = set()
    with opened(path, "model.weights.h5") as file, h5py.File(file) as weights:
        weights.visititems(lambda _, item: _add_digest(found, item))
    for entry in manifest.weights + manifest.optimizer_variables:
        if entry.digest not in found:
            raise RuntimeError(
                "A checkpoint holds the value of every variable. "
                f"Received: a file without that of {entry.path!r}, shape {tuple(entry.shape)}, "
                f"{entry.dtype}. Let its layer save it in save_own_variables."
            )


def _optimizer(model):
    return getattr(model, "optimizer", None)  # an uncompiled model has no such attribute


def _seeds(model):
    stored = {id(v) for v in model.weights}
    return [v for v in model.variables if id(v) not in stored]


def _trainable(model):
    """The layers, each before those inside it, which it freezes with itself; then the variables."""
    return layers.every(model), model.variables


def _classes(optimizer):
    names = []
    while optimizer is not None:
        names.append(type(optimizer).__name__)
        optimizer = getattr(optimizer, "inner_optimizer", None)
    return names


def _entry(variable):
    array = gathering.to_host(variable)
    value = float(array.reshape(())) if array.size == 1 else None
    return Entry(variable.path, list(array.shape), str(array.dtype), _digest(array), value)


def _digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _add_digest(found, item):
    if isinstance(item, h5py.Dataset):
        found.add(_digest(item[()]))


def _check_entries(owner, saved, now):
    if len(saved) != len(now):
        raise _different(f"{len(now)} {owner} variables, saved {len(saved)}")
    for old, new in zip(saved, now, strict=True):
        # The digest tells the value, NaN too, which differs from itself.
        if old[1:4] != new[1:4]:
            raise _different(f"{owner} variable {_text(new)}, saved {_text(old)}")


def _text(entry):
    what = f"value {entry.value}" if entry.value is not None else f"digest {entry.digest[:8]}"
    return f"{entry.path!r}, shape {tuple(entry.shape)}, {entry.dtype}, {what}"


def _different(received):
    return RuntimeError(
        "A restored model equals the saved one to the bit. "
        f"Received: {received}. Build the same model with the same optimizer as was saved, "
        "under the same version of Keras."
    )


@contextlib.contextmanager
def opened(path, name):
    """Yield the member `name` of the zip archive at `path` as a seekable file, read where it lies.

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
