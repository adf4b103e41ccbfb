"""What a model predicts for a small batch: recorded with a checkpoint, compared on restoring."""

import random
import warnings
from typing import NamedTuple

import jax
import keras
import numpy as np

from chapter18._shared import abstract, gathering, isolation, layers

# So many samples split over most meshes; an open axis gets a length that pools can halve often.
_ROWS, _LENGTH = 8, 32
# Of a large output so many entries are recorded, evenly spaced.
_ENTRIES = 4096
# In parts of the largest prediction: other devices add the same numbers in another order.
_TOLERANCES = {"float16": 5e-2, "bfloat16": 5e-2, "float8": 1e-1}
_TOLERANCE = 1e-3


class Predictions(NamedTuple):
    """A batch, as the model is called with, and each output's `(shape, dtype, some entries)`.

    `inputs` is None when no batch could be made; `reason` then says why.
    """

    inputs: object
    outputs: list
    reason: str = ""


def record(model, sample=None):
    """Return the `Predictions` of `model` for `sample`, or for a batch made up from its inputs.

    A made-up batch has the shapes and dtypes that the model declares (or was built with): floats
    from 0 to 1 of a fixed generator, integers that are 0 or 1. Nothing of the model changes, nor
    do random numbers count on: layers that draw them draw what they will draw next. In a run of
    several processes each calls this, and the sample is that of the first one.

    Raises ValueError when the model cannot be called with `sample`.
    """
    if sample is not None:
        try:
            return _record(model, gathering.of_first(_host(sample)))
        except Exception as error:
            raise ValueError(
                "A sample is a batch that the model can be called with. "
                f"Received: sample={_shapes(sample)}, for which {model.name!r} fails: "
                f"{_first_line(error)} Pass an array, or a list or dict of arrays, for example "
                "x_train[:2]."
            ) from error
    reason = "its inputs are not known"
    for inputs in _made_up(model):
        try:
            return _record(model, inputs)
        except Exception as error:  # whatever a model's own code raises for a batch it cannot take
            reason = f"it refuses a made-up batch: {_first_line(error)}"
    return Predictions(None, [], reason)


def difference(model: keras.Model, saved: Predictions) -> str:
    """Return in words how the predictions of `model` differ from `saved`, or "" if they agree.

    Floats agree within a thousandth of the largest one, a twentieth where the model computes in
    half precision: other devices and layouts add the same numbers in another order. Of other
    outputs, such as an argmax, shape and dtype are compared: rounding may decide a tie otherwise.
    """
    now = _record(model, saved.inputs)
    if len(now.outputs) != len(saved.outputs):
        return f"{len(now.outputs)} outputs, saved {len(saved.outputs)}"
    tolerance = _tolerance(model)
    for number, (old, new) in enumerate(zip(saved.outputs, now.outputs, strict=True)):
        if old[:2] != new[:2]:
            return f"output {number} of shape {new[0]}, {new[1]}, saved {old[0]}, {old[1]}"
        far = _distance(old[2], new[2])
        if not far <= tolerance:
            return f"predictions (output {number}) that are {far:.2g} of the largest one away"
    return ""


def _record(model, inputs):
    outputs = [_described(leaf) for leaf in _outputs(model, inputs)]
    return Predictions(inputs, outputs)


def _outputs(model, inputs):
    """Predict where Keras' and Python's own random numbers start anew, for layers without seeds."""
    distribution = keras.distribution.distribution()
    groups = model.trainable_variables, model.non_trainable_variables

    def run():
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 (layers of one's own may draw from this one)
        keras.random.normal(())  # makes Keras' generator of seeds outside of the trace
        keras.distribution.set_distribution(distribution)
        state = tuple([v.value for v in variables] for variables in groups)
        # Made anew each time: a compiled step holds on to what layers keep outside of variables.
        step = jax.jit(lambda state, batch: model.predict_step(state, _split(batch))[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [gathering.whole(leaf) for leaf in jax.tree.leaves(step(state, (inputs,)))]

    with isolation.random_numbers_kept():
        return abstract.isolated(run)


def _split(batch):
    """Lay a batch out as Keras would, where its rows divide.

    XLA on a CPU dies where convolutions are split by channels and rows are not.
    """
    # STACK.md: jax-split-channels
    distribution = keras.distribution.distribution()

    def placed(rows):
        if distribution is None or rows.shape[0] % distribution.num_model_replicas:
            return rows
        layout = distribution.get_data_layout(rows.shape).backend_layout
        return jax.lax.with_sharding_constraint(rows, layout)

    return jax.tree.map(placed, batch)


def _described(leaf):
    entries = np.zeros(0, "float32")
    if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating):
        flat = leaf.ravel()
        entries = flat[:: -(-flat.size // _ENTRIES) or 1].astype("float32")
    return list(leaf.shape), str(leaf.dtype), entries


def _distance(old, new):
    """The largest difference in parts of the largest finite entry; NaN agrees with NaN only."""
    same = (old == new) | (np.isnan(old) & np.isnan(new))
    finite = np.isfinite(old) & np.isfinite(new)
    if not np.all(same | finite):
        return np.inf
    largest = np.max(np.abs(old[finite]), initial=0.0)
    away = np.max(np.abs(old[finite] - new[finite]), initial=0.0)
    return away / max(largest, np.finfo("float32").tiny) if away else 0.0


def _tolerance(model):
    dtypes = {str(layer.compute_dtype) for layer in layers.every(model)}
    found = [t for name, t in _TOLERANCES.items() if any(d.startswith(name) for d in dtypes)]
    return max([_TOLERANCE, *found])


def _made_up(model):
    """Batches to try, the likeliest first; none for text and for inputs that nothing tells of."""
    declared = _declared(model)
    if declared is not None:
        if any(t.dtype == "string" for t in keras.tree.flatten(declared)):
            return
        rng = np.random.default_rng(0)
        yield keras.tree.map_structure(lambda t: _values(rng, t.shape, t.dtype), declared)
    built_with = (model.get_build_config() or {}).get("input_shape")
    if built_with is not None:
        # Shapes alone are known: zeros and ones may be features as well as tokens.
        for dtype in ("float32", "int32"):
            rng = np.random.default_rng(0)
            yield _of_shapes(built_with, rng, dtype)


def _declared(model):
    if isinstance(model, keras.Sequential):  # which has no `input` before it was called
        return model.inputs[0] if model.inputs else None
    try:
        return model.input
    except (AttributeError, ValueError):  # a subclassed model declares none
        return None


def _of_shapes(shapes, rng, dtype):
    if isinstance(shapes, dict):
        return {name: _of_shapes(each, rng, dtype) for name, each in shapes.items()}
    if all(isinstance(size, int | None) for size in shapes):
        return _values(rng, (None, *shapes[1:]), "int32").astype(dtype)
    return type(shapes)(_of_shapes(each, rng, dtype) for each in shapes)


def _values(rng, shape, dtype):
    known = [_LENGTH if size is None else size for size in shape]
    if known and shape[0] is None:
        known[0] = _ROWS
    if "float" in str(dtype):
        return rng.random(known, "float32")
    return rng.integers(0, 2, known).astype(dtype)


def _host(sample):
    return keras.tree.map_structure(np.asarray, sample)


def _shapes(sample):
    leaves = keras.tree.flatten(sample)
    return [tuple(getattr(leaf, "shape", ())) or type(leaf).__name__ for leaf in leaves]


def _first_line(error):
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
