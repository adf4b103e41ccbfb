"""Run a group of batches in one compiled call: Keras' own scan where it has one, else ours.

Both draw a group from the iterator of `fit` and run it on the state that `train_step` takes. Ours,
and the choice between the two, can go when Keras 3.16 is the oldest that the package takes.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import keras
import numpy as np
from keras.src.trainers.data_adapters import data_adapter_utils

# From Keras 3.16 on, `fit` stacks the batches of a group itself; what does not stack comes in this.
_Singles = getattr(data_adapter_utils, "PartialBatchList", None)
KERAS_FUSES: bool = _Singles is not None


def make(model, k):
    """Return the scan over `k` training steps of a compiled `model`."""
    return (_KerasScan if KERAS_FUSES else _OwnScan)(model, k)


class _KerasScan:
    """The scan of Keras 3.16 and later, over super-batches `(k, rows, …)`."""

    def __init__(self, model, k):
        self.model, self.k = model, k
        self._function = None

    def prepare(self):
        """Let Keras make its function, while the variables still hold the values it asks for."""
        if self._function is not None:
            return
        model, own_step = self.model, vars(self.model).get("train_step")
        before = model.steps_per_execution, model.train_function
        model.steps_per_execution, model.train_step = self.k, _same_form(model.train_step)
        try:
            model.make_train_function(force=True)
            self._function = model.train_function
        finally:
            model.steps_per_execution, model.train_function = before
            del model.train_step
            if own_step is not None:
                model.train_step = own_step

    def draw(self, iterator, *, stacked):
        """Return a group and its number of batches; `stacked`: `iterator` is that of `fit`."""
        group = next(iterator)
        if self.k == 1:
            return group, 1
        if not stacked:
            # Keras would take the rows of this one batch for batches.
            group = _Singles([group])
        if isinstance(group, _Singles):
            return group, len(group)
        return group, jax.tree.leaves(group)[0].shape[0]

    def run(self, state, group):
        self.prepare()
        return self._function(state, iter([group]))


class _OwnScan:
    """Keras up to 3.15 calls the step `k` times from Python; this scans over batches it stacks."""

    def __init__(self, model, k):
        self.model, self.k = model, k
        self._single = self._many = None

    def prepare(self):
        pass

    def draw(self, iterator, *, stacked):
        del stacked
        batches = list(itertools.islice(iterator, self.k))
        if not batches:
            raise StopIteration
        return batches, len(batches)

    def run(self, state, batches):
        if self._single is None:
            self._compile(state)
        if len(batches) == self.k > 1 and _alike(batches):
            return self._many(state, _stack(batches))
        for batch in batches:
            logs, state = self._single(state, batch)
        return logs, state

    def _compile(self, state):
        """Jit the model's step and the scan over it, in the shardings that `state` has."""
        step = _same_form(self.model.train_step)
        options = {"donate_argnums": 0}
        if keras.distribution.distribution() is not None:
            options["out_shardings"] = (None, jax.tree.map(lambda leaf: leaf.sharding, state))

        def many(state, batches):
            state, logs = jax.lax.scan(lambda *args: step(*args)[::-1], state, batches)
            return jax.tree.map(lambda values: values[-1], logs), state

        self._single = jax.jit(step, **options)
        self._many = jax.jit(many, **options)


def _same_form(step):
    """`step`, giving the state back in the very containers, shapes and dtypes that it got."""

    @functools.wraps(step)
    def train_step(state, batch):
        logs, new_state = step(state, batch)
        _check_unchanged(state, new_state)
        # A user's own step may swap list for tuple.
        return logs, jax.tree.unflatten(jax.tree.structure(state), jax.tree.leaves(new_state))

    return train_step


def _check_unchanged(state, new_state):
    """Raise TypeError where a training step gives another shape or dtype back than it got."""
    old, new = jax.tree.leaves(state), jax.tree.leaves(new_state)
    for before, after in zip(old, new, strict=True):
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            raise TypeError(
                "A fused step gives back what it was given, in shape and dtype. "
                f"Received: a train_step that turns {before.dtype}{before.shape} into "
                f"{after.dtype}{after.shape}. Cast it back inside train_step."
            )


def _alike(batches):
    """Whether all batches have the same structure, shapes and dtypes, so that they stack."""
    forms = [_form(batch) for batch in batches]
    return all(form == forms[0] for form in forms)


def _form(batch):
    leaves, structure = jax.tree.flatten(batch)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _stack(batches):
    """Stack batches along a new first axis `(k, rows, …)`, where their arrays already are."""
    if all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(batches[0])):
        return jax.tree.map(lambda *leaves: np.stack(leaves), *batches)
    return _stack_on_devices(*batches)


@jax.jit
def _stack_on_devices(*batches):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *batches)
