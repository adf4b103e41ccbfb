"""The file of a quantized model: written whole or not at all, refused when torn."""

import json
import zipfile
from typing import Any, NamedTuple

import numpy as np

from chapter18._shared import nests
from chapter18._shared.replacing import UNREADABLE, replacing

# The weights are named as in a file of Keras, so that they can be checked in the same way.
_RECORD, _WEIGHTS, _ARRAYS = "quantized.json", "model.weights.h5", "arrays.npz"


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
    """A `Record`, the bytes of Keras' weights file, the probe batch, the model's outputs for it in
    float32, and what its layers derived from data."""

    record: Record
    weights: bytes
    probe: Any
    outputs: list
    derived: dict[str, np.ndarray]


def write(path, contents, check):
    """Write `Contents` to `path`; what is there is replaced at once, or kept on any failure.

    `check` is given the path of the written file, and may raise before it takes its place.
    Raises ValueError for a probe that is not made of arrays.
    """
    _check_probe(contents.probe)
    arrays = (contents.probe, contents.outputs, contents.derived)
    with replacing(path) as partial:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_WEIGHTS, contents.weights)
            archive.writestr(_ARRAYS, nests.pack(arrays))
            archive.writestr(_RECORD, json.dumps(contents.record._asdict()))
        read(partial)
        check(partial)


def read(path):
    """Return the `Contents` of `path`; raise ValueError for a file that is torn or another."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
            missing = {_RECORD, _WEIGHTS, _ARRAYS} - set(archive.namelist())
            if broken or missing:
                raise zipfile.BadZipFile(f"broken or without {broken or sorted(missing)}")
            record = Record(**json.loads(archive.read(_RECORD)))
            weights = archive.read(_WEIGHTS)
            return Contents(record, weights, *nests.unpack(archive.read(_ARRAYS)))
    except UNREADABLE as error:
        raise ValueError(
            "A quantized model is loaded from a whole file of quantization.export. "
            f"Received: {str(path)!r}, which is none, or torn: {error}. Export the model again."
        ) from error


def _check_probe(probe):
    if isinstance(probe, dict) and all(isinstance(key, str) for key in probe):
        probe = list(probe.values())
    if type(probe) in (list, tuple):
        for part in probe:
            _check_probe(part)
    elif probe is not None and (
        np.asarray(probe).dtype.kind in "OUS" or isinstance(probe, dict | tuple)
    ):
        raise ValueError(
            "A stored probe is an array of numbers, or dicts by name, lists and tuples of them. "
            f"Received: {type(probe).__name__}. Pass for example x_val[:8]."
        )
