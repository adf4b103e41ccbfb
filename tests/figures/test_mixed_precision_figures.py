"""What the figures of section 7 compute before they draw: read back from the axes."""

import numpy as np
import pandas as pd

from chapter18.figures import mixed_precision as figures


def test_shares_of_lost_entries_stand_over_powers_of_two():
    counts = {"entries": [200, 200], "lost": [50, 4], "not finite": [0, 20]}
    table = pd.DataFrame(counts, index=pd.Index([1.0, 1024.0], name="scale"))
    lost, overflowed = figures.vanishing({"mixed_float16": table}).axes
    np.testing.assert_array_equal(lost.get_lines()[0].get_xydata(), [[0, 25], [10, 2]])
    np.testing.assert_array_equal(overflowed.get_lines()[0].get_xydata(), [[0, 0], [10, 10]])


def test_a_scale_of_zero_is_drawn_below_all_others_and_skipped_looks_are_crossed():
    trace = pd.DataFrame({"step": [0, 25, 50], "scale": [8.0, 2.0**-149, 0.0]})
    trace["skipped"] = [0, 0, 22]
    (ax,) = figures.scale_traces({"found": trace}, floor=1.0).axes
    line, crosses, floor = ax.get_lines()
    heights = line.get_ydata()
    assert heights[0] == 3
    assert heights[2] < heights[1] == -149
    np.testing.assert_array_equal(crosses.get_xdata(), [50])
    assert set(floor.get_ydata()) == {0}
