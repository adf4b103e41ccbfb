"""Record what section 5's training steps need on a slice of eight TPU v5e chips.

The steps are compiled by the TPU's own compiler, which needs no TPU; section 5 reads the record
where that compiler is not installed. Takes about a minute.

    pip install '.[tpu-plan]' && python -m recordings.v5e_plan
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
from keras import layers

from chapter18 import planning
from recordings._writing import record

TARGET = "v5e:2x4"


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
    record("v5e_plan", plans, "recordings/v5e_plan.py")


if __name__ == "__main__":
    main()
