"""How rows fall into batches over several devices, and which rows `fit` has to leave out."""

from typing import Any, NamedTuple

import jax
import keras
import numpy as np

from chapter18._shared import checks


class BatchPlan(NamedTuple):
    """How rows fall into batches. `per_replica` is in rows, `outcome` a sentence for a human."""

    rows: int
    batch_size: int
    devices: int
    per_replica: int
    full_batches: int
    remainder: int
    outcome: str


def plan_batches(rows: int, batch_size: int, devices: int) -> BatchPlan:
    """Return the `BatchPlan` of `rows` in batches of `batch_size` rows over all `devices`.

    Raises ValueError when one of them is not a positive integer, or when the global batch size
    does not divide by the number of devices, because then not even a full batch can be split.
    """
    rows, batch_size, devices = (
        checks.positive_integer(
            value,
            name,
            rule="Batches are planned with positive integers.",
            remedy="Pass the number of rows, the global batch size and the number of devices.",
        )
        for name, value in (("rows", rows), ("batch_size", batch_size), ("devices", devices))
    )
    if batch_size % devices:
        below = batch_size // devices * devices
        nearest = f"{below} or {below + devices}" if below else f"{devices}"
        raise ValueError(
            "The global batch size must be a multiple of the number of devices. "
            f"Received: batch_size={batch_size}, devices={devices}. Use {nearest}."
        )
    full_batches, remainder = divmod(rows, batch_size)
    outcome = _outcome(remainder, devices)
    return BatchPlan(
        rows, batch_size, devices, batch_size // devices, full_batches, remainder, outcome
    )


def _outcome(remainder, devices):
    if not remainder:
        return "Every batch is full and splits evenly."
    if remainder % devices == 0:
        return f"The last batch splits evenly, {remainder // devices} rows a device."
    return (
        f"The last batch of {remainder} rows does not split over {devices} devices: JAX refuses it "
        f"in fit, evaluate and predict. batching.evaluate and batching.predict give it whole to "
        f"every device; batching.trim leaves {remainder % devices} rows out of fit."
    )


def trim(*arrays: Any, batch_size: int, devices: int | None = None) -> Any:
    """Return `arrays` without the last rows that would not split over the devices in `fit`.

    - `arrays`: NumPy or JAX arrays, or nests of them, `(samples, …)`, with equally many rows.
    - `batch_size`: the global batch size that `fit` will use; `devices`: those that share a batch,
      by default the current distribution's.

    At most `devices - 1` rows are left out, and one line says how many. One argument gives one
    result, several give a tuple. Raises ValueError as `plan_batches` does, and when no row is left.
    """
    plan = plan_batches(count_rows(arrays), batch_size, replicas() if devices is None else devices)
    left_out = plan.remainder % plan.devices
    kept = plan.rows - left_out
    if not kept:
        raise ValueError(
            "fit needs at least one row for each device. "
            f"Received: rows={plan.rows}, devices={plan.devices}. Use fewer devices or more rows."
        )
    if left_out:
        print(f"trim: the last {left_out} of {plan.rows} rows left out of each epoch.")
    arrays = jax.tree.map(lambda array: array[:kept], arrays)
    return arrays if len(arrays) > 1 else arrays[0]


def replicas() -> int:
    """Return how many parts the current distribution splits a batch into; 1 without one.

    Raises RuntimeError in a run of several processes, where each has only rows of its own.
    """
    if jax.process_count() > 1:
        raise RuntimeError(
            "Batches are planned within one process. "
            f"Received: a run of {jax.process_count()} processes. "
            "There, give every process equally many rows of fit and evaluate, and predict with "
            "processes.predict."
        )
    distribution = keras.distribution.distribution()
    return 1 if distribution is None else distribution.num_model_replicas


def count_rows(arrays: Any) -> int:
    """Return the common number of rows of a nest of arrays `(samples, …)`.

    Raises ValueError when they differ, or when a leaf is no array.
    """
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(arrays)]
    if len({shape[:1] for shape in shapes}) != 1 or () in shapes:
        raise ValueError(
            "All arrays must have the same number of rows. "
            f"Received: shapes {', '.join(map(str, shapes))}. "
            "Pass NumPy or JAX arrays with samples along the first axis."
        )
    return shapes[0][0]
