"""The pictures of section 1: the search loop, the race of tuners, what mattered, what flatters."""

from chapter18.figures._canvas import COLOURS, GREY, arrow, box, canvas, styled


def search_loop():
    """Draw the six steps of a hyperparameter search: five in a loop, the sixth once, outside it."""
    figure, ax = canvas(width=7.2, height=2.9)
    ax.set(xlim=(0, 9.6), ylim=(-0.4, 4))
    ax.axis("off")
    top, bottom, left, middle, right = 3.2, 0.8, 1.5, 4.8, 8.1
    box(ax, "1  choose\nhyperparameters", (left, top), COLOURS[0])
    box(ax, "2  build\nthe model", (middle, top), COLOURS[0])
    box(ax, "3  train it on the\ntraining set", (right, top), COLOURS[0])
    box(ax, "4  score it on the\nvalidation set", (right, bottom), COLOURS[0])
    box(ax, "5  remember\nthe trial", (middle, bottom), COLOURS[0])
    box(ax, "6  retrain the best,\ntest it once", (left, bottom), COLOURS[1])
    arrow(ax, (left + 1.35, top), (middle - 1.35, top))
    arrow(ax, (middle + 1.35, top), (right - 1.35, top))
    arrow(ax, (right, top - 0.6), (right, bottom + 0.6))
    arrow(ax, (right - 1.35, bottom), (middle + 1.35, bottom))
    arrow(ax, (middle - 0.6, bottom + 0.6), (left + 0.6, top - 0.6))
    arrow(ax, (middle - 1.35, bottom), (left + 1.35, bottom))
    ax.text(middle - 0.9, 2.0, "next trial", ha="left", va="center", fontsize=10)
    ax.text((left + middle) / 2, 0.1, "budget spent", ha="center", va="top", fontsize=10)
    return figure


def search_race(searches):
    """Plot the best score so far of each search against its seconds and against its epochs.

    `searches` maps a tuner's name to a DataFrame with one row per finished trial, in the order
    they ran, and the columns `score` (higher is better), `seconds` and `epochs`.
    """
    figure, axes = canvas(1, 2, height=3.4)
    for name, style in styled(searches):
        table = searches[name]
        best = table["score"].cummax()
        look = style.curve() | {"markersize": 5}
        for ax, column in zip(axes, ("seconds", "epochs"), strict=True):
            ax.step(table[column].cumsum(), best, where="post", label=name, **look)
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
    low, high = table[score].min(), table[score].max()
    margin = max(0.06 * (high - low), 1e-4)
    for ax, name in zip(axes.flat[: len(order)], order, strict=True):
        _effect(ax, table.dropna(subset=[name]), name, score)
        ax.set_title(f"{name}: {_gap(effects[name]):.4f}", fontsize=10.5)
        ax.set_ylim(low - margin, high + margin)
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
    ax.set_xlim(-0.5, max(len(labels), 1) - 0.5)  # with few trials, none may have had it


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
    for candidates, style in styled(gaps):
        label = f"best of {candidates}"
        axes[1].plot(gaps.index, 100 * gaps[candidates], label=label, **style.curve())
    axes[1].axhline(0, color=GREY, linewidth=1)
    axes[1].set(xlabel="validation rows", ylabel="excess, percentage points", xscale="log")
    axes[1].set_xticks(gaps.index, [str(rows) for rows in gaps.index])
    axes[1].minorticks_off()
    axes[1].legend(fontsize=10)
    return figure
