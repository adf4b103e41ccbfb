"""Record what section 7's training step needs on a TPU v5e under each dtype policy.

The steps are compiled by the TPU's own compiler, which needs no TPU; section 7 reads the record
where that compiler is not installed. Takes about a minute.

    pip install '.[tpu-plan]' && python -m recordings.mixed_plan
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
from keras import layers

from chapter18 import planning
from recordings._writing import record

TARGET = "v5e:2x4"
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")


def wide():
    """The classifier of section 7 with three hidden layers of 2,048 units."""
    hidden = [layers.Dense(2048, activation="relu") for _ in range(3)]
    return keras.Sequential([keras.Input((784,)), *hidden, layers.Dense(10, dtype="float32")])


def main():
    """Plan, print and write the record."""
    plans = {
        policy: planning.plan(
            wide,
            mesh={"data": 8},
            batch_size=8 * 16_384,
            policy=policy,
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            target=TARGET,
        )
        for policy in POLICIES
    }
    record("mixed_v5e_plan", plans, "recordings/mixed_plan.py")


if __name__ == "__main__":
    main()
