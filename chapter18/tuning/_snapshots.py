"""Files that survive a kill: checksummed JSON, two copies, each replaced whole or not at all."""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from chapter18._shared.replacing import replacing

SNAPSHOT = "snapshot.json"


class Snapshot(NamedTuple):
    """Everything a search needs to go on: plain values that JSON can hold."""

    identity: dict[str, Any]
    oracle: dict[str, Any]
    trials: dict[str, dict[str, Any]]
    tuner: dict[str, Any]
    randomness: list | None
    search: dict[str, Any] | None = None  # what search was called with; None before it was


def write(path, state):
    """Write `state` (what JSON can hold) to `path`, then the same to `path` + ".backup".

    Each copy is written to a temporary file, flushed to the disk and renamed, so a reader finds the
    old text or the new one, never half of either.
    """
    text = json.dumps(state)
    envelope = f'{{"sha256": "{_digest(text)}", "state": {text}}}'
    for copy in _copies(path):
        _replace(copy, envelope)


def read(path):
    """Return the state last written to `path`, or None if it was never written.

    Raises `ValueError` when copies exist but none of them is whole.
    """
    found = [copy for copy in _copies(path) if copy.exists()]
    for copy in found:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return _verified(copy.read_text(encoding="utf-8"))
    if not found:
        return None
    raise ValueError(
        "A snapshot must have at least one whole copy. "
        f"Received: {' and '.join(map(str, found))}, torn or changed by hand. "
        "Put back a copy of your own, or start afresh with overwrite=True."
    )


def load_project(project):
    """Return the `Snapshot` of the project folder, or None for a folder that holds no search.

    Raises `ValueError` for a search that wrote no snapshots, or whose snapshots are all torn.
    """
    state = read(project / SNAPSHOT)
    if state is not None:
        return Snapshot(**state)
    if (project / "oracle.json").exists():
        raise ValueError(
            "A search can be resumed only if make_tuner began it. "
            f"Received: {project}, which holds a search without snapshots. "
            "Choose another project_name, or pass overwrite=True to start afresh."
        )
    return None


def capture(tuner, identity):
    """Write the state of `tuner` to its project folder as a snapshot."""
    oracle = tuner.oracle
    state = oracle.get_state()
    # Keras Tuner 1.4.8 saves an ended trial while it still counts as ongoing; resumed from such a
    # file it would run that trial again.
    state["ongoing_trials"] = {
        tuner_id: trial_id
        for tuner_id, trial_id in state["ongoing_trials"].items()
        if oracle.trials[trial_id].status == "RUNNING"
    }
    snapshot = Snapshot(
        identity=identity,
        oracle=state,
        trials={trial_id: trial.get_state() for trial_id, trial in oracle.trials.items()},
        tuner=tuner.get_state(),
        randomness=_randomness(oracle),
        search=tuner.searched,
    )
    write(Path(tuner.project_dir) / SNAPSHOT, snapshot._asdict())


def restore_files(project, snapshot, *, tuner_id):
    """Make Keras Tuner's own files in the project folder say what the snapshot says."""
    for trial_id, state in snapshot.trials.items():
        folder = project / f"trial_{trial_id}"
        folder.mkdir(exist_ok=True)
        _replace(folder / "trial.json", json.dumps(_rewound(state)))
    _replace(project / "oracle.json", json.dumps(snapshot.oracle))
    _replace(project / f"{tuner_id}.json", json.dumps(snapshot.tuner))


def restore_randomness(oracle, snapshot):
    """Give back the random state that Keras Tuner's Bayesian oracle does not save itself."""
    if snapshot.randomness is not None:
        oracle._random_state.set_state(snapshot.randomness)


def knows(oracle, snapshot):
    """Whether the trials of `snapshot` are those of `oracle`, with the same scores."""
    # Keras Tuner ends a trial, then may stop the search before it saves.
    ended = snapshot.oracle["end_order"]
    return (
        snapshot.oracle["start_order"] == oracle.start_order
        and ended == oracle.end_order[: len(ended)]
        and all(str(snapshot.trials[i]["score"]) == str(oracle.trials[i].score) for i in ended)
    )


def _randomness(oracle):
    generator = getattr(oracle, "_random_state", None)
    if generator is None:
        return None
    name, keys, *rest = generator.get_state()
    return [name, keys.tolist(), *rest]


def _rewound(trial):
    """A trial that was in flight runs again, so what it had reported must not count."""
    if trial["status"] != "RUNNING":
        return trial
    return {**trial, "metrics": {"metrics": {}}, "score": None, "message": None}


def _copies(path):
    path = Path(path)
    return path, path.with_name(path.name + ".backup")


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def _verified(text):
    envelope = json.loads(text)
    if _digest(json.dumps(envelope["state"])) != envelope["sha256"]:
        raise ValueError("the checksum differs")
    return envelope["state"]


def _replace(path, text):
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
