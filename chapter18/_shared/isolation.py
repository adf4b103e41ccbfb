"""Global state that a search would leave changed: random numbers, policy, compilation cache."""

import contextlib
import gc
import random
import re
from pathlib import Path

import jax
import keras
import numpy as np
from jax.experimental.compilation_cache import compilation_cache as jax_cache

_CACHE_OPTIONS = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)
_IN_USE = "chapter18_in_use"
_ENTRY = re.compile(r".+-[0-9a-f]{64}-cache")
# A killed process leaves at most its last few writes unfinished.
_UNFINISHED_SECONDS = 2.0
# Python 3.12 itself starts with a few hundred frozen objects; a user's freeze holds far more.
_FROZEN_AT_START = 1000


@contextlib.contextmanager
def random_numbers_kept():
    """On exit, put Python's and NumPy's global generators back to where they were on entry."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (Keras seeds this one)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


@contextlib.contextmanager
def old_objects_not_collected():
    """Spare the garbage collector the objects that exist on entry.

    Keras Tuner collects garbage before each build; going through every imported library again took
    an eighth of a search. A freeze that the user has made is left alone.
    """
    if gc.get_freeze_count() > _FROZEN_AT_START:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def keras_settings_kept():
    """Yield a function that sets dtype policy and distribution to what they were on entry.

    Keras Tuner clears Keras' session before it builds a model, which resets both; so the function
    is called before each build, and once more on exit.
    """
    policy, distribution = keras.config.dtype_policy(), keras.distribution.distribution()

    def reapply():
        keras.config.set_dtype_policy(policy)
        keras.distribution.set_distribution(distribution)

    try:
        yield reapply
    finally:
        reapply()


@contextlib.contextmanager
def persistent_compilation(directory):
    """Keep compiled steps in `directory` meanwhile, however small; None changes nothing.

    A directory that the user has already given to JAX is used instead. On exit JAX's options are
    what they were.
    """
    if directory is None:
        yield
        return
    before = {name: getattr(jax.config, name) for name in _CACHE_OPTIONS}
    directory = Path(before["jax_compilation_cache_dir"] or directory)
    with _unfinished_entries_dropped(directory):
        try:
            _use_cache(str(directory), 0, -1)
            yield
        finally:
            _use_cache(*before.values())


def _use_cache(*values):
    for name, value in zip(_CACHE_OPTIONS, values, strict=True):
        jax.config.update(name, value)
    # JAX decides once, at its first compilation, whether and where to cache.
    jax_cache.reset_cache()


@contextlib.contextmanager
def _unfinished_entries_dropped(directory):
    """Mark the directory as in use; a mark found on entry means that its last user was killed.

    JAX writes an entry in place and never rewrites it, so one torn by a kill would warn for ever.
    """
    directory.mkdir(parents=True, exist_ok=True)
    mark = directory / _IN_USE
    if mark.exists():
        _drop_newest(directory)
    mark.touch()
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def _drop_newest(directory):
    times = {}
    # Only what JAX itself writes: the folder may hold more.
    for entry in filter(lambda path: _ENTRY.fullmatch(path.name), directory.iterdir()):
        # Another process may be dropping entries too.
        with contextlib.suppress(FileNotFoundError):
            times[entry] = entry.stat().st_mtime
    newest = max(times.values(), default=0)
    for entry, time in times.items():
        if time > newest - _UNFINISHED_SECONDS:
            entry.unlink(missing_ok=True)
