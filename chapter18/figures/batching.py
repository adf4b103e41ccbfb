"""The pictures of section 3: devices, batches and how fast they go."""

from chapter18.figures._canvas import COLOURS, GREY, arrow, box, canvas, styled


def loop_of_progress():
    """Draw the loop idea, experiment, results; faster training shortens its lower half."""
    figure, ax = canvas(width=7.0, height=2.6)
    ax.set(xlim=(0, 9.4), ylim=(-0.2, 3.7))
    ax.axis("off")
    box(ax, "idea", (1.5, 2.9), COLOURS[0])
    box(ax, "experiment", (7.9, 2.9), COLOURS[0])
    box(ax, "results", (4.7, 0.6), COLOURS[0])
    arrow(ax, (2.8, 2.9), (6.6, 2.9))
    arrow(ax, (7.3, 2.35), (5.8, 1.15), COLOURS[1])
    arrow(ax, (3.6, 1.15), (2.1, 2.35))
    ax.text(4.7, 3.05, "a framework: quick to write", ha="center", va="bottom", fontsize=10.5)
    ax.text(7.0, 1.5, "devices: quick to train", ha="left", va="center", fontsize=10.5)
    ax.text(2.4, 1.5, "a figure: quick to read", ha="right", va="center", fontsize=10.5)
    return figure


def two_splits():
    """Draw what data parallelism and model parallelism split over two devices."""
    figure, axes = canvas(1, 2, width=7.8, height=2.8)
    titles = ("data parallelism: the batch is split", "model parallelism: the model is split")
    for ax, title in zip(axes, titles, strict=True):
        ax.set(xlim=(0, 6.6), ylim=(0.4, 4.1))
        ax.axis("off")
        ax.set_title(title, fontsize=10.5)
        for device, y in enumerate((3.3, 1.2)):
            ax.text(0.1, y, f"device {device}", fontsize=10.5, va="center")
    for device, y in enumerate((3.3, 1.2)):
        box(axes[0], f"half {device}\nof the batch", (2.6, y), COLOURS[1], width=2.0)
        box(axes[0], "whole\nmodel", (5.5, y), COLOURS[0], width=2.0)
        arrow(axes[0], (3.65, y), (4.45, y))
        box(axes[1], "whole\nbatch", (2.6, y), COLOURS[1], width=2.0)
        box(axes[1], f"half {device}\nof the model", (5.5, y), COLOURS[0], width=2.0)
        arrow(axes[1], (3.65, y), (4.45, y))
    for ax, sent in zip(axes, ("gradients", "activations"), strict=True):
        arrow(ax, (5.5, 2.7), (5.5, 1.8), ends="<|-|>")
        ax.text(5.35, 2.25, sent, ha="right", va="center", fontsize=10)
    return figure


def batch_cost(table):
    """Plot training speed and planned memory against the batch size, side by side.

    `table`: a DataFrame indexed by the batch size, with the columns `images a second` and
    `megabytes`, the memory of a whole training step.
    """
    figure, (speed, memory) = canvas(1, 2, height=3.2)
    speed.plot(table.index, table["images a second"], "o-", color=COLOURS[0])
    memory.plot(table.index, table["megabytes"], "s-", color=COLOURS[1])
    speed.set(ylabel="images a second", ylim=(0, None))
    memory.set(ylabel="megabytes of a training step", ylim=(0, None))
    speed.yaxis.set_major_formatter("{x:,.0f}")
    for ax in (speed, memory):
        _batch_axis(ax, table.index)
    return figure


def large_batches(table):
    """Plot validation accuracy against batch size: one line a rule, a band over the seeds.

    `table`: a DataFrame of accuracies, one column a seed, indexed by (rule, batch size).
    """
    figure, ax = canvas(width=6.6, height=3.4)
    for rule, style in styled(table.index.unique(0)):
        scores = table.loc[rule]
        ax.plot(scores.index, scores.mean(axis=1), label=rule, **style.curve())
        ax.fill_between(
            scores.index, scores.min(axis=1), scores.max(axis=1), color=style.colour, alpha=0.2
        )
    _batch_axis(ax, table.index.unique(1))
    ax.set(ylabel="validation accuracy", ylim=(0, 1))
    ax.legend(fontsize=10, title="learning rate", title_fontsize=10)
    return figure


def waiting(found):
    """Draw, for each pipeline, the seconds of training and those spent waiting for input.

    `found` maps names to `batching.Starvation`.
    """
    figure, ax = canvas(width=7.0, height=0.9 + 0.5 * len(found))
    names = list(found)
    trained = [min(f.repeated_seconds, f.pipeline_seconds) for f in found.values()]
    waited = [f.pipeline_seconds - t for f, t in zip(found.values(), trained, strict=True)]
    ax.barh(names, trained, color=COLOURS[0], label="training")
    ax.barh(names, waited, left=trained, color=COLOURS[1], label="waiting for input")
    for row, f in enumerate(found.values()):
        ax.text(f.pipeline_seconds, row, f"  {f.share:.0%}", va="center", fontsize=10)
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.set_xlabel(f"seconds of {f.steps} steps")
    ax.legend(fontsize=10, ncols=2, loc="lower center", bbox_to_anchor=(0.4, 1.0), frameon=False)
    return figure


def speedups(table):
    """Plot speed-ups against the number of devices, beside the ideal line.

    `table`: a DataFrame indexed by the number of devices, one column a kind of speed-up.
    """
    figure, ax = canvas(width=6.6, height=3.6)
    ax.plot(table.index, table.index, "--", color=GREY, label="ideal")
    for name, style in styled(table):
        ax.plot(table.index, table[name], label=name, **style.curve())
    ax.set(xlabel="devices", ylabel="times one device")
    ax.set_xticks(table.index)
    ax.legend(fontsize=10)
    return figure


def _batch_axis(ax, sizes):
    ax.set(xlabel="global batch size", xscale="log")
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
    ax.minorticks_off()
