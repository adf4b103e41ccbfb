"""The pictures of section 5: a matrix unit's fill, where a step's time goes, and fused steps."""

import statistics

from chapter18.figures._canvas import COLOURS, GREY, canvas, styled

_PYTHON, _DEVICE = COLOURS[4], COLOURS[0]


def matrix_unit_fill(shares, marked):
    """Plot the useful share of a matrix unit against the width of a layer.

    `shares`: a mapping from units to a share of 0 to 1; `marked`: the units to point out.
    """
    figure, ax = canvas(width=7.2, height=3)
    ax.plot(list(shares), [100 * share for share in shares.values()], color=COLOURS[0])
    for units in marked:
        ax.plot(units, 100 * shares[units], "o", color=COLOURS[1], markersize=7)
        style = {"textcoords": "offset points", "fontsize": 10, "ha": "left"}
        ax.annotate(
            f"{units}: {shares[units]:.0%}", (units, 100 * shares[units]), xytext=(7, -10), **style
        )
    ax.set(xlabel="units of the layer", ylabel="columns at work, %", ylim=(0, 108))
    return figure


def step_costs(table):
    """Plot milliseconds a step and images a second against the batch size, both axes logarithmic.

    `table`: a DataFrame indexed by batch size, with the columns `milliseconds` and `images`.
    """
    figure, axes = canvas(1, 2, height=3.4)
    columns = {"milliseconds": "milliseconds a step", "images": "images a second"}
    for ax, (column, label), colour in zip(axes, columns.items(), COLOURS[:2], strict=True):
        ax.plot(table.index, table[column], "o-", color=colour)
        ax.set(xscale="log", yscale="log", xlabel="batch size", ylabel=label)
        ax.set_xticks(table.index, [str(size) for size in table.index])
        ax.minorticks_off()
    first = table["milliseconds"].iloc[0]
    grown = [first * size / table.index[0] for size in table.index]
    axes[0].plot(table.index, grown, ":", color=GREY, label="if time grew with the batch")
    axes[0].set_ylim(first / 2, 4 * table["milliseconds"].max())
    axes[0].legend(fontsize=10, loc="upper left")
    return figure


def step_timelines(steps=8, group=4):
    """Draw, not to scale, when Python and the device work: plain, grouped by Keras, and fused."""
    figure, ax = canvas(width=7.5, height=3.4)
    later = [0.7 if step % group else 1.0 for step in range(steps)]
    groups = [group] * (steps // group) + [1] * (steps % group)
    ways = {
        "plain fit": [(1.0, 1)] * steps,
        f"steps_per_execution={group}": [(call, 1) for call in later],
        f"steps.fuse(model, {group})": [(1.0, each) for each in groups],
    }
    for y, (name, calls) in zip((2.6, 1.3, 0), ways.items(), strict=True):
        _timeline(ax, y, calls)
        ax.text(0, y + 0.66, name, ha="left", va="center", fontsize=10.5)
    ax.plot([], [], "s", color=_PYTHON, markersize=10, label="Python prepares and calls")
    ax.plot([], [], "s", color=_DEVICE, markersize=10, label="the device trains one step")
    ax.legend(fontsize=10, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.08), frameon=False)
    ax.set(xlim=(-0.1, steps + 0.8), ylim=(-0.5, 3.5), yticks=[], xticks=[], xlabel="time →")
    ax.grid(visible=False)
    ax.spines["left"].set_visible(False)
    return figure


def _timeline(ax, y, calls, *, compute=0.4, gap=0.06):
    """One row of calls and the steps of each: Python never waits; the device starts a call's steps
    once it is free."""
    called = free = 0.0
    for call, each in calls:
        ax.broken_barh([(called, call - gap)], (y + 0.05, 0.38), facecolors=_PYTHON)
        called += call
        free = max(free, called)
        bars = [(free + i * compute, compute - gap / 2) for i in range(each)]
        ax.broken_barh(bars, (y - 0.37, 0.38), facecolors=_DEVICE)
        free += each * compute


def fusing_race(seconds, plain):
    """Plot seconds an epoch against steps in a group: medians, with a band from best to worst.

    `seconds`: a DataFrame with one row a round and columns of `(way, k)`; `plain`: the seconds of
    plain epochs, a sequence with one entry a round.
    """
    figure, ax = canvas(width=7, height=3.6)
    ax.axhline(statistics.median(plain), color=GREY, linestyle="--", label="plain fit")
    for way, style in styled(seconds.columns.unique(level=0)):
        times = seconds[way]
        ax.plot(times.columns, times.median(), label=way, **style.curve())
        ax.fill_between(
            times.columns, times.min(), times.max(), color=style.colour, alpha=0.15, linewidth=0
        )
    ax.set(xscale="log", xlabel="steps in a group, k", ylabel="seconds an epoch")
    ax.set_xticks(times.columns, [str(k) for k in times.columns])
    ax.minorticks_off()
    ax.set_ylim(bottom=0)
    ax.legend(fontsize=10, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure
