"""The file of a checkpoint: Keras' own format, with two records of what it must give back."""

import contextlib
import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from chapter18._shared import manifests, nests
from chapter18._shared.replacing import UNREADABLE
from chapter18.checkpoints._predictions import Predictions

_PROOF = "chapter18.npz"


class Proof(NamedTuple):
    """What the variables do not tell: predictions, and the arrays that layers derived from data."""

    predictions: Predictions
    derived: dict[str, Any]


class Checkpoint(NamedTuple):
    """What a file holds beside the values of its variables; `proof` is None in older files."""

    config: dict[str, Any]
    manifest: manifests.Manifest
    proof: Proof | None


def add_records(file, manifest, proof):
    """Add the records to a `.keras` file that Keras has just written.

    Raises ValueError when the file has assets, such as a vocabulary: restoring leaves them out.
    """
    with zipfile.ZipFile(file, "a") as archive:
        assets = [name for name in archive.namelist() if name.startswith("assets/")]
        if assets:
            raise ValueError(
                "A checkpoint holds variables and arrays, no files of a layer's own. "
                f"Received: a model that saves {assets[:3]}. Give its layers their vocabulary as "
                "an argument, or save it with model.save."
            )
        archive.writestr(manifests.NAME, manifest.to_json())
        content = {"predictions": tuple(proof.predictions), "derived": proof.derived}
        # Compressed, because the end of a NumPy archive would pass for that of a torn checkpoint.
        archive.writestr(_PROOF, nests.pack(content), zipfile.ZIP_DEFLATED)


def read(file, path):
    """Return what `file` holds; `path` is its name in errors.

    Raises ValueError when it is torn, a directory, or no file of `checkpoints.save`.
    """
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
                return _read(archive)
    except UNREADABLE as error:
        raise ValueError(
            f"A checkpoint is a whole file. {received}, which is torn or no .keras file: {error}. "
            "Take another copy of it."
        ) from error
    raise ValueError(
        f"A checkpoint carries the record of checkpoints.save. {received}, which has none, as "
        "after model.save. Load it with keras.saving.load_model, and save it with checkpoints.save."
    )


def _read(archive):
    config = json.loads(archive.read("config.json"))
    manifest = manifests.Manifest.from_json(archive.read(manifests.NAME))
    if _PROOF not in archive.namelist():
        return Checkpoint(config, manifest, None)
    content = nests.unpack(archive.read(_PROOF))
    return Checkpoint(
        config, manifest, Proof(Predictions(*content["predictions"]), content["derived"])
    )


@contextlib.contextmanager
def pinned(path):
    """Yield a name for the file that `path` is now, whatever a `save` meanwhile puts in its place.

    A file that cannot have a second name is copied; what is no file keeps its name.
    """
    if not path.is_file():
        yield path
        return
    path = path.resolve()  # a second name of a symbolic link may lead nowhere
    with contextlib.ExitStack() as stack:
        try:
            beside = tempfile.TemporaryDirectory(dir=path.parent, prefix=".restoring-")
            second = Path(stack.enter_context(beside), "model.keras")
            os.link(path, second)
        except OSError:
            second = Path(stack.enter_context(tempfile.TemporaryDirectory()), "model.keras")
            shutil.copyfile(path, second)
        yield second
