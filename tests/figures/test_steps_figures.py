"""What the figures of section 5 draw: read back from the axes."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import same_color

from chapter18.figures import steps as figures


def points(ax):
    return [line.get_xydata().tolist() for line in ax.get_lines()]


def boxes(bars, colour):
    """The boxes of a row of bars, if they have this colour."""
    same = same_color(bars.get_facecolor(), colour)
    return [path.get_extents() for path in bars.get_paths()] if same else []


def test_the_fill_is_in_per_cent_and_marked_widths_have_their_number():
    (ax,) = figures.matrix_unit_fill({64: 0.5, 128: 1.0, 129: 0.504}, marked=(128,)).axes
    assert points(ax)[0] == [[64, 50], [128, 100], [129, pytest.approx(50.4)]]
    assert points(ax)[1:] == [[[128, 100]]]
    assert [text.get_text() for text in ax.texts] == ["128: 100%"]


def test_time_that_grows_with_the_batch_is_a_straight_line():
    table = pd.DataFrame({"milliseconds": [2.0, 3.0], "images": [16.0, 43.0]}, index=[32, 128])
    took, made = figures.step_costs(table).axes
    assert points(took) == [[[32, 2], [128, 3]], [[32, 2], [128, 8]]]
    assert points(made) == [[[32, 16], [128, 43]]]


@pytest.mark.parametrize(("steps", "group"), [(8, 4), (10, 4), (14, 3)])
def test_every_way_trains_every_step(steps, group):
    (ax,) = figures.step_timelines(steps, group).axes
    calls, trained = (
        [box for bars in ax.collections for box in boxes(bars, handle.get_color())]
        for handle in ax.get_legend().legend_handles
    )
    assert len(trained) == 3 * steps
    assert len(calls) == 2 * steps + steps // group + steps % group
    assert max(box.x1 for box in trained) < ax.get_xlim()[1]


def test_a_way_is_drawn_by_its_median_and_its_extremes():
    pairs = pd.MultiIndex.from_tuples([("fused", 1), ("fused", 8)])
    seconds = pd.DataFrame([[4.0, 1.0], [5.0, 3.0], [9.0, 2.0]], columns=pairs)
    (ax,) = figures.fusing_race(seconds, [7.0, 5.0, 6.0, 4.0]).axes
    plain, fused = ax.get_lines()
    assert set(plain.get_ydata()) == {5.5}
    assert fused.get_xydata().tolist() == [[1, 5], [8, 2]]
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    assert {tuple(corner) for corner in corners} == {(1, 4), (1, 9), (8, 1), (8, 3)}
    np.testing.assert_array_equal(ax.get_xticks(), [1, 8])
