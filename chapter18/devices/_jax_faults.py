"""Faults of JAX on a CPU that `devices.use` guards against: the versions that have them, and how.

Each has a row of its own, under its name, in STACK.md. Nothing here wakes JAX but the canary.
"""

import functools
import os
from typing import NamedTuple

import numpy as np


class Fault(NamedTuple):
    """A fault of the versions from `since` to before `until`, which XLA's `flag` avoids.

    `notice`, after JAX and its version, tells a human so.
    """

    name: str
    since: tuple[int, ...]
    until: tuple[int, ...]
    notice: str
    flag: str = ""

    def concerns(self, version: tuple[int, ...]) -> bool:
        """Whether the JAX of this version has the fault."""
        return self.since <= version < self.until

    def avoid(self) -> None:
        """Tell XLA, and all processes that this one starts; only before JAX wakes."""
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} {self.flag}".strip()


# Each guard can go once neither the package nor a host that keeps its own JAX, like Colab and
# Kaggle, brings a version of its range; so far Colab ships 0.7.2, and Python 3.11 ends at 0.10.2.
# STACK.md: jax-deadlock
DEADLOCK = Fault(
    "jax-deadlock",
    (0, 9),
    (0, 12),
    "can deadlock on simulated devices: guarded by more threads.",
)
# STACK.md: jax-stale-weights
STALE_WEIGHTS = Fault(
    "jax-stale-weights",
    (0,),
    (0, 8, 2),
    "can train wrongly on a CPU: guarded, XNNPACK is off.",
    "--xla_cpu_use_xnnpack=false",
)
# STACK.md: jax-wrong-sums
# Versions after 0.12.0.1 are unknown: XLA ends the process at a flag that it does not know, so
# the canary looks after those.
WRONG_SUMS = Fault(
    "jax-wrong-sums",
    (0, 10, 2),
    (0, 12, 1),
    "can sum wrongly on a CPU: guarded, YNNPACK's fusions are off.",
    "--xla_cpu_experimental_ynn_fusion_type=",
)
FLAGGED = (STALE_WEIGHTS, WRONG_SUMS)


def unguarded(version: tuple[int, ...]) -> list[Fault]:
    """The faults of this version that XLA could avoid and, by its flags, is not told to."""
    told = os.environ.get("XLA_FLAGS", "").split()
    return [fault for fault in FLAGGED if fault.concerns(version) and fault.flag not in told]


@functools.cache  # once a process; a failure is not remembered
def check_arithmetic() -> None:
    """The canary: let JAX, on its first device, sum a small product, and compare it with NumPy's.

    It wakes JAX and takes about a tenth of a second, nearly all of it compiling. Raises
    RuntimeError when the sum is wrong, as it is in versions that have the fault of WRONG_SUMS.
    """
    import jax

    rows = np.linspace(0.5, 1.5, 64 * 64, dtype="float32").reshape(64, 64)
    wanted = _sum_of_product(rows.astype("float64"), np)
    given = float(jax.jit(lambda rows: _sum_of_product(rows, jax.numpy))(rows))
    if not abs(given - wanted) <= 0.01 * wanted:  # the negation catches NaN
        raise RuntimeError(
            "JAX must add correctly on this machine. "
            f"Received: a sum of {given:.6g} instead of {wanted:.6g} from JAX {jax.__version__}. "
            f'Try XLA_FLAGS="{WRONG_SUMS.flag}" in a new process before JAX wakes, or install '
            "a sound JAX, such as 0.8.3."
        )


def _sum_of_product(rows, numpy):
    return numpy.sum((rows @ numpy.ones_like(rows)) * rows)
