"""Build a model that has shapes and names but no arrays, without a trace in Keras' global state."""

import concurrent.futures
import threading

import jax
import keras
import numpy as np

from chapter18._shared import checks

# What a build assigned, for `assign` in the same thread; it ends with the thread.
_here = threading.local()


def build(build, sample, then, *, policy=None):
    """Return `then(model)` for the model of `build()`, whose variables have shapes but no arrays.

    `sample` is a batch as the model is called with: an array, or a list or dict of arrays, or
    anything else with `shape` and `dtype`; only these two are read. It may be None where `build`
    knows the shapes. `build` creates its model and returns it without compiling it.

    Everything, `then` included, runs in a thread of its own, where Keras' global state is fresh:
    automatic names count from the beginning (always `sequential/dense/kernel`), no distribution is
    set, and what is set there ends with it. Only the dtype policy (or `policy`, a name or a policy)
    and the flash attention switch are carried over, so open other scopes, such as
    `keras.RematScope`, inside `build`. Inside `then`, `allocate()` turns the model into a real one,
    `assign()` gives it the values that `build` assigned (loaded weights, an adapted layer), and
    `scope()` lets optimizer slots be made without arrays; a model that `then` does not allocate is
    never allocated at all, but must not be used later.

    Raises TypeError when `sample` has no shapes or `build` returns no Keras layer, ValueError when
    there is no sample and the model needs one, and RuntimeError when `build` makes a variable from
    a value. Errors of `build` and `then` come through unchanged.
    """
    inputs = None if sample is None else keras.tree.map_structure(_tensor, sample)
    return isolated(lambda: then(_called(build, inputs)), policy=policy)


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


def assign():
    """Give the variables that `build` assigned those values, to the bit, where each one lies.

    Only after `allocate()`. Each device gets its own part of a value, from the host.
    """
    for variable, value in _here.assigned:
        if keras.distribution.distribution() is not None:
            placed = jax.make_array_from_callback(
                value.shape, variable.value.sharding, value.__getitem__
            )
            # On a CPU those are NumPy's own buffers, which a step that donates would free.
            value = jax.numpy.copy(placed)
        variable.assign(value)


def isolated(function, *, policy=None):
    """Return `function()`, run where Keras' global state is fresh, and ends with it.

    The dtype policy is that of the caller unless `policy` is given, a name or a policy; the flash
    attention switch is that of the caller.
    """
    policy = keras.config.dtype_policy() if policy is None else policy
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


class _Recording(keras.StatelessScope):
    """A scope without arrays that keeps, on the host, what is assigned to its variables."""

    def __init__(self):
        super().__init__(initialize_variables=False)
        self._variables = {}

    def add_update(self, update):
        variable, value = update
        if not isinstance(value, jax.core.Tracer):
            value = np.array(value)
            self._variables[id(variable)] = variable
        super().add_update((variable, value))

    def get_current_value(self, variable):
        value = super().get_current_value(variable)
        return jax.numpy.asarray(value) if isinstance(value, np.ndarray) else value

    def assigned(self):
        """Return `(variable, value)` for each variable that was assigned, its last value."""
        return [(v, self.state_mapping[key]) for key, v in self._variables.items()]


def _tensor(leaf):
    checks.array(
        leaf,
        rule="A sample is a batch of arrays, as the model is called with.",
        remedy="Pass an array, or a list or dict of arrays, for example x_train[:8].",
    )
    return keras.KerasTensor(leaf.shape, narrowed(leaf.dtype))


def _called(build, inputs):
    with _Recording() as recording:
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
                "Return the model from build() without compiling it, and compile it afterwards; "
                "load a saved one with compile=False; assign a value to what add_weight returned."
            ) from error
    _here.assigned = recording.assigned()
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
