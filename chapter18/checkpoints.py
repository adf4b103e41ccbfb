"""Save a model under one distribution and restore it under another, proven on the spot."""

import contextlib
import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import keras

from chapter18 import abstract, manifests, processes
from chapter18 import mesh as meshes
from chapter18.replacing import UNREADABLE, replacing


def save(model, path):
    """Save `model` to `path`, a `.keras` file that `restore` can prove; replace what is there.

    Any distribution will do; every process of a multi-process run calls this, and the first one
    writes. The file is Keras' own format with one record more: the dtype policy, the optimizer's
    class, and a digest of every variable. It is written beside `path`, read back, compared with
    the model and only then moved into place, so `path` is never torn.

    Raises ValueError for another suffix or a model without variables, and RuntimeError when the
    written file lacks a variable's value; `path` is then left as it was.
    """
    path = Path(path)
    _check_savable(model, path)
    manifest = manifests.describe(model)
    with processes.gathered(manifests.state(model)), processes.first_only() as writes:
        if writes:
            _write(model, manifest, path)


def restore(path, *, build=None, sample=None, layout=None, mesh=None, custom_objects=None):
    """Return the model saved at `path`, equal to it and compiled as it was.

    With `mesh`, it is built into `layout` (a scheme's name or rules) as `mesh.build` does, and
    that distribution is the global one on return. Without, it is placed under the global
    distribution: none, or `DataParallel`. `build` and `sample` make the model anew; without them
    it comes from the configuration in the file, where `custom_objects` maps names to classes that
    Keras does not know, and paths may lack the root, so prefer schemes to rules.

    Weights, random seeds, optimizer class and slots, iteration and loss scale are compared with
    the record, to the bit, before this returns. The saved dtype policy is set only meanwhile.

    Raises ValueError when `path` is not a whole file of `save` or when `layout` and `mesh` do not
    come together, RuntimeError when the global distribution is a `ModelParallel` and no mesh is
    given, or when anything restored differs; the global distribution is then as it was.
    """
    _check_placement(layout, mesh)
    with _pinned(Path(path)) as pinned:
        config, manifest = _read(pinned, path)
        objects = dict(custom_objects or {})
        with _distribution_kept_on_error(), _policy(manifest.policy):
            model = _made(build or _from_config(config, objects), sample, layout, mesh)
            _compile(model, config.get("compile_config"), objects)
            model.load_weights(pinned)
            manifests.restore_seeds(model, manifest)
            manifests.check(model, manifest)
    return model


def orbax_checkpoint(directory, **options):
    """Return `keras.callbacks.OrbaxCheckpoint(directory, **options)` where it can be trusted.

    Raises RuntimeError on Keras 3.15, where what it saved comes back as random weights without an
    error.
    """
    # STACK.md: keras-orbax
    if keras.__version__.startswith("3.15."):
        raise RuntimeError(
            "OrbaxCheckpoint restores random weights, without an error, on Keras 3.15. "
            f"Received: Keras {keras.__version__}. "
            "Save with chapter18.checkpoints.save, for example once an epoch: "
            "keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: save(model, path))."
        )
    return keras.callbacks.OrbaxCheckpoint(directory, **options)


def _check_savable(model, path):
    if path.suffix != ".keras":
        raise ValueError(
            "A checkpoint is a file whose name ends in .keras. "
            f"Received: {str(path)!r}. Write for example 'model.keras'."
        )
    if not model.built or not model.variables:
        raise ValueError(
            "A model is saved once it has variables. "
            f"Received: {model.name!r}, which is not built. Call it on a batch first."
        )


def _write(model, manifest, path):
    with replacing(path, suffix=".keras") as partial:
        with _no_distribution():
            model.save(partial)
        with zipfile.ZipFile(partial, "a") as archive:
            archive.writestr(manifests.NAME, manifest.to_json())
        manifests.check_file(partial, manifest)


@contextlib.contextmanager
def _pinned(path):
    """Yield a name for the file that `path` is now, whatever a `save` meanwhile puts in its place.

    A file that cannot have a second name is copied; what is no file keeps its name.
    """
    if not path.is_file():
        yield path
        return
    with contextlib.ExitStack() as stack:
        try:
            beside = tempfile.TemporaryDirectory(dir=path.parent, prefix=".restoring-")
            pinned = Path(stack.enter_context(beside), "model.keras")
            os.link(path, pinned)
        except OSError:
            pinned = Path(stack.enter_context(tempfile.TemporaryDirectory()), "model.keras")
            shutil.copyfile(path, pinned)
        yield pinned


def _read(file, path):
    received = f"Received: {str(path)!r}"
    if file.is_dir():
        raise ValueError(
            f"A checkpoint is one file that checkpoints.save wrote. {received}, a directory, "
            "as OrbaxCheckpoint writes them; on Keras 3.15 its weights come back random. "
            "Save the model again with checkpoints.save."
        )
    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
            if damaged is not None:
                raise zipfile.BadZipFile(f"{damaged} is damaged")
            if manifests.NAME in archive.namelist():
                config = json.loads(archive.read("config.json"))
                return config, manifests.Manifest.from_json(archive.read(manifests.NAME))
    except UNREADABLE as error:
        raise ValueError(
            f"A checkpoint is a whole file. {received}, which is torn or no .keras file: {error}. "
            "Take another copy of it."
        ) from error
    raise ValueError(
        f"A checkpoint carries the record of checkpoints.save. {received}, which has none, as "
        "after model.save. Load it with keras.saving.load_model, and save it with checkpoints.save."
    )


def _check_placement(layout, mesh):
    if (layout is None) != (mesh is None):
        raise ValueError(
            "A layout needs a mesh, and a mesh a layout. "
            f"Received: layout={layout!r}, mesh={mesh}. Pass both, or neither."
        )
    current = keras.distribution.distribution()
    if mesh is None and isinstance(current, keras.distribution.ModelParallel):
        raise RuntimeError(
            "Under ModelParallel the restored model needs a layout, or its variables would be "
            "replicated without a word. Received: neither mesh nor layout. "
            "Pass both, or call keras.distribution.set_distribution(None) first."
        )


@contextlib.contextmanager
def _distribution_kept_on_error():
    before = keras.distribution.distribution()
    try:
        yield
    except BaseException:
        keras.distribution.set_distribution(before)
        raise


@contextlib.contextmanager
def _no_distribution():
    # Saving, Keras makes a reference optimizer, which would need every process to take part.
    before = keras.distribution.distribution()
    keras.distribution.set_distribution(None)
    try:
        yield
    finally:
        keras.distribution.set_distribution(before)


@contextlib.contextmanager
def _policy(saved):
    before = keras.config.dtype_policy()
    try:
        keras.config.set_dtype_policy(keras.dtype_policies.deserialize(saved))
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _from_config(config, objects):
    # Compiling makes variables from values, which is for later.
    text = json.dumps(config | {"compile_config": None})
    return lambda: keras.models.model_from_json(text, custom_objects=objects)


def _made(build, sample, layout, mesh):
    if mesh is not None:
        return meshes.build(build, sample, layout, mesh=mesh)
    distribution = keras.distribution.distribution()

    def allocated(model):
        keras.distribution.set_distribution(distribution)
        abstract.allocate()
        return model

    return abstract.build(build, sample, allocated)


def _compile(model, config, objects):
    if config:
        with keras.saving.custom_object_scope(objects):
            model.compile_from_config(config)
