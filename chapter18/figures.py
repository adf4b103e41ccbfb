"""The pictures of the course: English labels, colours that a colour-blind reader can tell apart.

Backgrounds are opaque white, so a figure stays legible when JupyterLab or Colab is in dark mode.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.patches import FancyBboxPatch

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


def search_loop():
    """Draw the six steps of a hyperparameter search: five in a loop, the sixth once, outside it."""
    figure, ax = canvas(width=7.2, height=2.9)
    ax.set(xlim=(0, 9.6), ylim=(-0.4, 4))
    ax.axis("off")
    top, bottom, left, middle, right = 3.2, 0.8, 1.5, 4.8, 8.1
    _box(ax, "1  choose\nhyperparameters", (left, top), COLOURS[0])
    _box(ax, "2  build\nthe model", (middle, top), COLOURS[0])
    _box(ax, "3  train it on the\ntraining set", (right, top), COLOURS[0])
    _box(ax, "4  score it on the\nvalidation set", (right, bottom), COLOURS[0])
    _box(ax, "5  remember\nthe trial", (middle, bottom), COLOURS[0])
    _box(ax, "6  retrain the best,\ntest it once", (left, bottom), COLOURS[1])
    _arrow(ax, (left + 1.35, top), (middle - 1.35, top))
    _arrow(ax, (middle + 1.35, top), (right - 1.35, top))
    _arrow(ax, (right, top - 0.6), (right, bottom + 0.6))
    _arrow(ax, (right - 1.35, bottom), (middle + 1.35, bottom))
    _arrow(ax, (middle - 0.6, bottom + 0.6), (left + 0.6, top - 0.6))
    _arrow(ax, (middle - 1.35, bottom), (left + 1.35, bottom))
    ax.text(middle - 0.9, 2.0, "next trial", ha="left", va="center", fontsize=10)
    ax.text((left + middle) / 2, 0.1, "budget spent", ha="center", va="top", fontsize=10)
    return figure


def _box(ax, text, centre, colour):
    x, y = centre
    style = {"boxstyle": "round,pad=0,rounding_size=0.15", "facecolor": "white", "linewidth": 2}
    ax.add_patch(FancyBboxPatch((x - 1.3, y - 0.55), 2.6, 1.1, edgecolor=colour, **style))
    ax.text(x, y, text, ha="center", va="center", fontsize=10.5)


def _arrow(ax, start, end):
    style = {"arrowstyle": "-|>", "color": "#444444", "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", xy=end, xytext=start, arrowprops=style)


def search_race(searches):
    """Plot the best score so far of each search against its seconds and against its epochs.

    `searches` maps a tuner's name to a DataFrame with one row per finished trial, in the order
    they ran, and the columns `score` (higher is better), `seconds` and `epochs`.
    """
    figure, axes = canvas(1, 2, height=3.4)
    for index, (name, table) in enumerate(searches.items()):
        best = table["score"].cummax()
        style = {"color": COLOURS[index], "marker": MARKERS[index], "markersize": 5}
        for ax, column in zip(axes, ("seconds", "epochs"), strict=True):
            ax.step(table[column].cumsum(), best, where="post", label=name, **style)
    axes[0].set(xlabel="seconds so far", ylabel="best validation accuracy so far")
    axes[1].set(xlabel="epochs trained so far")
    axes[1].legend(fontsize=10)
    return figure


def hyperparameter_effects(table, names, *, score="score"):
    """Plot the score of each trial against each hyperparameter of `names`, the strongest first.

    A hyperparameter's strength is printed in its title: the difference between the best and the
    worst mean score of its groups. Groups are its values, or, for more than four different
    numbers, its lower, middle and upper third. Inactive values (NaN) are left out.
    """
    effects = {name: _group_means(table, name, score) for name in names}
    order = sorted(names, key=lambda name: -_gap(effects[name]))
    rows = -(-len(names) // 3)
    figure, axes = canvas(rows, 3, height=2.6 * rows)
    for ax, name in zip(axes.flat, order, strict=False):
        _effect(ax, table.dropna(subset=[name]), name, score)
        ax.set_title(f"{name}: {_gap(effects[name]):.4f}", fontsize=10.5)
        ax.sharey(axes.flat[0])
        ax.tick_params(labelleft=ax.get_subplotspec().is_first_col())
    for ax in axes.flat[len(names) :]:
        ax.axis("off")
    figure.supylabel("validation accuracy", fontsize=10.5)
    return figure


def _group_means(table, name, score):
    kept = table.dropna(subset=[name])
    if _is_spread(kept[name]):
        groups = kept[name].astype(float).rank(method="first").mul(3 / (len(kept) + 1)).astype(int)
    else:
        groups = kept[name].astype(str)
    return kept[score].groupby(groups).mean()


def _gap(means):
    return float(means.max() - means.min()) if len(means) else 0.0


def _is_spread(column):
    numeric = column.map(lambda value: isinstance(value, (int, float))).all()
    return bool(numeric and column.nunique() > 4)


def _effect(ax, table, name, score):
    values = table[name]
    if _is_spread(values):
        ax.scatter(values.astype(float), table[score], color=COLOURS[0], s=28)
        if values.min() > 0 and values.max() / values.min() > 20:
            ax.set_xscale("log")
        return
    labels = sorted(values.unique())
    ax.scatter([labels.index(v) for v in values], table[score], color=COLOURS[0], s=28)
    ax.set_xticks(range(len(labels)), [_short(label) for label in labels])
    ax.set_xlim(-0.5, len(labels) - 0.5)


def _short(label):
    return f"{label:g}" if isinstance(label, float) else str(label)


def selection_bias(frame, gaps):
    """Plot how a winner's validation score flatters it: two panels.

    Left: `frame` of `tuning.selection_bias`, the best validation score so far and the same
    trial's test score. Right: `gaps`, a DataFrame indexed by validation rows whose columns are
    numbers of candidates; each value is the winner's mean excess over its score on fresh rows.
    """
    figure, axes = canvas(1, 2, height=3.4)
    axes[0].plot(frame["trials"], frame["validation"], color=COLOURS[0], marker="o")
    axes[0].plot(frame["trials"], frame["test"], color=COLOURS[1], marker="s")
    axes[0].legend(["best validation so far", "its own test score"], fontsize=10)
    axes[0].set(xlabel="trials", ylabel="accuracy")
    axes[0].xaxis.get_major_locator().set_params(integer=True)
    for index, candidates in enumerate(gaps.columns):
        style = {"color": COLOURS[index], "marker": MARKERS[index]}
        axes[1].plot(gaps.index, 100 * gaps[candidates], label=f"best of {candidates}", **style)
    axes[1].axhline(0, color="#444444", linewidth=1)
    axes[1].set(xlabel="validation rows", ylabel="excess, percentage points", xscale="log")
    axes[1].set_xticks(gaps.index, [str(rows) for rows in gaps.index])
    axes[1].minorticks_off()
    axes[1].legend(fontsize=10)
    return figure


def mixing_curve(losses):
    """Plot log-loss against the share of the second of two members.

    `losses`: a DataFrame indexed by that share (0 to 1), one column a split; the index's name
    labels the axis. A star marks the lowest point of each curve.
    """
    figure, ax = canvas(width=6.4, height=3.2)
    for colour, split in zip(COLOURS, losses, strict=False):
        ax.plot(losses.index, losses[split], color=colour, linewidth=2, label=split)
        ax.plot(losses[split].idxmin(), losses[split].min(), "*", color=colour, markersize=13)
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
    for colour, member in zip(COLOURS, weights, strict=False):
        left.barh(weights.index, weights[member], left=start, color=colour, label=member)
        start += weights[member].to_numpy()
    left.invert_yaxis()
    left.set_xlabel("weight")
    left.grid(visible=False)
    left.legend(
        fontsize=10, ncols=2, loc="upper center", bbox_to_anchor=(0.4, -0.22), frameon=False
    )
    for colour, marker, split in zip(COLOURS, MARKERS, losses, strict=False):
        right.plot(losses[split], losses.index, marker, color=colour, markersize=8, label=split)
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
    for colour, style, (label, loss) in zip(
        COLOURS[1:], ("--", ":"), references.items(), strict=False
    ):
        ax.axhline(loss, color=colour, linestyle=style, linewidth=2, label=label)
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
    ax.set_xlabel("squared error per row; a whole bar is the average member")
    ax.legend(fontsize=10, ncols=2, loc="lower center", bbox_to_anchor=(0.4, 1.0), frameon=False)
    return figure


def cost_and_loss(table):
    """Plot log-loss against the seconds of a prediction; a marker's label names it and its size.

    `table`: a DataFrame, one row a model, with the columns `seconds`, `bytes` and `log_loss`.
    """
    figure, ax = canvas(width=6.8, height=3.6)
    for index, (name, line) in enumerate(table.iterrows()):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        ax.plot(line["seconds"], line["log_loss"], marker, color=colour, markersize=9)
        ax.annotate(
            f"{name}, {line['bytes'] / 1e6:.2g} MB",
            (line["seconds"], line["log_loss"]),
            xytext=(8, 4),
            textcoords="offset points",
            fontsize=10,
        )
    ax.set(xscale="log", xlabel="seconds for 10,000 images", ylabel="test log-loss, nats")
    ax.margins(x=0.3, y=0.15)
    return figure
