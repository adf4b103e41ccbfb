"""Plans made where a compiler was at hand, kept for machines that have none."""

import json
from importlib import resources
from typing import NamedTuple

from chapter18.collectives import Collective
from chapter18.compiling import Estimate
from chapter18.plans import Plan
from chapter18.training_state import PlannedArray


class Recording(NamedTuple):
    """Plans by name, with the date (ISO), the package versions and the script that made them."""

    plans: dict
    date: str
    versions: dict
    script: str


def load(name) -> Recording:
    """Return the `Recording` in `chapter18/data/<name>.json`.

    Raises ValueError, with the recordings there are, when there is none of that name.
    """
    folder = resources.files("chapter18") / "data"
    path = folder / f"{name}.json"
    if not path.is_file():
        known = sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith("_plan.json"))
        raise ValueError(
            f"A recording of plans is one that the package ships. Received: {name!r}. "
            f"There are {known}."
        )
    record = json.loads(path.read_text(encoding="utf-8"))
    return Recording(**record | {"plans": {k: _plan(v) for k, v in record["plans"].items()}})


def dumps(recording) -> str:
    """Return a `Recording` as the text of a JSON file."""
    plans = {name: _plain(plan) for name, plan in recording.plans.items()}
    return json.dumps(recording._asdict() | {"plans": plans}, indent=1) + "\n"


def _plain(plan):
    fields = plan._asdict() | {"arrays": [array._asdict() for array in plan.arrays]}
    if plan.estimate is not None:
        found = plan.estimate.collectives
        fields["estimate"] = plan.estimate._asdict() | {
            "collectives": None if found is None else [c._asdict() for c in found]
        }
    return fields


def _plan(fields):
    arrays = tuple(
        PlannedArray(**array | {"shape": tuple(array["shape"]), "spec": tuple(array["spec"])})
        for array in fields["arrays"]
    )
    guess = fields["estimate"]
    if guess is not None:
        found = guess["collectives"]
        found = None if found is None else tuple(Collective(**c) for c in found)
        guess = Estimate(**guess | {"collectives": found})
    return Plan(**fields | {"arrays": arrays, "estimate": guess})
