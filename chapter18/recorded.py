"""What other machines said, kept for those without them: plans, measurements, model spaces."""

import json
from importlib import resources
from typing import NamedTuple

import pandas as pd

from chapter18.planning import Collective, Estimate, Plan, PlannedArray

COLUMNS = ["setting", "seconds", "accuracy", "parameter bytes", "peak bytes"]
_NONE = (
    "No accelerator has been measured yet: `python -m recordings.accelerator` in a clone of the "
    "repository does it, on a machine that has one."
)


class Recording(NamedTuple):
    """Plans by name, with the date (ISO), the package versions and the script that made them."""

    plans: dict[str, Plan]
    date: str
    versions: dict[str, str]
    script: str


class Measurement(NamedTuple):
    """One machine's figures: `tables` maps experiments to DataFrames with the columns `COLUMNS`.

    Seconds are those of one epoch or one pass, accuracy is on MNIST's test images, and the peak is
    the device's memory (NaN where it does not tell). `hardware` is one line, `date` ISO, `versions`
    the packages', `script` the command that measured.
    """

    hardware: str
    date: str
    versions: dict[str, str]
    script: str
    tables: dict[str, pd.DataFrame]

    def heading(self) -> str:
        """One line that says where, when and with what this was measured."""
        packages = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"{self.hardware}, {self.date}, {packages} ({self.script})"


def plans(name: str) -> Recording:
    """Return the plans in `chapter18/data/<name>.json`, made where a compiler was at hand.

    Raises ValueError, with the recordings there are, when there is none of that name.
    """
    path = _data() / f"{name}.json"
    if not path.is_file():
        known = sorted(p.name[:-5] for p in _data().iterdir() if p.name.endswith("_plan.json"))
        raise ValueError(
            f"A recording of plans is one that the package ships. Received: {name!r}. "
            f"There are {known}."
        )
    record = json.loads(path.read_text(encoding="utf-8"))
    return Recording(**record | {"plans": {k: _plan(v) for k, v in record["plans"].items()}})


def measurements() -> list[Measurement]:
    """Return what `recordings/accelerator.py` measured, by file name; there may be nothing."""
    files = (f for f in _data().iterdir() if f.name.startswith("measured_"))
    return [_measurement(f.read_text("utf-8")) for f in sorted(files, key=lambda f: f.name)]


def figures(experiment: str) -> str:
    """Return the figures of `experiment` as text, under their headings; one line if there are none.

    Experiments are those of `recordings/accelerator.py`: "training", "inference", "fused".
    """
    found = [m for m in measurements() if experiment in m.tables]
    parts = [f"{m.heading()}\n{m.tables[experiment].to_string(index=False)}" for m in found]
    return "\n\n".join(parts) or _NONE


def spaces() -> str:
    """Return what became of the ready-made search spaces of `kt.applications`, as text.

    A line a space, under the date, the machine and the versions; `recordings/premade_spaces.py`
    trained each on 128 images.
    """
    record = json.loads((_data() / "kt_applications.json").read_text(encoding="utf-8"))
    lines = [f"recorded {record['date']} on {record['hardware']}, {record['versions']}", ""]
    for space in record["spaces"]:
        verdict = "trains" if space["trains"] else f"fails in {space['stage']}"
        lines.append(f"{space['space']:18} {verdict}")
        lines += [] if space["trains"] else [f"     {space['message']}"]
    return "\n".join(lines)


def dumps(record: Recording | Measurement) -> str:
    """Return a record as the text of the JSON file that it is read from."""
    if isinstance(record, Measurement):
        tables = {n: json.loads(t.to_json(orient="records")) for n, t in record.tables.items()}
        return json.dumps(record._asdict() | {"tables": tables}, indent=1) + "\n"
    plain = {name: _plain(plan) for name, plan in record.plans.items()}
    return json.dumps(record._asdict() | {"plans": plain}, indent=1) + "\n"


def _data():
    return resources.files("chapter18") / "data"


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


def _measurement(text):
    fields = json.loads(text)
    tables = {n: pd.DataFrame(rows, columns=COLUMNS) for n, rows in fields["tables"].items()}
    return Measurement(**fields | {"tables": tables})
