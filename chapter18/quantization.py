"""Quantize a copy of a model, see what it cost, and refuse a copy that predicts something else."""

import math
from typing import NamedTuple

import keras
import numpy as np
import pandas as pd

from chapter18 import absmax, model_copies, quantizable, quantization_modes


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


def quantize_copy(
    model,
    mode,
    *,
    probe,
    filters=None,
    sqnr_floor=10.0,
    config=None,
    block_size=None,
    build=None,
):
    """Return a `Quantization`: a quantized copy of `model`, which itself stays as it is to the bit.

    `mode` is "int8" (weights and, at each call, inputs) or "int4" (weights alone, one scale for
    `block_size` inputs of each output: 128 unless told otherwise, -1 for one per output); or
    "gptq" or "awq" with their Keras `config`, where a probe finds that their calibration works. A
    `config` of Keras replaces `block_size`. `probe` is a batch as the model is called with: on it
    the copy is compared with `model`.

    `filters` is a regular expression or a list of them, searched for in the path of each layer
    (Keras' own look at its name alone), or a callable from a layer to a bool. `build` makes the
    model anew, uncompiled; it is needed only where a layer lacks a configuration.

    The copy can predict, evaluate and be exported, but not trained.

    Raises RuntimeError when the copy falls below `sqnr_floor` dB on `probe`, naming the layer that
    did it, or when a calibrated mode does not work; ValueError or TypeError for a mode, a filter
    or a model that cannot be quantized. Nothing is quantized then.
    """
    config, chosen = _prepared(model, mode, filters, config, block_size)
    copy = model_copies.copy(model, probe, build=build)
    _check_finite(model, copy.outputs)
    report = _quantize(model, copy, mode, config, chosen, probe)
    if report.sqnr < sqnr_floor:
        alone = _alone(model, mode, config, chosen, probe, build)
        raise _below_floor(model, report, sqnr_floor, alone)
    model_copies.refuse_training(copy.model)
    return Quantization(copy.model, report)


def sensitivity(model, mode, *, probe, filters=None, config=None, block_size=None, build=None):
    """Return the SQNR on `probe` when one layer alone is quantized, for each in turn.

    A DataFrame in the order of the layers: `path`, `class`, `parameters` and `sqnr` in dB. The
    arguments and what is raised are those of `quantize_copy`, which see; there is no floor here.
    """
    config, chosen = _prepared(model, mode, filters, config, block_size)
    return _alone(model, mode, config, chosen, probe, build)


def _prepared(model, mode, filters, config, block_size):
    model_copies.check_built(model)
    config = quantization_modes.resolve(mode, config, block_size)
    chosen = quantizable.choose(model, filters)
    _check_compute_dtype(model, mode, chosen)
    return config, chosen


def _quantize(model, copy, mode, config, chosen, probe):
    """Quantize the layers numbered `chosen` of the copy, and return the `Report`."""
    twin = copy.model
    quantization_modes.apply(model, twin, mode, config, chosen)
    return _report(model, twin, mode, chosen, _sqnr(copy.outputs, twin, probe))


def _alone(model, mode, config, chosen, probe, build):
    rows = []
    for each in quantizable.candidates(model):
        if each.index in chosen:
            copy = model_copies.copy(model, probe, build=build)
            report = _quantize(model, copy, mode, config, [each.index], probe)
            row = report.layers.set_index("path").loc[each.path]
            rows.append([each.path, row["class"], row["parameters"], report.sqnr])
    return pd.DataFrame(rows, columns=["path", "class", "parameters", "sqnr"])


def _sqnr(expected, twin, probe):
    got = model_copies.outputs(twin, probe)
    if not all(np.isfinite(each).all() for each in got):
        return -math.inf
    return min(absmax.sqnr(a, b) for a, b in zip(expected, got, strict=True))


def _report(model, twin, mode, chosen, sqnr):
    after = model_copies.flat_layers(twin)
    rows = []
    for each in quantizable.candidates(model):
        layer = after[each.index]
        own = quantizable.own_weights(each.layer)
        done = layer.quantization_mode == mode
        rows.append(
            {
                "path": each.path,
                "class": type(each.layer).__name__,
                "parameters": sum(math.prod(weight.shape) for weight in own),
                "bytes_before": _bytes(own),
                "bytes_after": _bytes(quantizable.own_weights(layer)),
                "quantized": done,
                "reason": "" if done else _reason(each, mode, chosen),
            }
        )
    layers = pd.DataFrame(rows)
    covered = layers.loc[layers["quantized"], "parameters"].sum()
    coverage = float(covered / layers["parameters"].sum())
    return Report(mode, layers, coverage, _bytes(model.weights), _bytes(twin.weights), sqnr)


def _bytes(weights):
    return sum(weight.value.nbytes for weight in weights)


def _reason(candidate, mode, chosen):
    if candidate.obstacle:
        return candidate.obstacle
    return f"no {mode} in its quantize()" if candidate.index in chosen else "left out by filters"


def _check_compute_dtype(model, mode, chosen):
    layers = model_copies.flat_layers(model)
    halves = [layers[index] for index in chosen if layers[index].compute_dtype == "float16"]
    if mode == "int8" and halves:
        raise ValueError(
            "Keras quantizes to int8 only what computes in float32 or bfloat16. "
            f"Received: {halves[0].path or halves[0].name!r}, which computes in float16. "
            "Build the same model under the policy 'float32', and give it these weights."
        )


def _check_finite(model, outputs):
    if not all(np.isfinite(each).all() for each in outputs):
        raise ValueError(
            "The loss of precision is measured on finite predictions. "
            f"Received: {model.name!r}, which predicts NaN or infinity on the probe batch. "
            "Mend the model, or pass another probe."
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
