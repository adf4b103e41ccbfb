"""What arguments must be, decided in one place; each caller says its own rule and remedy.

Keras is imported inside, because counting devices must not wait for it.
"""

import operator


def positive_integer(value, name, *, rule, remedy):
    """Return `value` as an `int`; NumPy's integers are welcome, booleans are not.

    Raises ValueError, which says `rule`, what was received under `name`, and `remedy`.
    """
    try:
        # NumPy 2.1 takes its own booleans for integers, and only warns.
        boolean = isinstance(value, bool) or str(getattr(value, "dtype", None)) == "bool"
        number = 0 if boolean else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{rule} Received: {name}={value!r}. {remedy}")
    return number


def on_jax(*, rule):
    """Raise RuntimeError unless Keras runs on JAX."""
    import keras

    if keras.config.backend() != "jax":
        raise RuntimeError(
            f"{rule} Received: Keras on {keras.config.backend()}. "
            "Set KERAS_BACKEND=jax before Keras is imported."
        )


def keras_model(model, *, rule):
    """Raise TypeError unless `model` is a Keras model, RuntimeError unless it runs on JAX."""
    import keras

    if not isinstance(model, keras.Model):
        raise TypeError(f"{rule} Received: {type(model).__name__}. Pass a keras.Model.")
    on_jax(rule="The package works with Keras models on JAX.")


def built(model, *, rule):
    """Raise TypeError unless `model` is a Keras model, ValueError unless it has its variables."""
    keras_model(model, rule=rule)
    if not model.built or not model.variables:
        raise ValueError(
            f"{rule} Received: {model.name!r}, which is not built. "
            "Give it an Input, or call it on a batch first."
        )


def compiled(model, *, rule):
    """Raise TypeError unless `model` is a Keras model, ValueError unless it is compiled."""
    keras_model(model, rule=rule)
    if not model.compiled:
        raise ValueError(
            f"{rule} Received: {model.name!r}, not compiled. Call model.compile(…) first."
        )


def array(leaf, *, rule, remedy):
    """Raise TypeError unless `leaf` has a shape and a dtype, as arrays of any library have."""
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        raise TypeError(f"{rule} Received: {type(leaf).__name__}. {remedy}")


def plain(value):
    """Return a scalar of NumPy, or of another array library, as Python's own number."""
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value
