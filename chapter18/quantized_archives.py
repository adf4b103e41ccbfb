"""The file of a quantized model: written whole or not at all, refused when torn."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from chapter18.replacing import UNREADABLE, replacing

_RECORD, _WEIGHTS, _PROBE = "quantized.json", "model.weights.h5", "probe.npz"


class Record(NamedTuple):
    """What the file says of the model beside its weights.

    `layers` are class names, all layers in order; `quantized` maps a layer's number, as text, to
    its path, mode and Keras config. `weights` are the fields of a `manifests.Manifest`, `machine`
    what computed the outputs for the probe, `keras` the version that wrote the file.
    """

    layers: list
    quantized: dict[str, Any]
    weights: dict[str, Any]
    machine: list
    keras: str


class Contents(NamedTuple):
    """A `Record`, the bytes of Keras' weights file, the probe batch, and the outputs for it."""

    record: Record
    weights: bytes
    probe: Any
    outputs: list


def write(path, contents):
    """Write `Contents` to `path`; what is there is replaced at once, or kept on any failure."""
    with replacing(Path(path)) as partial:
        _pack(partial, contents)
        read(partial)


def read(path):
    """Return the `Contents` of `path`; raise ValueError for a file that is torn or another."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
            missing = {_RECORD, _WEIGHTS, _PROBE} - set(archive.namelist())
            if broken or missing:
                raise zipfile.BadZipFile(f"broken or without {broken or sorted(missing)}")
            fields = json.loads(archive.read(_RECORD))
            weights, arrays = archive.read(_WEIGHTS), _arrays(archive.read(_PROBE))
    except UNREADABLE as error:
        raise ValueError(
            "A quantized model is loaded from a whole file of quantized_files.export. "
            f"Received: {str(path)!r}, which is none, or torn: {error}. Export the model again."
        ) from error
    structure = fields.pop("probe")
    probe = keras.tree.map_structure(lambda name: arrays[name], structure)
    outputs = [arrays[name] for name in arrays if name.startswith("out")]
    return Contents(Record(**fields), weights, probe, outputs)


def _pack(path, contents):
    leaves = keras.tree.flatten(contents.probe)
    arrays = {f"in{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    names = iter(list(arrays))
    structure = keras.tree.map_structure(lambda _: next(names), contents.probe)
    arrays |= {f"out{i}": output.astype("float32") for i, output in enumerate(contents.outputs)}
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_WEIGHTS, contents.weights)
        archive.writestr(_PROBE, packed.getvalue())
        archive.writestr(_RECORD, json.dumps(contents.record._asdict() | {"probe": structure}))


def _arrays(packed):
    with np.load(io.BytesIO(packed), allow_pickle=False) as stored:
        return dict(stored)
