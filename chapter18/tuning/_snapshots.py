"""Files that survive a kill: checksummed JSON, two copies, each replaced whole or not at all."""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import keras_tuner as kt

from chapter18._shared.replacing import replacing

_SNAPSHOT = "snapshot.json"


class Snapshot(NamedTuple):
    """Everything a search needs to go on: plain values that JSON can hold."""

    identity: dict[str, Any]
    oracle: dict[str, Any]
    trials: dict[str, dict[str, Any]]
    tuner: dict[str, Any]
    randomness: list[Any] | None
    search: dict[str, Any] | None = None  # what search was called with; None before it was


def write(path: Path, state: Any) -> None:
    """Write `state` (what JSON can hold) to `path`, then the same to `path` + ".backup"."""
    text = json.dumps(state)
    for copy in _copies(path):
        _replace(copy, f'{{"sha256": "{_digest(text)}", "state": {text}}}')


def read(path: Path) -> Any:
    """Return the state last written to `path`, or None; `ValueError` where no copy is whole."""
    found = [copy for copy in _copies(path) if copy.exists()]
    for copy in found:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            envelope = json.loads(copy.read_text(encoding="utf-8"))
            if _digest(json.dumps(envelope["state"])) == envelope["sha256"]:
                return envelope["state"]
    if not found:
        return None
    raise ValueError(
        "A snapshot must have at least one whole copy. "
        f"Received: {' and '.join(map(str, found))}, torn or changed by hand. "
        "Put back a copy of your own, or start afresh with overwrite=True."
    )


def load_project(project: Path) -> Snapshot | None:
    """Return the `Snapshot` of the project folder, or None for a folder that holds no search."""
    state = read(project / _SNAPSHOT)
    if state is not None:
        return Snapshot(**state)
    if (project / "oracle.json").exists():
        raise ValueError(
            "A search can be resumed only if make_tuner began it. "
            f"Received: {project}, which holds a search without snapshots. "
            "Choose another project_name, or pass overwrite=True to start afresh."
        )
    return None


def capture(tuner: kt.Tuner) -> None:
    """Write the state of `tuner` to its project folder as a snapshot."""
    oracle = tuner.oracle
    state = oracle.get_state()
    # Keras Tuner 1.4.8 saves an ended trial that still counts as ongoing, and would run it again.
    state["ongoing_trials"] = {
        tuner_id: trial_id
        for tuner_id, trial_id in state["ongoing_trials"].items()
        if oracle.trials[trial_id].status == "RUNNING"
    }
    snapshot = Snapshot(
        identity=tuner.identity,
        oracle=state,
        trials={trial_id: trial.get_state() for trial_id, trial in oracle.trials.items()},
        tuner=tuner.get_state(),
        randomness=_randomness(oracle),
        search=tuner.searched,
    )
    write(Path(tuner.project_dir) / _SNAPSHOT, snapshot._asdict())


def restore_files(project: Path, snapshot: Snapshot, *, tuner_id: str) -> None:
    """Make Keras Tuner's own files in the project folder say what the snapshot says."""
    for trial_id, state in snapshot.trials.items():
        folder = project / f"trial_{trial_id}"
        folder.mkdir(exist_ok=True)
        _replace(folder / "trial.json", json.dumps(_rewound(state)))
    _replace(project / "oracle.json", json.dumps(snapshot.oracle))
    _replace(project / f"{tuner_id}.json", json.dumps(snapshot.tuner))


def knows(oracle: kt.Oracle, snapshot: Snapshot) -> bool:
    """Whether the trials of `snapshot` are those of `oracle`, with the same scores."""
    # Keras Tuner ends a trial, then may stop the search before it saves.
    ended = snapshot.oracle["end_order"]
    return (
        snapshot.oracle["start_order"] == oracle.start_order
        and ended == oracle.end_order[: len(ended)]
        and all(str(snapshot.trials[i]["score"]) == str(oracle.trials[i].score) for i in ended)
    )


def _randomness(oracle):
    """The random state, which Keras Tuner's Bayesian oracle does not save itself."""
    if not hasattr(oracle, "_random_state"):
        return None
    name, keys, *rest = oracle._random_state.get_state()
    return [name, keys.tolist(), *rest]


def _rewound(trial):
    """A trial that was in flight runs again, so what it had reported must not count."""
    nothing = {"metrics": {"metrics": {}}, "score": None, "message": None}
    return trial | nothing if trial["status"] == "RUNNING" else trial


def _copies(path):
    return path, path.with_name(path.name + ".backup")


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def _replace(path, text):
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
