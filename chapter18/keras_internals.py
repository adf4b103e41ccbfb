"""The private names of Keras that the modules of a mesh need, each in one place.

All were seen in Keras 3.15.1 and in 3.16.0.dev2026102704; no public name does the same.
"""

import keras


def put(variable: keras.Variable, value) -> None:
    """Make `value` what `variable` holds, as it is: `assign` would split it over the devices."""
    variable._value = value


def optimized(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Return the variables that a built optimizer was built for, in its order."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return list(inner._trainable_variables)
