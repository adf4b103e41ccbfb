"""Whether a plan fits, and how fast it should be: by hand, on made-up devices and links."""

import numpy as np
import pandas as pd
import pytest

from chapter18 import planning
from chapter18.planning import Plan, PlannedArray, _hlo, _plan, hardware

GB = 10**9


def made(exact=4 * GB, temporaries=GB, *, platform="gpu", **changes):
    arrays = (
        PlannedArray("parameters", True, "dense/kernel", (exact // 4,), "float32", (), exact),
    )
    estimate = planning.Estimate("a compiler", platform, temporaries, flops=1e12, collectives=())
    plan = Plan(
        {"data": 1}, "data", "replicated", "float32", "float32", 32, exact // 4, arrays, estimate
    )
    return plan._replace(**changes)


A_GPU = hardware.Device("mine", "gpu", 16 * GB, 0.75, 100e12, 10e12, "a test")


@pytest.mark.parametrize(
    ("exact", "temporaries", "verdict"),
    [(4, 1, "yes"), (17, 0, "no"), (10, 8, "no"), (11, 2, "too close to call")],
)
def test_a_fit_is_yes_no_or_too_close(exact, temporaries, verdict):
    fit = made(exact * GB, temporaries * GB).fits(A_GPU)
    assert fit.verdict == verdict
    assert bool(fit) == (verdict == "yes")
    assert verdict in repr(fit)


def test_another_kinds_compiler_never_says_no_by_itself():
    plan = made(10 * GB, 8 * GB, platform="cpu")
    assert plan.fits(A_GPU).verdict == "too close to call"


def test_without_an_estimate_only_no_is_certain():
    assert made(estimate=None).fits(A_GPU).verdict == "too close to call"
    assert made(17 * GB, estimate=None).fits(A_GPU).verdict == "no"


def test_a_model_too_large_is_named_before_it_is_built():
    with pytest.raises(MemoryError, match=r"must fit the memory of its device.*dense/kernel"):
        made(17 * GB).require("T4")
    plan = made()
    assert plan.require("T4") is plan


A_LINK = hardware.Link("wire", 1e9, 1e-3, "a test")


def test_a_speed_up_is_the_formulas():
    plan = made(exact=GB)
    for n in (1, 2, 4, 8):
        one = 1e12 / (0.4 * 10e12)
        ring = 2 * (n - 1) * 1e-3 + 2 * (n - 1) / n * GB / 1e9
        predicted = planning.predict_speedup(plan, n, A_GPU, A_LINK)
        assert predicted.factor == pytest.approx(n * one / (one + ring), rel=0.05)
        assert predicted.factor == float(f"{predicted.factor:.2g}")
        assert "40% of 10 TFLOP/s" in repr(predicted)
        assert "1000 µs a message" in repr(predicted)


def test_a_perfect_link_gives_a_perfect_speed_up():
    link = hardware.Link("perfect", 1e30, 0, "a test")
    assert planning.predict_speedup(made(), 8, A_GPU, link).factor == 8


def test_a_step_is_computing_and_sending():
    messages = (
        _hlo.Collective("all-reduce", 1000, 4, 2),
        _hlo.Collective("all-gather", 1000, 4, 1),
    )
    plan = made(estimate=made().estimate._replace(collectives=messages))
    step = planning.predict_step(plan, device=A_GPU, link=A_LINK, efficiency=0.5)
    assert step.compute == pytest.approx(1e12 / 5e12)
    assert step.communication == pytest.approx((2 * 6 + 3) * 1e-3 + (2 * 1500 + 750) / 1e9)
    assert step.seconds == step.compute + step.communication


def test_16_bit_plans_use_the_16_bit_peak():
    step = planning.predict_step(made(compute_dtype="bfloat16"), device=A_GPU, link=A_LINK)
    assert step.compute == pytest.approx(1e12 / (0.4 * 100e12))


def test_plans_are_compared_in_a_table():
    table = planning.compare({"a": made(), "b": made(17 * GB)}, device=A_GPU, link=A_LINK)
    assert list(table.index) == ["a", "b"]
    assert list(table["fits"]) == ["yes", "no"]
    assert list(table["parameters (GB)"]) == [4, 17]


@pytest.mark.parametrize("n", [0, -1, 2.0, True])
def test_a_number_of_replicas_that_is_none_is_refused(n):
    with pytest.raises(ValueError, match="positive number of replicas"):
        planning.predict_speedup(made(), n, "T4", "PCIe 3")


def test_a_speed_up_starts_from_one_replica():
    with pytest.raises(ValueError, match="a plan of one replica"):
        planning.predict_speedup(made(mesh={"data": 2}), 2, "T4", "PCIe 3")


@pytest.mark.parametrize(
    "estimate", [None, planning.Estimate("TPU", "tpu", 1, refusal="needs more")]
)
def test_a_prediction_needs_a_compiled_step(estimate):
    with pytest.raises(ValueError, match="needs the FLOPs and collectives"):
        planning.predict_speedup(made(estimate=estimate), 2, "T4", "PCIe 3")


def test_unknown_hardware_lists_the_known():
    with pytest.raises(ValueError, match=r"hardware knows.*'T4'"):
        made().fits("T5")
    with pytest.raises(ValueError, match=r"hardware knows.*'NVLink 4'"):
        planning.predict_speedup(made(), 2, "T4", "string")


def test_every_device_and_link_has_its_source():
    for table in (hardware.devices_table(), hardware.links_table()):
        assert isinstance(table, pd.DataFrame)
        assert (table["source"].str.len() > 5).all()
        numbers = table.select_dtypes("number")
        assert (numbers > 0).all(axis=None)


def test_gigabytes_have_three_digits():
    assert [_plan.gigabytes(n) for n in (1_234_567_890, 12 * GB, 512 * GB)] == [
        "1.23",
        "12.0",
        "512",
    ]


# What devices send, read from programs written by hand.


def test_numpys_integers_count_replicas():
    predicted = planning.predict_speedup(made(), np.int64(8), A_GPU, A_LINK)
    assert predicted == planning.predict_speedup(made(), 8, A_GPU, A_LINK)
    assert type(predicted.n) is int
