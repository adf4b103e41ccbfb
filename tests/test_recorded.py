import json
import re

import pandas as pd
import pytest

from chapter18 import recorded
from chapter18.planning import Collective, Estimate, Plan, PlannedArray
from recordings import accelerator

KERNEL = PlannedArray("parameters", True, "dense/kernel", (3, 4), "float32", (None, "model"), 24)
ESTIMATE = Estimate(
    "a compiler", "tpu", 7, flops=3.5, collectives=(Collective("all-reduce", 8, 2, 1),)
)
PLAN = Plan(
    mesh={"data": 1, "model": 2},
    data_axis="data",
    layout="columns",
    policy="float32",
    compute_dtype="float32",
    batch_size=16,
    parameters=12,
    arrays=(KERNEL,),
    estimate=ESTIMATE,
)
REFUSED = PLAN._replace(estimate=Estimate("a compiler", "tpu", 7, refusal="needs 9 GiB of 8 GiB"))


def test_a_recording_comes_back_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(recorded.resources, "files", lambda _: tmp_path)
    plans = {"full": PLAN, "refused": REFUSED, "exact": PLAN._replace(estimate=None)}
    recording = recorded.Recording(plans, "2026-11-29", {"jax": "1.0"}, "a script")
    (tmp_path / "data/some_plan.json").write_text(recorded.dumps(recording), "utf-8")
    assert recorded.plans("some_plan") == recording


def test_the_recording_of_section_5_is_whole():
    recording = recorded.plans("v5e_plan")
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", recording.date)
    assert {"keras", "jax", "libtpu"} <= set(recording.versions)
    assert set(recording.plans) == {"tiny", "wide"}
    for plan in recording.plans.values():
        assert plan.devices == 8
        assert plan.estimate.compiler.startswith("XLA for TPU v5")
    # 784 → 64 → 10, by hand: kernels and biases, then Adam's two slots and two counters.
    parameters = 4 * (784 * 64 + 64 + 64 * 10 + 10)
    assert recording.plans["tiny"].parameter_bytes == parameters
    assert recording.plans["tiny"].optimizer_bytes == 2 * parameters + 8
    assert json.loads(recorded.dumps(recording))["script"].startswith("recordings/")


def test_the_recording_of_section_7_is_whole():
    recording = recorded.plans("mixed_v5e_plan")
    assert {"keras", "jax", "libtpu"} <= set(recording.versions)
    assert set(recording.plans) == {"float32", "mixed_bfloat16", "mixed_float16"}
    # 784 → 2048 → 2048 → 2048 → 10, by hand; the weights are float32 under every policy.
    parameters = 785 * 2048 + 2 * 2049 * 2048 + 2049 * 10
    for name, plan in recording.plans.items():
        assert plan.policy == name
        assert plan.parameter_bytes == 4 * parameters
        assert plan.estimate.compiler.startswith("XLA for TPU v5")


def test_an_unknown_recording_is_refused_with_those_there_are():
    known = r"\['mixed_v5e_plan', 'v5e_plan'\]"
    with pytest.raises(ValueError, match=f"Received: 'v9_plan'. There are {known}"):
        recorded.plans("v9_plan")


def test_every_ready_made_space_is_told_with_its_verdict():
    text = recorded.spaces()
    assert re.match(r"recorded \d{4}-\d\d-\d\d on CPU .*'keras-tuner': ", text)
    assert re.search(r"^HyperResNet +trains$", text, re.MULTILINE)
    assert re.search(
        r"^HyperEfficientNet +fails in build\n     URL fetch failure", text, re.MULTILINE
    )


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
