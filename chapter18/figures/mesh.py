"""The pictures of section 4: cuts, meshes, shards, and layouts compared by their plans."""

import numpy as np
from matplotlib.patches import Rectangle

from chapter18.figures._canvas import COLOURS, arrow, canvas

_PALE = 0.45


def two_cuts():
    """Draw a network of three layers cut in two, horizontally and vertically."""
    figure, axes = canvas(1, 2, width=7.5, height=3.0)
    titles = ("horizontal: whole layers to each device", "vertical: a part of every layer")
    for ax, title in zip(axes, titles, strict=True):
        ax.set(xlim=(-0.2, 4.2), ylim=(-0.55, 4.1))
        ax.axis("off")
        ax.set_title(title, fontsize=10.5)
        for bottom in (0.15, 1.45, 2.75):
            _layer(ax, bottom, vertical=ax is axes[1])
        for x in (2,) if ax is axes[0] else (1.2, 2.8):
            for top in (1.0, 2.3):
                arrow(ax, (x, top), (x, top + 0.45))
    _dashes(axes[0], [-0.1, 4.1], [2.52, 2.52])
    _dashes(axes[1], [2, 2], [0.0, 3.7])
    for ax in axes:
        for x, name, colour in ((1, "device 0", COLOURS[0]), (3, "device 1", COLOURS[1])):
            ax.text(x, -0.45, name, color=colour, ha="center", fontsize=10.5, weight="bold")
    return figure


def _layer(ax, bottom, *, vertical):
    first, second = COLOURS[0], COLOURS[1]
    halves = (first, second) if vertical else ((first, first), (second, second))[bottom > 2]
    for x, colour in zip((0.4, 2.0), halves, strict=True):
        ax.add_patch(Rectangle((x, bottom), 1.6, 0.85, facecolor=colour, alpha=_PALE, lw=0))
    ax.add_patch(Rectangle((0.4, bottom), 3.2, 0.85, fill=False, lw=1.4))
    number = round((bottom - 0.15) / 1.3) + 1
    ax.text(0.85, bottom + 0.425, f"layer {number}", ha="center", va="center", fontsize=10.5)


def _dashes(ax, x, y):
    ax.plot(x, y, linestyle="--", color="black", linewidth=1.5)


def two_halves():
    """Draw a kernel split by columns (outputs are concatenated) and by rows (they are added)."""
    figure, axes = canvas(1, 2, width=7.5, height=2.3)
    for ax, by in zip(axes, ("columns", "rows"), strict=True):
        ax.set(xlim=(0, 9.6), ylim=(-0.6, 4.2))
        ax.axis("off")
        ax.set_aspect("equal")
        columns = by == "columns"
        ax.set_title(
            f"split by {by}: outputs are {'concatenated' if columns else 'added'}", fontsize=10.5
        )
        _blocks(ax, (0.2, 1.0), (2.4, 1.6), None if columns else "x", "inputs")
        _blocks(ax, (3.6, 0.6), (2.2, 2.4), "x" if columns else "y", "kernel")
        _blocks(ax, (6.8, 1.0), (2.2, 1.6), "x" if columns else "sum", "outputs")
        ax.text(3.1, 1.8, "×", ha="center", va="center", fontsize=14)
        ax.text(6.3, 1.8, "=", ha="center", va="center", fontsize=14)
    return figure


def _blocks(ax, corner, size, cut, label):
    """A matrix in two colours: cut along x or y; both on top of each other; or in grey."""
    (x, y), (width, height) = corner, size
    halves = {
        "x": (((x, y), (width / 2, height)), ((x + width / 2, y), (width / 2, height))),
        "y": (((x, y + height / 2), (width, height / 2)), ((x, y), (width, height / 2))),
        "sum": (((x - 0.15, y + 0.2), (width, height)), ((x + 0.15, y - 0.2), (width, height))),
    }.get(cut, ())
    for colour, (low, extent) in zip(COLOURS[: len(halves)], halves, strict=True):
        ax.add_patch(Rectangle(low, *extent, facecolor=colour, alpha=_PALE, edgecolor="black"))
    if not halves:
        ax.add_patch(Rectangle(corner, *size, facecolor="#cccccc", edgecolor="black"))
    ax.text(x + width / 2, -0.35, label, ha="center", fontsize=10.5)
    if cut == "sum":
        ax.text(x + width / 2, y + height / 2, "+", ha="center", va="center", fontsize=14)


def meshes(named):
    """Draw `DeviceMesh`es as grids; `named` maps titles to meshes of one or two axes.

    Rows are the first axis and columns the second; a mesh of one axis is a single row.
    """
    grids = [np.atleast_2d(np.asarray(mesh.devices)) for mesh in named.values()]
    widths = [grid.shape[1] + 1.2 * (len(grid) > 1) for grid in grids]
    figure, _ = canvas(1, len(named), width=7.9, height=2.1)
    figure.axes[0].get_gridspec().set_width_ratios(widths)
    for ax, grid, (title, mesh) in zip(figure.axes, grids, named.items(), strict=True):
        _grid(ax, grid, mesh.axis_names)
        ax.set_title(title, fontsize=10.5)
    return figure


def _grid(ax, grid, names):
    rows, columns = grid.shape
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), aspect="equal")
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.set_xticks(range(columns))
    ax.set_yticks(range(rows) if len(names) > 1 else [])
    ax.set_xlabel(names[-1], fontsize=10.5)
    if len(names) > 1:
        ax.set_ylabel(names[0], fontsize=10.5)
    for (row, column), device in np.ndenumerate(grid):
        colour = COLOURS[row % len(COLOURS)]
        box = Rectangle((column - 0.44, row - 0.44), 0.88, 0.88, facecolor=colour, alpha=_PALE)
        ax.add_patch(box)
        ax.text(column, row, _number(device), ha="center", va="center", fontsize=11)


def _number(device):
    return str(device).rpartition(":")[2]


def shards(kernels):
    """Draw which devices hold which part of some kernels, from their real shardings.

    `kernels` maps a layout's name to a list of arrays with two axes (inputs, outputs), each drawn
    with its own proportions. The numbers of a part's devices stand in it; its colour is that of no
    other part of the kernel, as long as there are at most six.
    """
    lists = list(kernels.values())
    figure, _ = canvas(len(lists[0]), len(lists), width=7.8, height=3.5)
    axes = np.reshape(figure.axes, (len(lists[0]), len(lists)))
    for column, (name, arrays) in enumerate(kernels.items()):
        axes[0, column].set_title(name, fontsize=10.5)
        for row, array in enumerate(arrays):
            _parts(axes[row, column], array)
    for row, array in enumerate(lists[0]):
        axes[row, 0].set_ylabel(f"{array.shape[0]} × {array.shape[1]}", fontsize=10.5)
    return figure


def _parts(ax, array):
    height, width = array.shape
    ax.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[])
    ax.grid(visible=False)
    holders = {}
    for device, index in array.sharding.devices_indices_map(array.shape).items():
        bounds = tuple(
            part.indices(size)[:2] for part, size in zip(index, (height, width), strict=True)
        )
        holders.setdefault(bounds, []).append(device.id)
    for number, (((top, low), (left, right)), ids) in enumerate(sorted(holders.items())):
        colour = COLOURS[:6][number % 6]
        box = {"facecolor": colour, "alpha": _PALE, "edgecolor": "black"}
        ax.add_patch(Rectangle((left, top), right - left, low - top, **box))
        rotate = 90 if right - left < width / 3 and len(ids) > 1 else 0
        text = _ids(sorted(ids))
        middle = (left + right) / 2, (top + low) / 2
        ax.text(*middle, text, ha="center", va="center", fontsize=10, rotation=rotate)


def _ids(ids):
    if len(ids) > 2 and ids == list(range(ids[0], ids[-1] + 1)):
        return f"{ids[0]} to {ids[-1]}"
    return ", ".join(map(str, ids))


def layouts_compared(table, steps, memory):
    """Plot plans side by side: memory of one device in GB, and milliseconds of a predicted step.

    `table` is that of `speedup.compare`, `steps` maps its rows to `speedup.Step`s, and `memory` is
    what the device has, in bytes.
    """
    figure, axes = canvas(1, 2, width=7.8, height=3.3)
    kept = ("parameters", "optimizer", "temporaries")
    taken = {
        "computing": [1000 * steps[name].compute for name in table.index],
        "sending": [1000 * steps[name].communication for name in table.index],
    }
    _bars(axes[0], {part: table[f"{part} (GB)"].to_numpy() for part in kept}, COLOURS[:3])
    _bars(axes[1], taken, COLOURS[3:5])
    axes[0].axvline(memory / 1e9, color="black", linestyle="--", linewidth=1.5)
    axes[0].set(xlabel="GB a device")
    axes[0].set_yticks(range(len(table)), table.index, fontsize=10)
    axes[1].set(xlabel="predicted milliseconds a step")
    axes[1].tick_params(labelleft=False)
    return figure


def _bars(ax, parts, colours):
    ends = np.zeros(len(next(iter(parts.values()))))
    places = np.arange(len(ends))
    for colour, (name, lengths) in zip(colours, parts.items(), strict=True):
        ax.barh(places, lengths, 0.6, left=ends, color=colour, label=name)
        ends = ends + lengths
    for place, end in zip(places, ends, strict=True):
        text = f"{float(f'{end:.2g}'):g}"
        ax.text(end + ends.max() / 60, place, text, va="center", fontsize=10)
    ax.set_xlim(0, 1.14 * ends.max())
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    ax.legend(fontsize=10, loc="lower right")
