"""What fused steps ask of a model, of k and of a training step, refused by name otherwise."""

import jax
import keras

from chapter18._shared import checks


def check_unchanged(state, new_state):
    """Raise TypeError where a training step gives another shape or dtype back than it got."""
    old, new = jax.tree.leaves(state), jax.tree.leaves(new_state)
    for before, after in zip(old, new, strict=True):
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            raise TypeError(
                "A fused step gives back what it was given, in shape and dtype. "
                f"Received: a train_step that turns {before.dtype}{before.shape} into "
                f"{after.dtype}{after.shape}. Cast it back inside train_step."
            )


def count(k):
    """Return `k` as an int, also from NumPy's integers; raise ValueError unless it is positive."""
    return checks.positive_integer(
        k,
        "k",
        rule="The number of steps to fuse must be a positive integer.",
        remedy="Pass 1 or more, for example steps.fuse(model, 32).",
    )


def check_model(model):
    """Raise unless `model` is compiled by XLA, on JAX, and trained by Keras' own loop."""
    checks.on_jax(rule="Steps are fused on the JAX backend.")
    checks.compiled(model, rule="Steps are fused on a compiled Keras model.")
    if model.run_eagerly or not model.jit_compile:
        raise ValueError(
            "Fused steps are compiled by XLA. "
            f"Received: run_eagerly={model.run_eagerly}, jit_compile={model.jit_compile}. "
            "Compile the model with the defaults of both."
        )
    for name in ("fit", "make_train_function"):
        if getattr(type(model), name) is not getattr(keras.Model, name):
            raise ValueError(
                "Fusing replaces Keras' own training loop around train_step. "
                f"Received: {type(model).__name__}, which overrides {name}. "
                "Override train_step instead, which fusing keeps, or train it without fusing."
            )


def check_steps_per_epoch(steps_per_epoch, k):
    """Raise ValueError unless an epoch, where its steps are given, has whole groups of `k`."""
    if steps_per_epoch is None or steps_per_epoch % k == 0:
        return
    divisor = max(n for n in range(1, k + 1) if steps_per_epoch % n == 0)
    raise ValueError(
        "steps_per_epoch must be a multiple of the steps fused, because Keras counts whole groups "
        f"and would draw batches past the end of the epoch. Received: steps_per_epoch="
        f"{steps_per_epoch}, k={k}. Fuse {divisor} steps, or change steps_per_epoch."
    )
