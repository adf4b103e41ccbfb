"""Count accelerators without waking JAX, choose how many devices it wakes with, describe them."""

from chapter18.devices._counting import Accelerators, count_accelerators
from chapter18.devices._using import describe, is_awake, use

__all__ = [
    "Accelerators",
    "count_accelerators",
    "describe",
    "is_awake",
    "use",
]
