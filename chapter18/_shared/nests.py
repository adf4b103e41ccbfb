"""Nests of arrays of any dtype as the bytes of a NumPy archive, which holds no code."""

import io
import json

import jax
import numpy as np

_STRUCTURE = "structure"


def pack(nests):
    """Return `nests`, dicts, lists and tuples of arrays, None and texts, as one NumPy archive."""
    arrays = []
    structure = _encoded(nests, arrays)
    # NumPy files know no bfloat16 and no float8: bytes do, with the dtype's name beside.
    dtypes = [str(array.dtype) for array in arrays]
    shapes = [array.shape for array in arrays]
    names = json.dumps({"structure": structure, "dtypes": dtypes, "shapes": shapes})
    raw = {f"{i}": np.frombuffer(array.tobytes(), "uint8") for i, array in enumerate(arrays)}
    file = io.BytesIO()
    np.savez(file, **{_STRUCTURE: np.array(names)}, **raw)
    return file.getvalue()


def unpack(data):
    """Return what `pack` was given; its arrays are NumPy's."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        names = json.loads(str(file[_STRUCTURE]))
        arrays = [
            np.frombuffer(file[f"{i}"].tobytes(), jax.numpy.dtype(dtype)).reshape(shape)
            for i, (dtype, shape) in enumerate(zip(names["dtypes"], names["shapes"], strict=True))
        ]
    return _decoded(names["structure"], arrays)


def _encoded(nest, arrays):
    if nest is None or isinstance(nest, str):
        return nest
    if isinstance(nest, dict):
        return {"dict": [[key, _encoded(each, arrays)] for key, each in nest.items()]}
    if isinstance(nest, list | tuple):
        kind = "list" if isinstance(nest, list) else "tuple"
        return {kind: [_encoded(each, arrays) for each in nest]}
    arrays.append(np.asarray(nest))
    return len(arrays) - 1


def _decoded(structure, arrays):
    if structure is None or isinstance(structure, str):
        return structure
    if isinstance(structure, int):
        return arrays[structure]
    ((kind, content),) = structure.items()
    if kind == "dict":
        return {key: _decoded(each, arrays) for key, each in content}
    decoded = [_decoded(each, arrays) for each in content]
    return decoded if kind == "list" else tuple(decoded)
