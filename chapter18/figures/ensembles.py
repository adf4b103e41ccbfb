"""The pictures of section 2: mixtures, weights, diversity, and what an ensemble costs."""

import numpy as np
import pandas as pd

from chapter18.figures._canvas import COLOURS, canvas, styled


def mixing_curve(losses):
    """Plot log-loss against the share of the second of two members.

    `losses`: a DataFrame indexed by that share (0 to 1), one column a split; the index's name
    labels the axis. A star marks the lowest point of each curve.
    """
    figure, ax = canvas(width=6.4, height=3.2)
    for split, style in styled(losses):
        look = {"color": style.colour, "linestyle": style.line, "linewidth": 2}
        ax.plot(losses.index, losses[split], label=split, **look)
        lowest = losses[split].idxmin(), losses[split].min()
        ax.plot(*lowest, "*", color=style.colour, markersize=13)
    ax.set(xlabel=losses.index.name, ylabel="log-loss, nats")
    ax.legend(fontsize=10)
    return figure


def ensemble_weights(weights, losses):
    """Draw learned weights as stacked bars and, beside them, the log-loss each reaches.

    `weights`: a DataFrame, one row a method, one column a member, rows summing to 1. `losses`: a
    DataFrame of log-losses in nats, one row a method, one column a split; rows in the same order,
    its first rows may be ensembles without learned weights.
    """
    figure, (left, right) = canvas(1, 2, height=3.6)
    start = np.zeros(len(weights))
    for member, style in styled(weights):
        look = {"color": style.colour, "hatch": style.hatch}
        left.barh(weights.index, weights[member], left=start, label=member, **look)
        start += weights[member].to_numpy()
    left.invert_yaxis()
    left.set(xlabel="weight", xlim=(0, 1))
    left.grid(visible=False)
    left.legend(
        fontsize=10, ncols=2, loc="upper center", bbox_to_anchor=(0.4, -0.22), frameon=False
    )
    for split, style in styled(losses):
        look = style.curve() | {"linestyle": "none", "markersize": 8}
        right.plot(losses[split], losses.index, label=split, **look)
    right.invert_yaxis()
    right.set_xlabel("log-loss, nats (lower is better)")
    right.legend(
        fontsize=10, ncols=2, loc="upper center", bbox_to_anchor=(0.4, -0.22), frameon=False
    )
    return figure


def weights_need_rows(losses, references):
    """Plot test log-loss against the rows weights were fitted on, with a band over repeats.

    `losses`: a DataFrame indexed by rows, one column a repeat. `references`: a mapping from a
    label to one log-loss, drawn as a level line.
    """
    figure, ax = canvas(width=6.4, height=3.2)
    ax.fill_between(
        losses.index, losses.min(axis=1), losses.max(axis=1), color=COLOURS[0], alpha=0.2
    )
    ax.plot(
        losses.index, losses.mean(axis=1), "o-", color=COLOURS[0], label="learned: mean and range"
    )
    for number, (label, style) in enumerate(styled(["learned", *references])[1:]):
        line = ("--", ":", "-.")[number % 3]
        ax.axhline(references[label], color=style.colour, linestyle=line, linewidth=2, label=label)
    ax.set(xscale="log", xlabel="rows the weights were fitted on", ylabel="test log-loss, nats")
    ax.legend(fontsize=10)
    return figure


def error_correlation(table):
    """Draw the pairwise error correlations of `ensembles.diversity` as a square, numbers inside."""
    names = list(dict.fromkeys([*table["first"], *table["second"]]))
    grid = pd.DataFrame(np.nan, index=names, columns=names)
    for line in table.itertuples():
        grid.loc[line.first, line.second] = grid.loc[line.second, line.first] = (
            line.error_correlation
        )
    figure, ax = canvas(width=6.2, height=5.2)
    image = ax.imshow(grid, cmap="cividis")
    for row, column in zip(*np.where(grid.notna()), strict=True):
        value = grid.iloc[row, column]
        colour = "black" if image.norm(value) > 0.55 else "white"
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=10)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    ax.grid(visible=False)
    figure.colorbar(image, ax=ax, label="error correlation", shrink=0.85)
    return figure


def ambiguity_bars(parts):
    """Draw each group's mean member error, cut into what stays (ensemble error) and the spread.

    `parts`: a DataFrame, one row a group, with the columns `ensemble_error` and `spread`.
    """
    figure, ax = canvas(height=0.6 + 0.42 * len(parts))
    ax.barh(parts.index, parts["ensemble_error"], color=COLOURS[0], label="error of the mean")
    ax.barh(
        parts.index,
        parts["spread"],
        left=parts["ensemble_error"],
        color=COLOURS[4],
        label="spread: what the mean saves",
    )
    ax.invert_yaxis()
    ax.set_axisbelow(True)
    ax.set_xlabel("squared error per row; a whole bar is the average member")
    ax.legend(fontsize=10, ncols=2, loc="lower center", bbox_to_anchor=(0.4, 1.0), frameon=False)
    return figure


def cost_and_loss(table):
    """Plot log-loss against the seconds of a prediction; the legend tells name and size.

    `table`: a DataFrame, one row a model, with the columns `seconds`, `bytes` and `log_loss`.
    """
    figure, ax = canvas(height=3.2)
    for line, style in styled(table.itertuples()):
        look = style.curve() | {"linestyle": "none", "markersize": 10}
        label = f"{line.Index}, {line.bytes / 1e6:.2f} MB"
        ax.plot(line.seconds, line.log_loss, label=label, **look)
    ax.set(xscale="log", xlabel="seconds for 10,000 images", ylabel="test log-loss, nats")
    ax.set_xticks(table["seconds"], [f"{seconds:.2g}" for seconds in table["seconds"]])
    ax.minorticks_off()
    ax.margins(0.15)
    ax.legend(fontsize=10, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure
