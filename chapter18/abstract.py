"""Build a model that has shapes and names but no arrays, without a trace in Keras' global state."""

import concurrent.futures

import jax
import keras


def build(build, sample, then):
    """Return `then(model)` for the model of `build()`, whose variables have shapes but no arrays.

    `sample` is a batch as the model is called with: an array, or a list or dict of arrays, or
    anything else with `shape` and `dtype`; only these two are read. It may be None where `build`
    knows the shapes. `build` creates its model and returns it without compiling it.

    Everything, `then` included, runs in a thread of its own, where Keras' global state is fresh:
    automatic names count from the beginning (always `sequential/dense/kernel`), no distribution is
    set, and what is set there ends with it. Only the dtype policy and the flash attention switch
    are carried over, so open other scopes, such as `keras.RematScope`, inside `build`. Inside
    `then`, `allocate()` turns the model into a real one, and `scope()` lets optimizer slots be
    made without arrays; a model that `then` does not allocate is never allocated at all, but must
    not be used later.

    Raises TypeError when `sample` has no shapes or `build` returns no Keras layer, ValueError when
    there is no sample and the model needs one, and RuntimeError when `build` gives a variable its
    value. Errors of `build` and `then` come through unchanged.
    """
    inputs = None if sample is None else keras.tree.map_structure(_tensor, sample)
    return isolated(lambda: then(_called(build, inputs)))


def scope():
    """Return a scope in which new variables have a shape, a dtype and a path, but no array.

    Initial values must come from initializers; optimizers and metrics are created outside the
    scope and built inside it.
    """
    return keras.StatelessScope(initialize_variables=False)


def allocate():
    """Give every variable made in this thread's `scope()` its array, sharded as is set by then."""
    with keras.StatelessScope():
        pass


def isolated(function):
    """Return `function()`, run where Keras' global state is fresh, and ends with it.

    The dtype policy and the flash attention switch are those of the caller.
    """
    policy = keras.config.dtype_policy()
    flash = keras.config.is_flash_attention_enabled()

    def run():
        keras.config.set_dtype_policy(policy)
        if flash is not None:
            (
                keras.config.enable_flash_attention
                if flash
                else keras.config.disable_flash_attention
            )()
        return function()

    # Keras keeps its global state in thread-local storage: name counters, distribution, policy and
    # the list of variables that the next scope to close would allocate.
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as fresh_thread:
        return fresh_thread.submit(run).result()


def narrowed(dtype):
    """Return the name of what JAX makes of `dtype`: 64 bits become 32 unless told otherwise."""
    return jax.dtypes.canonicalize_dtype(keras.backend.standardize_dtype(dtype)).name


def _tensor(leaf):
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        raise TypeError(
            "A sample is a batch of arrays, as the model is called with. "
            f"Received: {type(leaf).__name__}. "
            "Pass an array, or a list or dict of arrays, for example x_train[:8]."
        )
    return keras.KerasTensor(leaf.shape, narrowed(leaf.dtype))


def _called(build, inputs):
    with scope():
        try:
            model = _checked(build(), inputs)
            if inputs is not None:
                model(inputs)
        except ValueError as error:
            if "stateless scope" not in str(error):
                raise
            raise RuntimeError(
                "build() leaves initial values to initializers. "
                "Received: a variable made from a value, as an optimizer does in compile(). "
                "Return the model from build() without compiling it, and compile it afterwards."
            ) from error
    return model


def _checked(model, inputs):
    if not isinstance(model, keras.layers.Layer):
        raise TypeError(
            "build() returns the model it created. "
            f"Received: {type(model).__name__}. Return a keras.Model from it."
        )
    if inputs is None and not model.built:
        raise ValueError(
            "The shapes of a model's variables follow from its input. "
            f"Received: no sample, and {model.name!r} has no input shape of its own. "
            "Pass a batch as sample, for example x_train[:8]."
        )
    return model
