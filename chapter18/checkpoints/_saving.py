"""Save a model under one distribution and restore it under another, proven on the spot."""

import contextlib
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from chapter18 import mesh as meshes
from chapter18._shared import abstract, gathering, layers, manifests
from chapter18._shared.replacing import replacing
from chapter18.checkpoints import _files, _predictions, _savable


def save(model: keras.Model, path: str | os.PathLike[str], *, sample: Any = None) -> None:
    """Save `model` to `path`, a `.keras` file that `restore` can prove; replace what is there.

    Any distribution will do; every process of a multi-process run calls this, and the first one
    writes. The file is Keras' own format with two records more: the dtype policy, the optimizer's
    class, what is trainable and a digest of every variable; then arrays that layers derived from
    data, and what the model predicts for a small batch. It is written beside `path`, read back,
    compared with the model and only then moved into place, so `path` is never torn; if it is a
    symbolic link, the file that it names is replaced.

    `sample`, a batch of a few rows as the model is called with, is kept in the file. Without one,
    a batch is made up from the inputs that the model declares or was built with; where that
    cannot be done, a warning says that predictions are not proven.

    Raises ValueError when Keras' file could not give the model back (NaN, a loss that is a lambda,
    weights frozen after the optimizer was built, and the like), when the model fails for `sample`
    or keeps files of its own, and RuntimeError when the written file lacks a variable's value;
    `path` is then left as it was.
    """
    path = Path(path)
    _savable.check(model, path)
    manifest = manifests.describe(model)
    predicted = _predictions.record(model, sample)
    if predicted.inputs is None:
        _warn(f"{model.name!r} is saved without predictions, since {predicted.reason}")
    proof = _files.Proof(predicted, layers.derived_state(model))
    with gathering.gathered(manifests.state(model)), gathering.first_only() as writes:
        if writes:
            _write(model, manifest, proof, path)


def restore(
    path: str | os.PathLike[str],
    *,
    build: Callable[[], keras.Model] | None = None,
    sample: Any = None,
    layout: str | meshes.Rules | None = None,
    mesh: keras.distribution.DeviceMesh | None = None,
    custom_objects: dict[str, Any] | None = None,
) -> keras.Model:
    """Return the model saved at `path`, equal to it and compiled as it was.

    With `mesh`, it is built into `layout` (a scheme's name or rules) as `mesh.build` does, and
    that distribution is the global one on return. Without, it is placed under the global
    distribution: none, or `DataParallel`. `build` and `sample` make the model anew; without them
    it comes from the configuration in the file, where `custom_objects` maps names to classes and
    functions that Keras does not know, and paths may lack the root, so prefer schemes to rules.

    Weights, random seeds, optimizer class and slots, iteration and loss scale are compared with
    the record, to the bit, before this returns; then predictions for the batch in the file, to the
    rounding of other devices. A warning says so where the file has no
    predictions. The saved dtype policy is set only meanwhile.

    Raises ValueError when `path` is not a whole file of `save` or when `layout` and `mesh` do not
    come together, RuntimeError when the global distribution is a `ModelParallel` and no mesh is
    given, or when anything restored differs; the global distribution is then as it was.
    """
    _check_placement(layout, mesh)
    with _files.pinned(Path(path)) as pinned:
        config, manifest, proof = _files.read(pinned, path)
        objects = dict(custom_objects or {})
        with _distribution_kept_on_error(), _policy(manifest.policy):
            model = _made(build or _from_config(config, objects), sample, layout, mesh)
            manifests.restore_trainable(model, manifest)
            _compile(model, config.get("compile_config"), objects)
            model.load_weights(pinned)
            manifests.restore_seeds(model, manifest)
            manifests.check(model, manifest)
            _prove(model, proof)
    return model


def _warn(what):
    warnings.warn(
        f"Only variables are proven: {what}. Pass sample=, a batch of a few rows, to save.",
        stacklevel=3,
    )


def _write(model, manifest, proof, path):
    with replacing(path, suffix=".keras") as partial:
        with _no_distribution():
            model.save(partial)
        _files.add_records(partial, manifest, proof)
        manifests.check_file(partial, manifest)


def _prove(model, proof):
    if proof is None:
        return
    layers.put_derived_back(model, proof.derived)
    if proof.predictions.inputs is None:
        _warn(f"{model.name!r} was saved without predictions")
        return
    found = _predictions.difference(model, proof.predictions)
    if found:
        raise RuntimeError(
            "A restored model predicts what the saved one predicted. "
            f"Received: {found}, with equal variables. A layer keeps something outside of its "
            "variables and its configuration, or its code has changed: let get_config return it, "
            "or pass build=. keras.saving.load_model opens the file without this proof."
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
