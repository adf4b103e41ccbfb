import json

import numpy as np
import pandas as pd
import pytest

from chapter18 import recorded
from recordings import accelerator

TABLE = pd.DataFrame([["a", 1.5, 0.9, 7, None], ["b", 2.0, 0.8, 8, 9]], columns=recorded.COLUMNS)
RECORD = recorded.Measurement("a chip", "2026-11-29", {"jax": "1.0"}, "a script", {"fused": TABLE})


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A package whose data folder is empty."""
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(recorded.resources, "files", lambda _: tmp_path)
    return tmp_path / "data"


def test_a_measurement_comes_back_as_it_was(shipped):
    (shipped / "measured_a_chip.json").write_text(recorded.dumps(RECORD), "utf-8")
    (shipped / "other.json").write_text("{}", "utf-8")
    (back,) = recorded.measurements()
    assert back._replace(tables=None) == RECORD._replace(tables=None)
    pd.testing.assert_frame_equal(back.tables["fused"], TABLE, check_dtype=False)
    text = recorded.figures("fused")
    assert text.startswith("a chip, 2026-11-29, jax 1.0 (a script)\n")
    assert "1.5" in text
    assert "No accelerator" in recorded.figures("training")


@pytest.mark.usefixtures("shipped")
def test_without_a_measurement_one_line_says_how_to_make_one():
    assert recorded.measurements() == []
    assert recorded.figures("fused").startswith("No accelerator has been measured yet")


def test_what_the_package_ships_was_measured_on_an_accelerator():
    for record in recorded.measurements():
        assert "CPU" not in record.hardware
        assert "--small" not in record.script
        assert set(record.tables) == set(accelerator.SETTINGS)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Every setting at a small size, measured in this process: rows by experiment and setting."""
    weights = tmp_path_factory.mktemp("weights") / "mlp.weights.h5"
    return {
        (experiment, setting): accelerator.measure_one(
            experiment, setting, accelerator.SMALL, weights
        )
        for experiment, settings in accelerator.SETTINGS.items()
        for setting in settings
    }


@pytest.mark.once
def test_every_setting_is_measured(rows):
    for (_, setting), row in rows.items():
        assert row[0] == setting
        assert row[1] > 0
        assert 0 < row[2] < 1


@pytest.mark.once
def test_bytes_are_those_of_the_parameters(rows):
    width = accelerator.SMALL["width"]
    parameters = 784 * width + width + width * width + width + width * 10 + 10
    held = {key: row[3] for key, row in rows.items()}
    for setting in ("float32", "mixed_bfloat16", "mixed_float16"):
        assert held["training", setting] == 4 * parameters
    assert held["training", "bfloat16"] == held["inference", "float16"] == 2 * parameters
    assert held["inference", "int4"] < held["inference", "int8"] < 2 * parameters


@pytest.mark.once
def test_fusing_changes_no_accuracy(rows):
    accuracies = {row[2] for (experiment, _), row in rows.items() if experiment == "fused"}
    assert len(accuracies) == 1


@pytest.mark.once
def test_the_script_measures_in_children_and_writes_a_record(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(accelerator, "SETTINGS", {"training": ("float32",)})
    path = accelerator.main(["--small", "--out", str(tmp_path)])
    record = json.loads(path.read_text("utf-8"))
    assert record["script"] == "recordings/accelerator.py --small"
    (row,) = record["tables"]["training"]
    assert row["setting"] == "float32"
    assert np.isfinite(row["seconds"])
    assert record["hardware"] in capsys.readouterr().out


def test_a_machine_without_an_accelerator_is_refused(monkeypatch):
    from chapter18.devices._counting import Accelerators

    nothing = Accelerators("none", 0)
    monkeypatch.setattr("chapter18.devices.count_accelerators", lambda: nothing)
    with pytest.raises(SystemExit, match=r"come from an accelerator. Received: .*Add --small"):
        accelerator.main([])
