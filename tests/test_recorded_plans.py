import json
import re

import pytest

from chapter18 import recorded
from chapter18.planning import Collective, Estimate, Plan, PlannedArray

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
