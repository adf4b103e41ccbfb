"""The pictures of section 6: bits, number lines, spacing, and where a model's numbers live."""

import numpy as np
from matplotlib.patches import Rectangle

from chapter18 import precision
from chapter18.figures._canvas import COLOURS, MARKERS, canvas, styled

_PARTS = {"sign": COLOURS[1], "exponent": COLOURS[2], "mantissa": COLOURS[0]}
_STYLES = dict(zip(precision.FORMATS, (":", "-", "-", "-", "--", "--"), strict=True))
_COLOUR = dict(
    zip(precision.FORMATS, ("#000000", *(COLOURS[i] for i in (0, 1, 2, 3, 4))), strict=True)
)


def bit_rows(rows):
    """Draw the real bits of numbers, one row each, exponent and mantissa lined up.

    `rows` maps labels to `precision.Bits`. A single row gets the meaning of its parts beneath.
    """
    left = 1 + max(len(taken.exponent) for taken in rows.values())
    right = max(len(taken.mantissa) for taken in rows.values())
    margin = 0.72 * max(len(label) for label in rows) if len(rows) > 1 else 0
    figure, ax = canvas(width=7.9, height=(0.5 if margin else 0.8) + 0.36 * len(rows))
    ax.set(
        xlim=(-left - margin - 0.6, right + 0.6),
        ylim=(-1.3 * len(rows) + (0.3 if margin else -0.1), 2),
    )
    ax.axis("off")
    for row, (label, taken) in enumerate(rows.items()):
        _row(ax, -1.3 * row, taken)
        if margin:
            ax.text(-left - 0.7, 0.5 - 1.3 * row, label, ha="right", va="center", fontsize=10.5)
    parts = (("sign", -left), ("exponent", -left / 2 + 0.5), ("mantissa", right / 2))
    for name, x in parts:
        ax.text(x, 1.25, name, color=_PARTS[name], ha="center", va="bottom", fontsize=10.5)
    if len(rows) == 1:
        for (_, x), text in zip(parts, _meanings(taken), strict=True):
            ax.text(x, -0.3, text, ha="center", va="top", fontsize=10.5)
    return figure


def _row(ax, y, taken):
    start = -len(taken.exponent) - 1.4
    for name, digits, x in (
        ("sign", taken.sign, start),
        ("exponent", taken.exponent, start + 1.2),
        ("mantissa", taken.mantissa, 0),
    ):
        for place, digit in enumerate(digits):
            face = {"facecolor": _PARTS[name], "alpha": 0.3 if digit == "1" else 0.08}
            ax.add_patch(Rectangle((x + place, y), 1, 1, linewidth=0, **face))
            ax.add_patch(Rectangle((x + place, y), 1, 1, fill=False, edgecolor=_PARTS[name]))
            ax.text(x + place + 0.5, y + 0.46, digit, ha="center", va="center", fontsize=10.5)


def _meanings(taken):
    sign = "−" if taken.sign == "1" else "+"
    power = f"{int(taken.exponent, 2)}, which means $2^{{{taken.power}}}$"
    return sign, power, f"significand {taken.significand!r}"


def number_lines(names, low, high):
    """Mark every number that each format has from `low` to `high`, one line a format."""
    figure, ax = canvas(width=7.9, height=0.9 + 0.45 * len(names))
    for row, name in enumerate(names):
        numbers = precision.every_number(name)
        numbers = numbers[(numbers >= low) & (numbers <= high)]
        ax.vlines(numbers, row - 0.32, row + 0.32, color=_COLOUR[name], linewidth=1.4)
    ax.set_yticks(range(len(names)), names, fontsize=10)
    ax.invert_yaxis()
    ax.grid(visible=False)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("every number that the format has")
    return figure


def spacings(names=precision.FORMATS, *, low=-30, high=30):
    """Plot the distance to the next number against the number, from 2 ** low to 2 ** high.

    Both axes are logarithmic. A dot ends the line of a format whose largest number is in sight.
    """
    figure, ax = canvas(width=7.9, height=4.6)
    magnitudes = 2.0 ** np.arange(low, high + 1)
    for name in names:
        steps = precision.spacing(magnitudes, name)
        style = {"color": _COLOUR[name], "linestyle": _STYLES[name], "linewidth": 1.8}
        ax.plot(magnitudes, steps, drawstyle="steps-post", label=name, **style)
        largest = precision.formats().loc[name, "max"]
        if largest < magnitudes[-1]:
            last = precision.spacing(largest, name)
            ax.plot([magnitudes[np.isfinite(steps)][-1], largest], [last, last], **style)
            ax.plot(largest, last, "o", color=_COLOUR[name], markersize=7)
    ax.set(xscale="log", yscale="log", xlabel="the number", ylabel="distance to the next one")
    order = np.argsort([-precision.spacing(1.0, name) for name in names])
    handles, labels = ax.get_legend_handles_labels()
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False, "fontsize": 10}
    ax.legend([handles[i] for i in order], [labels[i] for i in order], **place)
    return figure


def ranges(values, names=precision.FORMATS[1:], *, low=1e-12, high=1e12):
    """Draw histograms of magnitudes above the range of each format, on one logarithmic axis.

    `values` maps labels to arrays; zeros are left out. Thick bars are a format's normal numbers,
    thin ones its subnormal ones; an arrow says that the format goes on.
    """
    figure, (top, bottom) = canvas(2, 1, width=7.9, height=4.4)
    edges = np.geomspace(low, high, 97)
    for label, style in styled(values):
        magnitudes = np.abs(np.ravel(values[label]))
        magnitudes = magnitudes[magnitudes > 0]
        shares = 100 * np.histogram(magnitudes, edges)[0] / max(1, len(magnitudes))
        look = {"color": style.colour, "linestyle": style.line, "linewidth": 1.6}
        top.stairs(shares, edges, label=label, **look)
    top.set(ylabel="% of the numbers")
    top.legend(fontsize=10, loc="upper right")
    for row, name in enumerate(names):
        _range(bottom, row, precision.formats().loc[name], _COLOUR[name], low, high)
    bottom.set_yticks(range(len(names)), names, fontsize=10)
    bottom.invert_yaxis()
    bottom.set(xlabel="magnitude")
    for ax in (top, bottom):
        ax.set(xscale="log", xlim=(low, high))
    return figure


def _range(ax, row, limits, colour, low, high):
    start, normal, end = (limits[name] for name in ("smallest subnormal", "smallest normal", "max"))
    for first, width in ((start, 2), (normal, 9)):
        style = {"color": colour, "linewidth": width, "solid_capstyle": "butt"}
        ax.plot([max(first, low), min(end, high)], [row, row], **style)
    inner = (low * 3, high / 3)
    for beyond, marker, place in ((start < low, "<", inner[0]), (end > high, ">", inner[1])):
        if beyond:
            ax.plot(place, row, marker, color="white", markersize=6)


def resolution(accuracies):
    """Plot accuracy against the bits of the mantissa; dotted lines mark what formats store.

    `accuracies`: a DataFrame indexed by bits, one column a seed (a line and a band over seeds).
    """
    figure, ax = canvas(width=7.2, height=3.3)
    ax.plot(accuracies.index, accuracies.mean(axis=1), "o-", color=COLOURS[0])
    band = (accuracies.min(axis=1), accuracies.max(axis=1))
    ax.fill_between(accuracies.index, *band, color=COLOURS[0], alpha=0.2, linewidth=0)
    for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        stored = precision.formats().loc[name, "mantissa"]
        ax.axvline(stored, color=_COLOUR[name], linestyle=":", linewidth=1.6)
        ax.text(stored - 0.05, 0.03, name, rotation=90, ha="right", va="bottom", fontsize=10)
    ax.set(xlabel="bits of the mantissa", ylabel="accuracy", ylim=(0, 1.03))
    ax.set_xticks(accuracies.index)
    return figure


def breaking_points(offsets, scales):
    """Plot accuracy against an offset and against a scale of the inputs, both powers of two.

    Both are DataFrames of accuracies, indexed by the power, one column a format.
    """
    figure, axes = canvas(1, 2, width=7.9, height=3.6)
    labels = ("offset added: 2 to the power of", "inputs multiplied by 2 to the power of")
    for ax, table, label in zip(axes, (offsets, scales), labels, strict=True):
        for index, name in enumerate(table):
            style = {"color": _COLOUR[name], "marker": MARKERS[index], "markersize": 5}
            ax.plot(table.index, table[name], label=name, **style)
        ax.set(xlabel=label, ylim=(0, 1.03))
    axes[0].set(ylabel="accuracy")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=10)
    return figure
