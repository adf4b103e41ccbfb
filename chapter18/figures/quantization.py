"""The pictures of section 8: grids of numbers, errors in decibels, and what a layer costs."""

import numpy as np

from chapter18.figures._canvas import COLOURS, GREY, canvas, styled


def grids(rows, *, bits):
    """Draw numbers and, beneath them, the grid of absmax that they are rounded to: one row each.

    `rows` maps names to arrays `(numbers,)`; a grid has the `2**bits - 1` points of a symmetric
    integer of so many bits.
    """
    figure, ax = canvas(width=7.6, height=0.9 + 0.85 * len(rows))
    largest = 2 ** (bits - 1) - 1
    for y, values in zip(range(len(rows), 0, -1), rows.values(), strict=True):
        points = np.abs(values).max() / largest * np.arange(-largest, largest + 1)
        ax.plot(points, [y - 0.22] * len(points), "|", color=GREY, markersize=15, mew=1.6)
        ax.plot(values, [y + 0.16] * len(values), "o", color=COLOURS[0], alpha=0.6, mew=0)
    ax.plot([], [], "o", color=COLOURS[0], alpha=0.6, mew=0, label="numbers")
    ax.plot([], [], "|", color=GREY, markersize=12, mew=1.6, label=f"what {bits} bits can say")
    ax.set_yticks(range(len(rows), 0, -1), list(rows))
    ax.set_ylim(0.4, len(rows) + 0.6)
    ax.grid(False)
    ax.legend(fontsize=10, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return figure


def error_against_bits(table):
    """Plot the signal-to-quantization-noise ratio against the bits of a number.

    `table`: a DataFrame of dB, indexed by bits, one column a way of quantizing. A dotted line
    rises by six dB a bit.
    """
    figure, ax = canvas(width=7.2, height=3.8)
    for name, style in styled(table):
        ax.plot(table.index, table[name], label=name, **style.curve())
    rising = table.iloc[0, 0] + 6.02 * (table.index - table.index[0])
    ax.plot(table.index, rising, ":", color=GREY, label="6 dB a bit")
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set(xlabel="bits of a number", ylabel="SQNR, dB")
    ax.set_xticks(table.index)
    ax.legend(fontsize=10, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def layer_sensitivity(tables):
    """Draw the dB that are left when one layer alone is quantized, for each layer of a model.

    `tables` maps modes to what `quantization.sensitivity` returns, for the same layers.
    """
    paths = list(next(iter(tables.values()))["path"])
    figure, ax = canvas(width=7.6, height=1.2 + 0.27 * len(paths))
    rows = np.arange(len(paths))
    for mode, style in styled(tables):
        decibels = tables[mode].set_index("path").loc[paths, "sqnr"]
        look = style.curve() | {"linestyle": "none", "markersize": 7}
        ax.plot(decibels, rows, label=f"{mode}, this layer alone", **look)
    ax.set_yticks(rows, paths)
    ax.invert_yaxis()
    ax.set(xlabel="SQNR of the predictions, dB (right is better)")
    ax.legend(fontsize=10, ncols=2, loc="lower center", bbox_to_anchor=(0.4, 1.0), frameon=False)
    return figure


def block_sizes(table):
    """Plot dB and bytes against the size of int4's blocks, side by side.

    `table`: a DataFrame indexed by names of block sizes, with the columns `dB` and `kilobytes`.
    """
    figure, (error, memory) = canvas(1, 2, width=7.6, height=3.0)
    places = np.arange(len(table))
    error.plot(places, table["dB"], "o-", color=COLOURS[0])
    memory.bar(places, table["kilobytes"], color=COLOURS[1], width=0.6)
    error.set(ylabel="SQNR of the predictions, dB")
    memory.set(ylabel="kilobytes in memory")
    for ax in (error, memory):
        ax.set_xticks(places, [str(name) for name in table.index])
        ax.set_xlabel("inputs that share a scale")
    return figure
