"""What must stay the same when a search goes on, in words that another process can compare."""

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import keras_tuner as kt
import numpy as np

from chapter18._shared.checks import plain, positive_integer

# Options that may differ: they say how far to go, not what is searched.
_FREE_OPTIONS = {
    "logger",
    "max_consecutive_failed_trials",
    "max_retries_per_trial",
    "max_trials",
    "tuner_id",
}
# The first arguments of keras.Model.fit, by position.
_POSITIONS = ("x", "y", "batch_size", "epochs", "verbose", "callbacks", "validation_split")
_DEFAULTS = {
    "batch_size": 32,
    "epochs": 1,
    "validation_split": 0.0,
    "shuffle": True,
    "initial_epoch": 0,
    "validation_freq": 1,
}
# Callbacks that change what is trained, and what says how; all others only watch.
_TRAINING_CALLBACKS = ("EarlyStopping", "LearningRateScheduler", "ReduceLROnPlateau")
_SETTINGS = ("monitor", "mode", "min_delta", "patience", "factor", "baseline", "schedule")
_SAMPLE_BYTES = 2**24
_LONG = 1000


def identity(tuner: kt.Tuner, options: dict[str, Any]) -> dict[str, Any]:
    """Return what make_tuner was called with, and the space it found, as JSON gives it back."""
    space = tuner.oracle.get_space().get_config()["space"]
    plain_options = {
        name: value
        for name, value in options.items()
        if name not in _FREE_OPTIONS and isinstance(value, bool | int | float | str | None)
    }
    found = {
        "tuner class": type(tuner).__name__,
        "objective": str(tuner.oracle.objective),
        "seed": tuner.base_seed,
        "space": {str(hp["config"]): hp for hp in space},
    }
    return json.loads(json.dumps(found | plain_options))


def require_same_identity(before: dict[str, Any], now: dict[str, Any], project: Path) -> None:
    """Raise `ValueError`, which names what differs, unless both identities are equal."""
    # As text NaN is equal to itself.
    texts = [{k: json.dumps(v, sort_keys=True) for k, v in each.items()} for each in (before, now)]
    changed = [name for name in before | now if texts[0].get(name) != texts[1].get(name)]
    if changed:
        raise ValueError(
            "A search is resumed with the space, objective, seed and options it began with. "
            f"Received: {'; '.join(_change(name, before, now) for name in changed)}; "
            f"in {project}. "
            "Put back the old value, choose another project_name, or pass overwrite=True to start "
            "afresh."
        )


def _change(name, before, now):
    if name != "space":
        return f"{name} {now.get(name)} instead of {before.get(name)}"
    old, new = before[name], now[name]
    names = {(old | new)[key]["config"]["name"] for key in old.keys() ^ new.keys()}
    return f"another space, changed in {', '.join(sorted(names))}"


def named(args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `search` by name, as `fit` would read them."""
    names = [*_POSITIONS, *(f"argument {number}" for number in range(len(_POSITIONS), len(args)))]
    return dict(zip(names, args, strict=False)) | kwargs


def require_repeatable(arguments: dict[str, Any]) -> None:
    """Raise `TypeError` for an iterator: only the first training would see its values."""
    for name, value in arguments.items():
        for leaf in keras.tree.flatten(value):
            if hasattr(leaf, "__next__") and not hasattr(leaf, "__getitem__"):
                raise TypeError(
                    "Every trial must be able to read the data from their beginning. "
                    f"Received: {name} of type {type(leaf).__name__}, which can be read once. "
                    "Pass arrays, a keras.utils.PyDataset, or a dataset that can be iterated "
                    "again, such as grain's or tf.data's."
                )


def require_counts(values: dict[str, Any], *names: str, rule: str, example: int) -> None:
    """Raise `ValueError`, which says `rule`, where one of `names` is given no positive integer."""
    for name in names:
        if values.get(name) is not None:
            remedy = f"Pass for example {name}={example}."
            positive_integer(values[name], name, rule=rule, remedy=remedy)


def describe(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `search` as JSON gives them back: data by samples, no defaults."""
    described = {name: _described(value) for name, value in arguments.items() if name != "verbose"}
    described["callbacks"] = _callbacks(arguments.get("callbacks"))
    return {
        name: value
        for name, value in described.items()
        if value is not None and value != [] and value != _DEFAULTS.get(name)
    }


def changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return a phrase for each argument that differs."""
    names = [name for name in before | now if before.get(name) != now.get(name)]
    before, now = _DEFAULTS | before, _DEFAULTS | now
    return [f"{name} {now.get(name)} instead of {before.get(name)}" for name in names]


def _described(value):
    value = plain(value)
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _described(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        step = max(1, len(value) // _LONG)
        length = [f"of {len(value)}"] if len(value) > _LONG else []
        return [_described(each) for each in value[::step]] + length
    if hasattr(value, "shape"):
        return _array(value)
    return _object(value)


def _array(array):
    """Return dtype, shape and digest, such as "float32 (64, 4) #1f0c…"."""
    dtype = getattr(array, "dtype", None)
    dtype = ", ".join(map(str, array.dtypes)) if dtype is None else dtype
    digest = hashlib.blake2b(digest_size=8)
    # Only what this process holds, and what NumPy understands, can be looked at.
    with contextlib.suppress(Exception):
        digest.update(_bytes(_sample(array)))
    return f"{str(dtype).removeprefix('torch.')} {tuple(array.shape)} #{digest.hexdigest()}"


def _sample(array):
    if hasattr(array, "tocsr"):
        return _sample(array.tocsr().data)
    rows = array.iloc if hasattr(array, "iloc") else array
    size = int(np.prod(array.shape)) * getattr(getattr(array, "dtype", None), "itemsize", 8)
    step = -(-size // _SAMPLE_BYTES)
    if step <= 1:
        return np.asarray(array)
    sample = np.asarray(rows[::step])
    return sample.reshape(-1)[:: max(1, sample.nbytes // _SAMPLE_BYTES)]


def _bytes(sample):
    if sample.dtype.hasobject:
        known = str | bytes | bool | int | float | None
        each = (e if isinstance(e, known) else type(e).__name__ for e in sample.reshape(-1))
        return "\n".join(map(repr, each)).encode("utf-8", "surrogatepass")
    return sample.tobytes()


def _object(value):
    """Return type, length and specification of a dataset, or the name of a function."""
    words = [getattr(value, "__qualname__", type(value).__qualname__)]
    if not callable(value):
        # An infinite dataset has no length; one of the user's own may raise anything.
        with contextlib.suppress(Exception):
            words.append(f"of length {len(value)}")
    for name in ("batch_size", "element_spec"):
        with contextlib.suppress(Exception):
            words.append(f"{name} {getattr(value, name)}")
    return " ".join(words)


def _callbacks(callbacks):
    callbacks = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
    described = []
    for callback in callbacks:
        kinds = [kind.__name__ for kind in type(callback).__mro__]
        if any(name in _TRAINING_CALLBACKS for name in kinds):
            settings = {name: _described(getattr(callback, name, None)) for name in _SETTINGS}
            known = [f"{name}={value}" for name, value in settings.items() if value is not None]
            described.append(f"{kinds[0]}({', '.join(known)})")
    return described
