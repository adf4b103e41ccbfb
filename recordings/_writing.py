"""Keep plans that a TPU's compiler made, for machines without it."""

import datetime
from importlib.metadata import version
from pathlib import Path

from chapter18 import recorded

_DATA = Path(__file__).parents[1] / "chapter18" / "data"


def record(name, plans, script):
    """Print the `plans`, a dict by name, and write them to chapter18/data/<name>.json."""
    for title, plan in plans.items():
        print(title, plan, sep="\n")
    recording = recorded.Recording(
        plans=plans,
        date=datetime.date.today().isoformat(),
        versions={package: version(package) for package in ("keras", "jax", "jaxlib", "libtpu")},
        script=script,
    )
    (_DATA / f"{name}.json").write_text(recorded.dumps(recording), encoding="utf-8")
