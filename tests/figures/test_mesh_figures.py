"""What the figures of section 4 draw: read back from the axes."""

from types import SimpleNamespace
from typing import NamedTuple

import jax
import numpy as np
import pandas as pd
import pytest

from chapter18 import mesh
from chapter18.figures import mesh as figures


def texts(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def corners(ax):
    return [(box.get_x(), box.get_y(), box.get_width(), box.get_height()) for box in ax.patches]


def test_every_part_of_every_layer_has_the_colour_of_its_device():
    horizontal, vertical = figures.two_cuts().axes
    for ax in (horizontal, vertical):
        filled = [box for box in ax.patches if box.get_fill()]
        assert len(filled) == 2 * 3
        assert len({box.get_facecolor() for box in filled}) == 2
        assert texts(ax) == ["layer 1", "layer 2", "layer 3", "device 0", "device 1"]


def test_a_matrix_in_two_halves_covers_the_whole():
    columns, rows = figures.two_halves().axes
    for ax, how in ((columns, "concatenated"), (rows, "added")):
        assert ax.get_title().endswith(f"outputs are {how}")
        assert texts(ax) == ["inputs", "kernel", "outputs", *["+"] * (ax is rows), "×", "="]
        kernel = [box for box in corners(ax) if 3 < box[0] < 6]
        assert sum(width * height for *_, width, height in kernel) == pytest.approx(2.2 * 2.4)


def test_meshes_show_the_number_of_each_device_in_its_place():
    devices = [f"cpu:{number}" for number in (3, 1, 0, 2, 4, 5, 7, 6)]
    line = mesh.make_mesh(data=8, devices=devices)
    grid = mesh.make_mesh(data=2, model=4, devices=devices)
    (alone,) = figures.meshes({"alone": line}).axes
    assert texts(alone) == list("31024576")
    first, second = figures.meshes({"line": line, "grid": grid}).axes
    assert [ax.get_title() for ax in (first, second)] == ["line", "grid"]
    places = {text.get_position(): text.get_text() for text in second.texts}
    assert places == {(i % 4, i // 4): number for i, number in enumerate("31024576")}
    assert (second.get_xlabel(), second.get_ylabel()) == ("model", "data")


class DeviceNumber(NamedTuple):
    id: int


def spread(shape, parts):
    """What `shards` asks of an array of which each device holds some columns."""
    width = shape[1] // parts
    index = {
        DeviceNumber(i): (slice(None), slice(i % parts * width, (i % parts + 1) * width))
        for i in range(8)
    }
    sharding = SimpleNamespace(devices_indices_map=lambda _: index)
    return SimpleNamespace(shape=shape, sharding=sharding)


def test_parts_cover_the_kernel_and_name_their_devices():
    whole = jax.numpy.ones((2, 16))
    named = {"whole": [whole], "four": [spread((2, 16), 4)], "eight": [spread((2, 16), 8)]}
    one, four, eight = figures.shards(named).axes
    assert texts(one) == [str(jax.devices()[0].id)]
    assert corners(one) == [(0, 0, 16, 2)]
    assert texts(four) == ["0, 4", "1, 5", "2, 6", "3, 7"]
    assert corners(four) == [(4 * i, 0, 4, 2) for i in range(4)]
    assert texts(eight) == list("01234567")
    (alone,) = figures.shards({"whole": [whole]}).axes
    assert (alone.get_title(), alone.get_ylabel()) == ("whole", "2 × 16")


def test_bars_end_at_the_sum_of_their_parts():
    parts = ("parameters", "optimizer", "temporaries")
    values = {f"{part} (GB)": [1.0 + i, 3.0] for i, part in enumerate(parts)}
    table = pd.DataFrame(values, index=["fsdp", "megatron"])
    steps = {
        "megatron": SimpleNamespace(compute=0.003, communication=0.0),
        "fsdp": SimpleNamespace(compute=0.001, communication=0.004),
    }
    memory, times = figures.layouts_compared(table, steps, 8e9).axes
    ends = [[box.get_x() + box.get_width() for box in ax.patches] for ax in (memory, times)]
    np.testing.assert_allclose(ends[0], [1, 3, 3, 6, 6, 9])
    np.testing.assert_allclose(ends[1], [1, 3, 5, 3])
    assert set(memory.get_lines()[0].get_xdata()) == {8}
    assert texts(memory) == ["6", "9"]
    assert [label.get_text() for label in memory.get_yticklabels()] == ["fsdp", "megatron"]
