"""Record what section 5's training steps need on a slice of eight TPU v5e chips.

The steps are compiled by the TPU's own compiler, which needs no TPU; section 5 reads the record
where that compiler is not installed. Takes about a minute.

    pip install '.[tpu-plan]' && python benchmarks/record_v5e_plan.py
"""

import datetime
import os
from importlib.metadata import version
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"

import keras
from keras import layers

from chapter18 import planning, recorded_plans

TARGET = "v5e:2x4"
RECORD = Path(__file__).parents[1] / "chapter18" / "data" / "v5e_plan.json"


def tiny():
    """The small classifier of section 5."""
    return _classifier(64)


def wide():
    """Its large one."""
    return _classifier(1024, 1024)


def _classifier(*hidden):
    dense = [layers.Dense(units, activation="relu") for units in hidden]
    return keras.Sequential([layers.Input((784,)), *dense, layers.Dense(10)])


def main():
    """Plan, print and write the record."""
    step = {
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "metrics": ["accuracy"],
        "target": TARGET,
    }
    plans = {
        "tiny": planning.plan(tiny, mesh={"data": 8}, batch_size=128, **step),
        "wide": planning.plan(wide, mesh={"data": 8}, batch_size=8192, **step),
    }
    for name, plan in plans.items():
        print(name, plan, sep="\n")
    recording = recorded_plans.Recording(
        plans=plans,
        date=datetime.date.today().isoformat(),
        versions={name: version(name) for name in ("keras", "jax", "jaxlib", "libtpu")},
        script="benchmarks/record_v5e_plan.py",
    )
    RECORD.write_text(recorded_plans.dumps(recording), encoding="utf-8")


if __name__ == "__main__":
    main()
