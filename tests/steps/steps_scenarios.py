"""Train plainly and fused from the same start; print each case and what differs, or "same"."""

import sys

import jax
import keras
import numpy as np
from distributions import DISTRIBUTIONS
from keras import layers

from chapter18 import steps

K, BATCH, EPOCHS = 4, 16, 2
# Two whole groups of 4, then 3 batches of which the last is short.
ROWS = 10 * BATCH + 8


def build(policy="float32", normalise=False, **options):
    """A small classifier; a fixed seed, because the layers' random numbers must agree too."""
    keras.utils.set_random_seed(7)
    keras.config.set_dtype_policy(policy)
    model = keras.Sequential(
        [
            keras.Input((12,)),
            layers.Dense(16, activation="relu", name="hidden"),
            *([layers.BatchNormalization(), layers.Dropout(0.5)] if normalise else []),
            layers.Dense(4, dtype="float32", name="out"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.01, **options),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        weighted_metrics=["accuracy"],
    )
    return model


MODELS = {
    "batch_norm_dropout": {"normalise": True, "global_clipnorm": 1.0},
    "mixed_float16_accumulation": {"policy": "mixed_float16", "gradient_accumulation_steps": 3},
    "mixed_bfloat16_moving_average": {"policy": "mixed_bfloat16", "use_ema": True},
}


def train(case, k):
    """Return the history and every variable, after fused training unless `k` is None."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 12)).astype("float32")
    y = rng.integers(0, 4, ROWS)
    weights = rng.uniform(0.5, 2.0, ROWS).astype("float32")
    model = build(**MODELS[case])
    if k:
        steps.fuse(model, k)
    history = model.fit(
        x,
        y,
        sample_weight=weights,
        batch_size=BATCH,
        epochs=EPOCHS,
        verbose=0,
    ).history
    state = {v.path: v.value for v in (*model.variables, *model.optimizer.variables)}
    return history, state


def differences(case):
    (history, state), (fused_history, fused_state) = train(case, None), train(case, K)
    found = [] if history == fused_history else [f"history {history} {fused_history}"]
    # The paths of two models differ in their automatic numbers only, never in their order.
    for (path, plain), fused in zip(state.items(), fused_state.values(), strict=True):
        if np.asarray(plain).tobytes() != np.asarray(fused).tobytes():
            found.append(path)
        if not plain.sharding.is_equivalent_to(fused.sharding, plain.ndim):
            found.append(f"{path}: {plain.sharding} {fused.sharding}")
    return found if _placed_as_asked(state) else [*found, "not placed as asked"]


def _placed_as_asked(state):
    """Whether all devices hold the state, and ModelParallel has split some of it."""
    current = keras.distribution.distribution()
    values = list(state.values())
    split = any(not value.is_fully_replicated for value in values)
    everywhere = all(len(value.devices()) == jax.device_count() for value in values)
    if current is None:
        return not split
    return everywhere and split == isinstance(current, keras.distribution.ModelParallel)


def main():
    for name in sys.argv[1:]:
        for case in MODELS:
            keras.distribution.set_distribution(DISTRIBUTIONS[name]())
            print(name, case, differences(case) or "same", flush=True)


if __name__ == "__main__":
    main()
