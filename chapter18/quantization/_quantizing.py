"""Quantize a copy of a model, see what it cost, and refuse a copy that predicts something else."""

import math
from typing import Any, NamedTuple

import keras
import numpy as np
import pandas as pd

from chapter18._shared import layers
from chapter18.quantization import _absmax, _calibration, _candidates, _copies, _modes, _probes


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
    """What to do: `found` are all candidates of the model, `chosen` the numbers of some."""

    model: keras.Model
    mode: str
    config: Any
    found: list
    chosen: list
    probe: Any
    build: Any


def quantize_copy(
    model: keras.Model,
    mode: str,
    *,
    probe,
    filters=None,
    sqnr_floor: float = 10.0,
    config=None,
    block_size: int | None = None,
    build=None,
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
    _probes.check_floor(sqnr_floor)
    plan = _prepared(model, mode, filters, config, block_size, probe, build)
    twin, sqnr = _quantized(plan)
    report = _report(plan, twin, sqnr)
    _check_any(model, report)
    if not sqnr >= sqnr_floor:
        raise _below_floor(model, report, sqnr_floor, _alone(plan))
    _copies.refuse_training(twin)
    return Quantization(twin, report)


def sensitivity(
    model: keras.Model,
    mode: str,
    *,
    probe,
    filters=None,
    config=None,
    block_size: int | None = None,
    build=None,
) -> pd.DataFrame:
    """Return the SQNR on `probe` when one layer alone is quantized, for each in turn.

    A DataFrame in the order of the layers: `path`, `class`, `parameters` and `sqnr` in dB. The
    arguments and what is raised are those of `quantize_copy`, which see; there is no floor here.
    """
    return _alone(_prepared(model, mode, filters, config, block_size, probe, build))


def _prepared(model, mode, filters, config, block_size, probe, build):
    _copies.check_built(model)
    config = _modes.resolve(mode, config, block_size)
    found = _candidates.candidates(model, mode)
    chosen = _candidates.choose(model, found, filters)
    _check_compute_dtype(mode, [each for each in found if each.index in chosen])
    _probes.check(probe)
    return _Plan(model, mode, config, found, chosen, probe, build)


def _quantized(plan):
    """Return a copy of the model, its chosen layers quantized, and its SQNR on the probe."""
    copy = _copies.copy(plan.model, plan.probe, build=plan.build)
    _probes.check_signal(plan.model, copy.outputs)
    _modes.apply(plan.model, copy.model, plan.mode, plan.config, plan.chosen)
    return copy.model, _sqnr(copy.outputs, copy.model, plan.probe)


def _alone(plan):
    rows = []
    for each in plan.found:
        if each.index in plan.chosen:
            _, sqnr = _quantized(plan._replace(chosen=[each.index]))
            rows.append([each.path, type(each.layer).__name__, each.parameters, sqnr])
    return pd.DataFrame(rows, columns=["path", "class", "parameters", "sqnr"])


def _sqnr(expected, twin, probe):
    got = _copies.outputs(twin, probe)
    if not all(np.isfinite(each).all() for each in got):
        return -math.inf
    return min(_absmax.sqnr(a, b) for a, b in zip(expected, got, strict=True))


def _report(plan, twin, sqnr):
    after = layers.every(twin)
    rows = []
    for each in plan.found:
        layer = after[each.index]
        done = layer.quantization_mode == plan.mode
        rows.append(
            {
                "path": each.path,
                "class": type(each.layer).__name__,
                "parameters": each.parameters,
                "bytes_before": _bytes(layers.own_weights(each.layer)),
                "bytes_after": _bytes(layers.own_weights(layer)),
                "quantized": done,
                "reason": "" if done else _reason(each, plan),
            }
        )
    table = pd.DataFrame(rows)
    covered = table.loc[table["quantized"], "parameters"].sum()
    coverage = float(covered / table["parameters"].sum())
    sizes = _bytes(plan.model.weights), _bytes(twin.weights)
    return Report(plan.mode, table, coverage, *sizes, sqnr)


def _bytes(weights):
    return sum(weight.value.nbytes for weight in weights)


def _reason(candidate, plan):
    if candidate.obstacle:
        return candidate.obstacle
    if candidate.index not in plan.chosen:
        return "left out by filters"
    outside = plan.mode in _calibration.MODES
    return (
        "outside the config's layer structure" if outside else f"no {plan.mode} in its quantize()"
    )


def _check_compute_dtype(mode, chosen):
    halves = [each.path for each in chosen if each.layer.compute_dtype == "float16"]
    if mode == "int8" and halves:
        raise ValueError(
            "Keras (3.15 and 3.16) quantizes to int8 only what computes in float32 or bfloat16. "
            f"Received: {halves[0]!r}, which computes in float16. "
            "Build the same model under the policy 'float32', and give it these weights."
        )


def _check_any(model, report):
    if not report.layers["quantized"].any():
        raise ValueError(
            "Of what filters and config name together, at least one layer is quantized. "
            f"Received: {model.name!r} in {report.mode}, of which none is. Let the filters, and "
            "the config's layer structure if it has one, name the same layers."
        )


def _below_floor(model, report, floor, alone):
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
        f"Received: {report.sqnr:.1f} dB in {report.mode} for {model.name!r} on the probe batch, "
        f"below sqnr_floor={floor:g}. Likeliest cause: {cause}"
    )


def _remedy(kind):
    if kind == "Embedding":
        return (
            "Its table is read elsewhere too, as in an output tied to it by hand, and there come "
            "integers without their scale. Tie them with keras.layers.ReversibleEmbedding, or "
            "leave the layer out with filters."
        )
    return "Leave it out with filters, or take more bits or a smaller block_size."
