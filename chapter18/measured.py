"""What accelerators did with the experiments of sections 5 to 8.

`benchmarks/measure_accelerator.py` measures and records; a machine
that has no accelerator can still show what one did.
"""

import json
from importlib import resources
from typing import NamedTuple

import pandas as pd

COLUMNS = ["setting", "seconds", "accuracy", "parameter bytes", "peak bytes"]
_NONE = (
    "No accelerator has been measured yet: `python -m benchmarks.measure_accelerator` in a clone "
    "of the repository does it, on a machine that has one."
)


class Measurement(NamedTuple):
    """One machine's figures: `tables` maps experiments to DataFrames with the columns `COLUMNS`.

    Seconds are those of one epoch or one pass, accuracy is on MNIST's test images, and the peak is
    the device's memory (NaN where it does not tell). `hardware` is one line, `date` ISO, `versions`
    the packages', `script` the command that measured.
    """

    hardware: str
    date: str
    versions: dict
    script: str
    tables: dict

    def heading(self):
        """One line that says where, when and with what this was measured."""
        packages = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"{self.hardware}, {self.date}, {packages} ({self.script})"


def load() -> list:
    """Return the `Measurement`s that the package ships, by file name; there may be none."""
    folder = resources.files("chapter18") / "data"
    files = (f for f in folder.iterdir() if f.name.startswith("measured_"))
    return [_parse(f.read_text(encoding="utf-8")) for f in sorted(files, key=lambda f: f.name)]


def dumps(measurement) -> str:
    """Return a `Measurement` as the text of a JSON file."""
    tables = {
        name: json.loads(table.to_json(orient="records"))
        for name, table in measurement.tables.items()
    }
    return json.dumps(measurement._asdict() | {"tables": tables}, indent=1) + "\n"


def describe(experiment) -> str:
    """Return the figures of `experiment` as text, under their headings; one line if there are none.

    Experiments are those of `benchmarks/measure_accelerator.py`: "training", "inference", "fused".
    """
    found = [m for m in load() if experiment in m.tables]
    parts = [f"{m.heading()}\n{m.tables[experiment].to_string(index=False)}" for m in found]
    return "\n\n".join(parts) or _NONE


def _parse(text):
    fields = json.loads(text)
    tables = {n: pd.DataFrame(rows, columns=COLUMNS) for n, rows in fields["tables"].items()}
    return Measurement(**fields | {"tables": tables})
