"""Quantize a copy of a model, see what it cost, and refuse a copy that predicts something else."""

import math
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import pandas as pd

from chapter18._shared import checks, layers
from chapter18.quantization import _absmax, _candidates, _copies, _modes


class Report(NamedTuple):
    """What quantizing did.

    `layers` has one row for each layer with parameters of its own: `path`, `class`, `parameters`,
    `bytes_before`, `bytes_after`, `quantized` and, if not, the `reason`. `coverage` is the share
    of the parameters that are in quantized layers (their biases stay in floating point), 0 to 1;
    `bytes_before` and `bytes_after` are what all weights take in memory; `sqnr` is in dB, on the
    probe batch, of the worst output where there are several.
    """

    mode: str
    layers: pd.DataFrame
    coverage: float
    bytes_before: int
    bytes_after: int
    sqnr: float


class Quantization(NamedTuple):
    """The quantized `model`, for inference, and the `Report`."""

    model: keras.Model
    report: Report


class _Plan(NamedTuple):
    """What to do: of all candidates of the model, `found`, some are `chosen`.

    `expected` is what the model predicts for `probe`.
    """

    model: keras.Model
    mode: str
    config: Any
    found: list[_candidates.Candidate]
    chosen: list[_candidates.Candidate]
    probe: Any
    expected: list
    build: Callable | None


def quantize_copy(
    model: keras.Model,
    mode: _modes.Mode,
    *,
    probe: Any,
    filters: _candidates.Filters = None,
    sqnr_floor: float = 10.0,
    config: keras.quantizers.QuantizationConfig | None = None,
    block_size: int | None = None,
    build: Callable[[], keras.Model] | None = None,
) -> Quantization:
    """Return a `Quantization`: a quantized copy of `model`, which itself stays as it is to the bit.

    `mode` is "int8" (weights and, at each call, inputs) or "int4" (weights alone, one scale for
    `block_size` inputs of each output: 128 unless told otherwise, -1 for one per output); or
    "gptq" or "awq" with their Keras `config`, where a probe finds that their calibration works. A
    `config` of Keras replaces `block_size`. `probe` is a batch as the model is called with, an
    array or a list, tuple or dict of arrays: on it the copy is compared with `model`.

    `filters` is a regular expression or a list of them, searched for in the path of each layer
    (Keras' own look at its name alone), or a callable from a layer to a bool. `build` makes the
    model anew, uncompiled; it is needed only where a layer lacks a configuration.

    The copy can predict, evaluate and be exported, but not trained. Under a distribution of Keras
    it is laid out as `model` is, which must have been made under that distribution.

    Raises RuntimeError when the copy falls below `sqnr_floor` dB on `probe`, naming the layer that
    did it, or when a calibrated mode does not work; ValueError or TypeError for a mode, a filter,
    a floor or a model that cannot be quantized, and for a probe that shows no loss. Nothing is
    quantized then.
    """
    _check_floor(sqnr_floor)
    plan = _prepared(model, mode, filters, config, block_size, probe, build)
    twin, sqnr = _quantized(plan, plan.chosen)
    report = _report(plan, twin, sqnr)
    if not sqnr >= sqnr_floor:
        raise _below_floor(plan, report, sqnr_floor)
    _copies.refuse_training(twin)
    return Quantization(twin, report)


def sensitivity(
    model: keras.Model,
    mode: _modes.Mode,
    *,
    probe: Any,
    filters: _candidates.Filters = None,
    config: keras.quantizers.QuantizationConfig | None = None,
    block_size: int | None = None,
    build: Callable[[], keras.Model] | None = None,
) -> pd.DataFrame:
    """Return the SQNR on `probe` when one layer alone is quantized, for each in turn.

    A DataFrame in the order of the layers: `path`, `class`, `parameters` and `sqnr` in dB. The
    arguments and what is raised are those of `quantize_copy`, which see; there is no floor here.
    """
    return _alone(_prepared(model, mode, filters, config, block_size, probe, build))


def _prepared(model, mode, filters, config, block_size, probe, build):
    checks.built(model, rule="A model is copied once it has weights.")
    config = _modes.resolve(mode, config, block_size)
    found = _candidates.candidates(model, mode)
    chosen = _candidates.choose(found, filters)
    _check_compute_dtype(mode, chosen)
    _check_probe(probe)
    _copies.check_placed(model)
    expected = _copies.outputs(model, probe)
    _check_signal(model, expected)
    return _Plan(model, mode, config, found, chosen, probe, expected, build)


def _quantized(plan, chosen):
    """Return a copy of the model, its `chosen` layers quantized, and its SQNR on the probe."""
    twin = _copies.copy(plan.model, plan.probe, plan.expected, plan.build)
    _modes.apply(plan.model, twin, plan.mode, plan.config, chosen)
    got = _copies.outputs(twin, plan.probe)
    if not all(np.isfinite(each).all() for each in got):
        return twin, -math.inf
    return twin, min(_absmax.sqnr(a, b) for a, b in zip(plan.expected, got, strict=True))


def _alone(plan):
    table = _table(plan.chosen)
    table["sqnr"] = [_quantized(plan, [each])[1] for each in plan.chosen]
    return table


def _table(some):
    rows = [[each.path, type(each.layer).__name__, each.parameters] for each in some]
    return pd.DataFrame(rows, columns=["path", "class", "parameters"])


def _report(plan, twin, sqnr):
    after = layers.every(twin)
    table = _table(plan.found)
    quantized = [after[each.number] for each in plan.found]
    table["bytes_before"] = [_bytes(layers.own_weights(each.layer)) for each in plan.found]
    table["bytes_after"] = [_bytes(layers.own_weights(layer)) for layer in quantized]
    table["quantized"] = [layer.quantization_mode == plan.mode for layer in quantized]
    table["reason"] = [
        "" if done else _reason(each, plan)
        for each, done in zip(plan.found, table["quantized"], strict=True)
    ]
    if not table["quantized"].any():
        raise ValueError(
            "Of what filters and config name together, at least one layer is quantized. "
            f"Received: {plan.model.name!r} in {plan.mode}, of which none is. Let the filters, and "
            "the config's layer structure if it has one, name the same layers."
        )
    covered = table.loc[table["quantized"], "parameters"].sum()
    coverage = float(covered / table["parameters"].sum())
    sizes = _bytes(plan.model.weights), _bytes(twin.weights)
    return Report(plan.mode, table, coverage, *sizes, sqnr)


def _bytes(weights):
    return sum(weight.value.nbytes for weight in weights)


def _reason(candidate, plan):
    if candidate.obstacle:
        return candidate.obstacle
    if candidate.number not in {each.number for each in plan.chosen}:
        return "left out by filters"
    if plan.mode in _modes.CALIBRATED:
        return "outside the config's layer structure"
    return f"no {plan.mode} in its quantize()"


def _check_compute_dtype(mode, chosen):
    halves = [each.path for each in chosen if each.layer.compute_dtype == "float16"]
    if mode == "int8" and halves:
        raise ValueError(
            "Keras (3.15 and 3.16) quantizes to int8 only what computes in float32 or bfloat16. "
            f"Received: {halves[0]!r}, which computes in float16. "
            "Build the same model under the policy 'float32', and give it these weights."
        )


def _check_floor(floor):
    number = isinstance(floor, numbers.Real) and not isinstance(floor, bool)
    if not number or math.isnan(floor):  # NaN would let anything through
        raise ValueError(
            "A floor is a number of dB that the copy must reach. "
            f"Received: sqnr_floor={floor!r}. Pass for example 10.0, or -math.inf to "
            "accept any copy."
        )


def _check_probe(probe):
    arrays = [np.asarray(leaf) for leaf in keras.tree.flatten(probe) if leaf is not None]
    empty = [array.shape for array in arrays if array.size == 0]
    if empty or not arrays:
        raise ValueError(
            "A copy is compared with its original on a probe batch of at least one sample. "
            f"Received: a probe with {f'an array of shape {empty[0]}' if empty else 'no array'}. "
            "Pass a batch of real inputs, for example x_val[:100]."
        )
    # Zeros are welcome where they are integers, as letters or classes are.
    if not any(array.any() or array.dtype.kind in "iub" for array in arrays):
        raise ValueError(
            "A copy is compared with its original on inputs that its kernels act on. "
            "Received: a probe of zeros, which only biases answer. "
            "Pass a batch of real inputs, for example x_val[:100]."
        )


def _check_signal(model, outputs):
    if not all(np.isfinite(each).all() for each in outputs):
        raise ValueError(
            "The loss of precision is measured on finite predictions. "
            f"Received: {model.name!r}, which predicts NaN or infinity on the probe batch. "
            "Mend the model, or pass another probe."
        )
    if not any(each.any() for each in outputs):
        raise ValueError(
            "The loss of precision is measured against a signal: predictions other than zero. "
            f"Received: {model.name!r}, which predicts zeros alone on the probe batch. "
            "Mend the model, or pass another probe."
        )


def _below_floor(plan, report, floor):
    alone = _alone(plan)
    worst = alone.loc[alone["sqnr"].idxmin()]
    if worst["sqnr"] < floor:
        cause = (
            f"the layer {worst['path']!r} ({worst['class']}): quantized alone it gives "
            f"{worst['sqnr']:.1f} dB. {_remedy(worst['class'])}"
        )
    else:
        cause = (
            f"the sum of small errors, none of the {len(alone)} layers being below the floor "
            "alone. Quantize fewer layers with filters, or with more bits, or lower the floor."
        )
    return RuntimeError(
        "A quantized copy predicts nearly what its original predicts. "
        f"Received: {report.sqnr:.1f} dB in {report.mode} for {plan.model.name!r} on the probe "
        f"batch, below sqnr_floor={floor:g}. Likeliest cause: {cause}"
    )


def _remedy(kind):
    if kind == "Embedding":
        return (
            "Its table is read elsewhere too, as in an output tied to it by hand, and there come "
            "integers without their scale. Tie them with keras.layers.ReversibleEmbedding, or "
            "leave the layer out with filters."
        )
    return "Leave it out with filters, or take more bits or a smaller block_size."
