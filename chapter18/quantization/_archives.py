"""The file of a quantized model: written whole or not at all, refused when torn."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chapter18._shared.replacing import UNREADABLE, replacing

# The weights are named as in a file of Keras, so that they can be checked in the same way.
_RECORD, _WEIGHTS, _PROBE = "quantized.json", "model.weights.h5", "probe.npz"
_DERIVED = "derived.npz"


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
    """A `Record`, the bytes of Keras' weights file, the probe batch, the outputs for it, and the
    `derived_state` of the layers."""

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
    with replacing(Path(path)) as partial:
        _pack(partial, contents)
        read(partial)
        check(partial)


def read(path):
    """Return the `Contents` of `path`; raise ValueError for a file that is torn or another."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
            missing = {_RECORD, _WEIGHTS, _PROBE, _DERIVED} - set(archive.namelist())
            if broken or missing:
                raise zipfile.BadZipFile(f"broken or without {broken or sorted(missing)}")
            fields = json.loads(archive.read(_RECORD))
            weights = archive.read(_WEIGHTS)
            arrays, derived = (_arrays(archive.read(name)) for name in (_PROBE, _DERIVED))
            probe = _structured(fields.pop("probe"), arrays)
            derived = {key: _typed(derived[key], kind) for key, kind in fields.pop("derived")}
    except UNREADABLE as error:
        raise ValueError(
            "A quantized model is loaded from a whole file of quantization.export. "
            f"Received: {str(path)!r}, which is none, or torn: {error}. Export the model again."
        ) from error
    outputs = [arrays[name] for name in arrays if name.startswith("out")]
    return Contents(Record(**fields), weights, probe, outputs, derived)


def _pack(path, contents):
    arrays = {}
    structure = _described(contents.probe, arrays)
    arrays |= {f"out{i}": output.astype("float32") for i, output in enumerate(contents.outputs)}
    kinds = [[key, array.dtype.name] for key, array in contents.derived.items()]
    record = contents.record._asdict() | {"probe": structure, "derived": kinds}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_WEIGHTS, contents.weights)
        archive.writestr(_PROBE, _packed(arrays))
        archive.writestr(_DERIVED, _packed(contents.derived))
        archive.writestr(_RECORD, json.dumps(record))


def _described(probe, arrays):
    """Return the structure of `probe` for JSON; its arrays are added to `arrays`."""
    if probe is None:
        return None
    if isinstance(probe, dict) and all(isinstance(key, str) for key in probe):
        return {"dict": [[key, _described(value, arrays)] for key, value in probe.items()]}
    if type(probe) in (list, tuple):
        kind = type(probe).__name__
        return {kind: [_described(value, arrays) for value in probe]}
    array = np.asarray(probe)
    if array.dtype.kind in "OUS" or isinstance(probe, dict | tuple):
        raise ValueError(
            "A stored probe is an array of numbers, or dicts by name, lists and tuples of them. "
            f"Received: {type(probe).__name__}. Pass for example x_val[:8]."
        )
    name = f"in{len(arrays)}"
    arrays[name] = array
    return {"array": name, "dtype": array.dtype.name}


def _structured(node, arrays):
    if node is None:
        return None
    if "array" in node:
        return _typed(arrays[node["array"]], node["dtype"])
    ((kind, inside),) = node.items()
    if kind == "dict":
        return {key: _structured(value, arrays) for key, value in inside}
    return {"list": list, "tuple": tuple}[kind](_structured(value, arrays) for value in inside)


def _typed(array, name):
    # NumPy's files keep the bytes of bfloat16 and the like, and not what they mean.
    return array if array.dtype.name == name else array.view(name)


def _packed(arrays):
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return packed.getvalue()


def _arrays(packed):
    with np.load(io.BytesIO(packed), allow_pickle=False) as stored:
        return dict(stored)
