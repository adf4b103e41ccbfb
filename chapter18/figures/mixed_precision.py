"""The pictures of section 7: gradients that vanish, and the life of a loss scale."""

import numpy as np

from chapter18.figures._canvas import COLOURS, GREY, canvas, styled

# Below float32's smallest number, 2 ** -149: where a scale of 0 is drawn.
_ZERO = -160


def vanishing(tables):
    """Plot, against the loss scale, the share of gradient entries lost, and of those overflowed.

    `tables` maps names to the DataFrames of `gradient_underflow`. Shares are of all entries, in per
    cent.
    """
    figure, (lost, overflowed) = canvas(1, 2, width=7.8, height=3.4)
    for name, style in styled(tables):
        table, look = tables[name], style.curve() | {"markersize": 5}
        exponents = np.log2(table.index)
        lost.plot(exponents, 100 * table["lost"] / table["entries"], label=name, **look)
        overflowed.plot(exponents, 100 * table["not finite"] / table["entries"], **look)
    lost.set(title="lost: zero in 16 bits only", ylabel="% of gradient entries")
    overflowed.set(title="overflowed: inf or NaN")
    for ax in (lost, overflowed):
        ax.set_xlabel("loss scale")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.xaxis.set_major_formatter(_power_of_two)
    lost.legend(fontsize=10)
    return figure


def scale_traces(traces, *, floor=None, marked=None):
    """Plot loss scales against training steps, with a cross at looks that found updates skipped.

    `traces` maps names to DataFrames with the columns `step`, `scale` and perhaps `skipped`, as
    `LossScaleWatch.trace`. A scale of 0 is drawn below all others. `floor` is a scale to draw
    a line at; `marked` maps texts to steps that get a vertical line.
    """
    figure, ax = canvas(width=7.5, height=3.4)
    crosses = []
    for name, style in styled(traces):
        trace = traces[name]
        exponents = [np.log2(scale) if scale else _ZERO for scale in trace["scale"]]
        look = {"color": style.colour, "linestyle": style.line, "linewidth": 2}
        ax.plot(trace["step"], exponents, label=name, **look)
        skipped = trace.get("skipped", [0] * len(trace))
        looks = zip(trace["step"], exponents, skipped, strict=True)
        crosses += [(step, exponent) for step, exponent, times in looks if times]
    if crosses:
        ax.plot(*zip(*crosses, strict=True), "X", color=COLOURS[1], label="updates were skipped")
    if floor:
        ax.axhline(np.log2(floor), ls="--", color=GREY, label=f"floor of the watch, {floor:g}")
    for text, step in (marked or {}).items():
        ax.axvline(step, ls=":", color=GREY)
        ax.text(step, ax.get_ylim()[1], f" {text}", fontsize=10, va="top")
    ax.set(xlabel="training step", ylabel="loss scale")
    if any((trace["scale"] == 0).any() for trace in traces.values()):
        ax.set_yticks([0, -50, -100, _ZERO])
    else:
        ax.yaxis.get_major_locator().set_params(integer=True)
    ax.yaxis.set_major_formatter(_power_of_two)
    ax.legend(fontsize=10)
    return figure


def _power_of_two(exponent, _):
    return "0" if exponent == _ZERO else f"$2^{{{exponent:g}}}$"
