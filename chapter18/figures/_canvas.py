"""What every picture of the course shares: canvas, styles of series, boxes and arrows.

Labels are English; the colours are ones that a colour-blind reader can tell apart. Backgrounds are
opaque white, so a figure stays legible when JupyterLab or Colab is in dark mode. The pictures of a
section are in a module of their own, such as `tuning_figures`.
"""

from collections.abc import Iterable
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

# Okabe and Ito's palette, https://jfly.uni-koeln.de/color/ (without its yellow, too pale on white).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#444444"
_LINES, _HATCHES = ("-", "--", ":"), ("", "///", "...")


class Style(NamedTuple):
    """How a series looks: from the eighth on, lines and hatches tell equal colours apart."""

    colour: str
    marker: str
    line: str
    hatch: str

    def curve(self) -> dict:
        """Return the options of `plot` that draw the series as a line with markers."""
        return {"color": self.colour, "marker": self.marker, "linestyle": self.line}


def styled(names: Iterable) -> list:
    """Return `(name, Style)` for each series of a figure, all different.

    `names` may be a DataFrame, for its columns, or a mapping, for its keys. Raises ValueError for
    more than 21 series.
    """
    names = list(names)
    if len(names) > len(_STYLES):
        raise ValueError(
            f"A figure tells at most {len(_STYLES)} series apart. Received: {len(names)}. "
            "Draw fewer of them, or several figures."
        )
    return list(zip(names, _STYLES[: len(names)], strict=True))


def _style(number):
    cycle, place = divmod(number, len(COLOURS))
    # A marker moves on with each cycle, for points that have no line.
    marker = MARKERS[(place + cycle) % len(MARKERS)]
    return Style(COLOURS[place], marker, _LINES[cycle], _HATCHES[cycle])


_STYLES = tuple(_style(number) for number in range(len(COLOURS) * len(_LINES)))


def canvas(rows=1, columns=1, *, width=7.5, height=3.6):
    """Return `(figure, axes)` in the course's style; sizes in inches, 100 dots per inch."""
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, height), dpi=100, facecolor="white", layout="constrained"
    )
    for ax in figure.axes:
        ax.set_facecolor("white")
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=10)
    return figure, axes


def box(ax, text, centre, colour, *, width=2.6):
    """Draw a box with a round edge and a text in it, `width` × 1.1 in the units of `ax`."""
    x, y = centre
    style = {"boxstyle": "round,pad=0,rounding_size=0.15", "facecolor": "white", "linewidth": 2}
    ax.add_patch(FancyBboxPatch((x - width / 2, y - 0.55), width, 1.1, edgecolor=colour, **style))
    ax.text(x, y, text, ha="center", va="center", fontsize=10.5)


def arrow(ax, start, end, colour=GREY, *, ends="-|>"):
    """Draw an arrow from one point of `ax` to another."""
    style = {"arrowstyle": ends, "color": colour, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", xy=end, xytext=start, arrowprops=style)
