"""What the figures of section 3 draw: read back from the axes."""

from types import SimpleNamespace

import pandas as pd
import pytest

from chapter18.figures import batching as figures


def texts(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def points(ax):
    return [line.get_xydata().tolist() for line in ax.get_lines()]


def test_the_loop_has_three_boxes_and_the_arrows_between_them():
    (ax,) = figures.loop_of_progress().axes
    assert {"idea", "experiment", "results"} < set(texts(ax))
    assert len(ax.patches) == len(ax.texts) - len(texts(ax)) == 3


def test_each_device_has_its_half_of_the_batch_or_of_the_model():
    batch, model = figures.two_splits().axes
    for device in (0, 1):
        assert f"half {device}\nof the batch" in texts(batch)
        assert f"half {device}\nof the model" in texts(model)
    assert [
        texts(ax).count(whole) for ax, whole in ((batch, "whole\nmodel"), (model, "whole\nbatch"))
    ] == [2, 2]
    assert ("gradients" in texts(batch), "activations" in texts(model)) == (True, True)


def test_speed_and_memory_stand_over_the_batch_size():
    table = pd.DataFrame({"megabytes": [3.0, 5.0], "images a second": [10.0, 20.0]}, [32, 1024])
    speed, memory = figures.batch_cost(table).axes
    assert points(speed) == [[[32, 10], [1024, 20]]]
    assert points(memory) == [[[32, 3], [1024, 5]]]
    assert [label.get_text() for label in speed.get_xticklabels()] == ["32", "1,024"]


def test_a_rule_is_the_mean_of_its_seeds_and_every_size_has_its_tick():
    pairs = pd.MultiIndex.from_tuples([("fixed", 32), ("fixed", 64), ("scaled", 32)])
    table = pd.DataFrame([[0.2, 0.4], [0.4, 0.8], [0.6, 0.6]], index=pairs)
    (ax,) = figures.large_batches(table).axes
    fixed, scaled = points(ax)
    assert fixed == [[32, pytest.approx(0.3)], [64, pytest.approx(0.6)]]
    assert scaled == [[32, 0.6]]
    assert ax.get_xticks().tolist() == [32, 64]


def test_a_bar_is_as_long_as_the_pipeline_took():
    found = {
        "slow": SimpleNamespace(repeated_seconds=1.0, pipeline_seconds=4.0, share=0.75, steps=9)
    }
    (ax,) = figures.waiting(found).axes
    trained, waited = ax.patches
    assert (trained.get_width(), waited.get_x(), waited.get_width()) == (1, 1, 3)
    assert texts(ax) == ["  75%"]
    assert ax.get_xlabel() == "seconds of 9 steps"


def test_the_ideal_grows_with_the_devices():
    table = pd.DataFrame({"measured": [1.0, 1.5, 2.0]}, index=[1, 2, 4])
    (ax,) = figures.speedups(table).axes
    assert points(ax) == [[[1, 1], [2, 2], [4, 4]], [[1, 1], [2, 1.5], [4, 2]]]
