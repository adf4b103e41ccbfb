"""The recorder of an accelerator's figures, tried small on a CPU."""

import json

import numpy as np
import pytest

from recordings import accelerator


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
