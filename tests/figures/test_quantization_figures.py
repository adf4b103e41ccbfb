"""What the figures compute before they draw: read back from the axes."""

import numpy as np
import pandas as pd

from chapter18.figures import quantization as figures


def lines(ax):
    return [line.get_xydata() for line in ax.get_lines() if len(line.get_xydata())]


def test_a_grid_reaches_from_the_largest_magnitude_to_its_opposite():
    rows = {"plain": np.array([0.5, -1.4]), "outlier": np.array([0.5, 7.0])}
    (ax,) = figures.grids(rows, bits=3).axes
    first, values, second, _ = (points[:, 0] for points in lines(ax))
    np.testing.assert_allclose(first, 1.4 / 3 * np.arange(-3, 4))
    np.testing.assert_allclose(values, [0.5, -1.4])
    np.testing.assert_allclose(second, 7 / 3 * np.arange(-3, 4))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["plain", "outlier"]


def test_the_dotted_line_rises_six_decibels_a_bit():
    table = pd.DataFrame({"normal": [10.0, 15.0, 30.0]}, index=[2, 3, 5])
    (ax,) = figures.error_against_bits(table).axes
    measured, rising, _ = lines(ax)
    assert measured.tolist() == [[2, 10], [3, 15], [5, 30]]
    np.testing.assert_allclose(rising[:, 1], [10, 16.02, 28.06])


def test_each_layer_has_its_row_first_layer_on_top():
    table = pd.DataFrame({"path": ["a", "b"], "sqnr": [20.0, 30.0]})
    worse = pd.DataFrame({"path": ["a", "b"], "sqnr": [5.0, 6.0]})
    (ax,) = figures.layer_sensitivity({"int8": table, "int4": worse}).axes
    assert [points.tolist() for points in lines(ax)] == [[[20, 0], [30, 1]], [[5, 0], [6, 1]]]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert ax.yaxis_inverted()


def test_block_sizes_are_drawn_in_the_order_of_the_table():
    table = pd.DataFrame({"dB": [17.0, 20.0], "kilobytes": [250, 300]}, index=["all", 32])
    error, memory = figures.block_sizes(table).axes
    assert lines(error)[0].tolist() == [[0, 17], [1, 20]]
    assert [bar.get_height() for bar in memory.patches] == [250, 300]
    assert [label.get_text() for label in error.get_xticklabels()] == ["all", "32"]
