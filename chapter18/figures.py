"""What every picture of the course shares: canvas, colours and markers.

Labels are English; the colours are ones that a colour-blind reader can tell apart. Backgrounds are
opaque white, so a figure stays legible when JupyterLab or Colab is in dark mode. The pictures of a
section are in a module of their own, such as `tuning_figures`.
"""

import matplotlib.pyplot as plt

# Okabe and Ito's palette, https://jfly.uni-koeln.de/color/ (without its yellow, too pale on white).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


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
