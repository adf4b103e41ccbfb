"""Count accelerators without waking JAX, choose how many devices it wakes with, describe them.

    devices.count_accelerators()  # Accelerators(kind='none', number=0, name='')
    devices.use(8)                # eight devices, simulated where there are too few real ones
    devices.describe()            # '8 simulated CPU devices (no accelerator)'

Importing this imports neither JAX nor Keras; `use` must come before anything that computes.
"""

from chapter18.devices._counting import Accelerators, count_accelerators
from chapter18.devices._using import describe, is_awake, use

__all__ = ["Accelerators", "count_accelerators", "describe", "is_awake", "use"]
