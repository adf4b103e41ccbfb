"""`python -m benchmarks`: run every benchmark, print one table, record it as JSON in build/."""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"

from benchmarks import (
    devices,
    ensembles,
    mixed_precision,
    planning,
    quantization,
    steps,
    tuning,
)

OUT = Path(__file__).parent.parent / "build" / "benchmarks.json"


def main():
    """Measure, print and record."""
    parts = (tuning, ensembles, planning, steps, mixed_precision, quantization, devices)
    rows = [row for part in parts for row in part.measure()]
    print("seconds, unless the name says otherwise")
    print(f"{'benchmark':<52} {'usual':>10} {'ours':>10} {'ratio':>7}  checked")
    for row in rows:
        print(
            f"{row.name:<52} {row.baseline_seconds:>10.4f} {row.ours_seconds:>10.4f} "
            f"{row.ratio:>6.2f}x  {row.note}"
        )
    OUT.parent.mkdir(exist_ok=True)
    report = {"machine": _machine(), "rows": [r._asdict() for r in rows]}
    OUT.write_text(json.dumps(report, indent=1), encoding="utf-8")
    print(f"written to {OUT}")


def _machine():
    packages = ("jax", "keras", "keras-tuner", "numpy", "scipy")
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }


if __name__ == "__main__":
    main()
