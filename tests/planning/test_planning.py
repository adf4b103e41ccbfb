import importlib.util
import json
import subprocess
import sys
import threading

import jax
import numpy as np
import pandas as pd
import planned_models
import pytest
from child import all_end, run_child

from chapter18 import planning
from chapter18._shared import elsewhere
from chapter18.planning import _hlo, _plan, _speedup, hardware
from chapter18.planning._plan import Plan
from chapter18.planning._step import PlannedArray

GB = 10**9
BOOK = 16_000 * 64_000 + 64_000 + 64_000 * 8_000 + 8_000


@pytest.fixture(scope="module")
def seen():
    """What one child process with eight devices saw, by scenario."""
    return json.loads(run_child("planning_scenarios.py", timeout=600).splitlines()[-1])


def test_planned_bytes_are_those_of_the_real_shards(seen):
    cases = seen["exact"]
    assert len(cases) == 6 * 3 * 3
    wrong = [case for case in cases if case[3] != case[4]]
    assert wrong == []


def test_planned_bytes_are_those_of_a_model_that_fit_has_trained(seen):
    planned, real = seen["after_fit"]
    assert planned == real


def test_a_plan_leaves_no_trace(seen):
    seen = seen["trace"]
    assert seen["after"] == seen["before"]
    assert seen["after_error"] == seen["before"]
    assert seen["later"] == seen["before"]
    assert "nothing" in seen["refused"]
    assert seen["next_name"] == "dense_1"
    assert seen["same_distribution"]
    assert not seen["optimizer_built"]


def test_the_estimate_counts_what_a_hand_counts(seen):
    seen = seen["estimates"]
    # Megatron on 2 × 4: the second layer's sum over "model", then all gradients and the loss (and
    # nothing else) over "data".
    activations = (16 // 2) * 8 * 4
    assert seen["dense"] == [
        ["all-reduce", activations, 4, 1],
        ["all-reduce", seen["dense_gradients"] + 4, 2, 1],
    ]
    lstm = 2 * 8 * (8 + 16) * 64 * 6 * 2
    gru = 2 * 8 * (32 + 16) * 48 * 6
    forward = lstm + gru + 2 * 8 * 16 * 8
    assert seen["looped_flops"] == pytest.approx(3 * forward, rel=0.05)
    assert "exact" in seen["text"]
    assert f"estimate, {seen['compiler']}" in seen["text"]


BIG = """
import planned_models
from benchmarks.memory import peak_bytes
from chapter18 import mesh, planning
plan = planning.plan(
    planned_models.book, mesh=mesh.make_mesh(data=2, model=4), layout="columns", batch_size=256
)
print(plan.parameters, plan.parameter_bytes, plan.optimizer_bytes, peak_bytes())
"""


def test_the_large_model_is_planned_in_little_memory_and_split_to_the_byte():
    # As users compile: an XLA that optimizes little takes a gigabyte more itself. The
    # process that starts it is large: its memory must not count.
    ballast = np.ones(100_000_000)
    printed = run_child(BIG, env={"JAX_DISABLE_MOST_OPTIMIZATIONS": "0"})
    del ballast
    parameters, kernel_bytes, slots, peak = map(int, printed.split())
    assert parameters == BOOK == 1_536_072_000
    assert kernel_bytes == 4 * BOOK // 4
    assert slots == 2 * 4 * BOOK // 4 + 8  # two slots each; the iteration and the learning rate
    assert peak < 700e6


def test_512_devices_are_planned_from_a_process_that_has_one():
    plan = planning.plan(
        planned_models.book, mesh={"data": 64, "model": 8}, layout="columns", batch_size=1024
    )
    assert plan.devices == 512
    assert plan.parameter_bytes == 4 * BOOK // 8
    assert plan.input_bytes == 4 * (1024 // 64) * (16_000 + 8_000)
    assert plan.estimate.temporaries > 0


ASLEEP = """
import planned_models
from chapter18 import devices, planning
plan = planning.plan(planned_models.small, mesh={"data": 2}, batch_size=4, loss="mae")
print(plan.devices, len(devices.use(3)))
"""


def test_a_plan_leaves_jax_asleep():
    assert run_child(ASLEEP, devices=0).split() == ["2", "3"]


def test_a_function_made_here_travels_and_so_does_its_error():
    width = 16

    def build():
        import keras

        return keras.Sequential([keras.Input((4,)), keras.layers.Dense(width)])

    plan = planning.plan(build, mesh={"model": 2}, layout="columns", batch_size=4, estimate=False)
    assert plan.mesh == {"data": 1, "model": 2}
    assert plan.parameter_bytes == 4 * (4 * 16 + 16) // 2
    assert plan.estimate is None
    with pytest.raises(ValueError, match="must match the whole path"):
        planning.plan(build, mesh={"model": 2}, layout={"no": (None,)}, batch_size=4)


def test_what_cannot_travel_is_refused():
    lock = threading.Lock()

    def build():
        return lock

    with pytest.raises(TypeError, match="able to travel there by cloudpickle"):
        planning.plan(build, mesh={"data": 2}, batch_size=4)


def test_an_error_that_cannot_travel_arrives_as_text():
    def build():
        class Narrow(Exception):
            """Known to its own process only."""

        raise Narrow("eight units are too few")

    with pytest.raises(RuntimeError, match="Narrow: eight units are too few"):
        planning.plan(build, mesh={"data": 2}, batch_size=4)


def test_what_a_child_has_started_ends_with_it():
    def start():
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"]).pid

    assert all_end([elsewhere.call(start, devices=1, timeout=60)])


def test_a_child_that_is_too_slow_is_ended():
    with pytest.raises(TimeoutError, match="must finish in time"):
        planning.plan(planned_models.slow, mesh={"data": 2}, batch_size=4, timeout=0.5)


def test_a_child_that_dies_is_reported():
    with pytest.raises(
        RuntimeError, match=r"(?s)must give an answer\. Received: none, exit code 3.*Mend"
    ):
        planning.plan(planned_models.dies, mesh={"data": 2}, batch_size=4)


@pytest.mark.parametrize("mesh", [{"data": 0}, {"data": True}, {"data": 2.0}, (2, 4), "2x4"])
def test_a_mesh_that_is_none_is_refused(mesh):
    with pytest.raises(ValueError, match="axis names with positive sizes"):
        planning.plan(planned_models.small, mesh=mesh, batch_size=8)


@pytest.mark.parametrize("batch_size", [9, 0, -8, 8.0, None, np.int64(9)])
def test_a_batch_that_does_not_divide_is_refused(batch_size):
    with pytest.raises(ValueError, match="must divide by the data axis"):
        planning.plan(planned_models.small, mesh={"data": 8}, batch_size=batch_size)


def test_a_mesh_without_the_data_axis_is_refused():
    import keras

    grid = keras.distribution.DeviceMesh((1,), ["model"], ["cpu:0"])
    with pytest.raises(ValueError, match="split along an axis of the mesh"):
        planning.plan(planned_models.small, mesh=grid, batch_size=8)


def test_an_open_length_needs_a_sample():
    jax.devices()  # awake with a device, so that these are planned here
    with pytest.raises(ValueError, match="needs the length of every axis"):
        planning.plan(planned_models.open_length, mesh={"data": 1}, batch_size=8)
    sample = np.zeros((1, 5, 8))
    plan = planning.plan(
        planned_models.open_length, mesh={"data": 1}, batch_size=8, sample=sample, estimate=False
    )
    assert plan.input_bytes == 8 * 5 * 8 * 4 + 8 * 4 * 4


def test_a_sample_without_shapes_is_refused():
    with pytest.raises(TypeError, match="A sample is a batch of arrays"):
        planning.plan(planned_models.small, mesh={"data": 1}, batch_size=8, sample=24)


@pytest.mark.parametrize(
    ("target", "received"),
    [
        ("v5e", "which is no slice"),
        ("v5e:2x2", "which has 4 devices"),
        ("v5e:8", "which is no slice"),
        ("2x4", "which is no slice"),
    ],
)
def test_a_target_of_another_size_is_refused(target, received):
    with pytest.raises(ValueError, match=f"as many devices as the mesh.*{received}, for a mesh"):
        planning.plan(
            planned_models.small, mesh={"data": 2, "model": 4}, batch_size=8, target=target
        )


def test_a_target_without_its_compiler_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install 'chapter18\[tpu-plan\]'"):
        planning.plan(planned_models.small, mesh={"data": 8}, batch_size=8, target="v5e:2x4")


@pytest.mark.skipif(not importlib.util.find_spec("libtpu"), reason="the extra tpu-plan")
def test_a_tpu_is_compiled_for_without_one():
    common = {"mesh": {"data": 2, "model": 4}, "target": "v5e:2x4"}
    small = planning.plan(planned_models.small, layout="megatron", batch_size=16, **common)
    assert "libtpu" in small.estimate.compiler
    assert small.estimate.platform == "tpu"
    kinds = [(c.kind, c.devices) for c in small.estimate.collectives]
    assert ("all-reduce", 4) in kinds
    assert ("all-reduce", 2) in kinds
    assert small.fits("v5e").verdict == "yes"

    large = planning.plan(planned_models.book, layout="replicated", batch_size=64, **common)
    assert large.estimate.refusal
    assert "refuses" in repr(large)
    assert large.fits("v5e").verdict == "no"


# Verdicts, with plans made by hand.


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


def test_the_smallest_mesh_that_fits():
    # 24 × 32 + 32 × 8 + 40 weights, float32, with two Adam slots: about 13 kB on one device.
    device = hardware.Device("tiny", "cpu", 12_000, 1.0, 1e12, 1e12, "a test")
    found = planning.smallest_mesh(planned_models.small, device=device, batch_size=8, max_devices=4)
    verdicts = dict(zip(found.tried["mesh"], found.tried["fits"], strict=True))
    assert verdicts["data=1 × model=1"] == "no"
    assert verdicts[" × ".join(f"{k}={v}" for k, v in found.plan.mesh.items())] == "yes"
    assert list(verdicts.values()).count("yes") == 1
    assert found.plan.mesh["model"] > 1
    assert "data=1 × model=1" in repr(found)


def test_no_mesh_may_fit():
    device = hardware.Device("tiny", "cpu", 100, 1.0, 1e12, 1e12, "a test")
    found = planning.smallest_mesh(planned_models.small, device=device, batch_size=8, max_devices=2)
    assert found.plan is None
    assert "none of these meshes fits" in repr(found)


def test_a_mesh_on_which_the_layout_does_not_divide_is_passed_over(seen):
    verdicts, found = seen["passed_over"]
    assert verdicts == {
        "data=1 × model=1": "no",
        "data=2 × model=1": "no",
        "data=1 × model=2": "no",
        "data=4 × model=1": "no",
        "data=2 × model=2": "no",
        "data=1 × model=4": "the layout does not divide",
    }
    assert found is None


def test_a_layout_that_no_mesh_can_have_is_refused():
    with pytest.raises(ValueError, match="must match the whole path"):
        planning.smallest_mesh(
            planned_models.small,
            device="T4",
            batch_size=8,
            max_devices=2,
            layout={"dense": (None, "model")},
        )


# Predictions, beside the formula.

A_LINK = hardware.Link("wire", 1e9, 1e-3, "a test")


def test_a_speed_up_is_the_formulas():
    plan = made(exact=GB)
    for n in (1, 2, 4, 8):
        one = 1e12 / (0.4 * 10e12)
        ring = 2 * (n - 1) * 1e-3 + 2 * (n - 1) / n * GB / 1e9
        predicted = _speedup.predict_speedup(plan, n, A_GPU, A_LINK)
        assert predicted.factor == pytest.approx(n * one / (one + ring), rel=0.05)
        assert predicted.factor == float(f"{predicted.factor:.2g}")
        assert "40% of 10 TFLOP/s" in repr(predicted)
        assert "1000 µs a message" in repr(predicted)


def test_a_perfect_link_gives_a_perfect_speed_up():
    link = hardware.Link("perfect", 1e30, 0, "a test")
    assert _speedup.predict_speedup(made(), 8, A_GPU, link).factor == 8


def test_a_step_is_computing_and_sending():
    messages = (
        _hlo.Collective("all-reduce", 1000, 4, 2),
        _hlo.Collective("all-gather", 1000, 4, 1),
    )
    plan = made(estimate=made().estimate._replace(collectives=messages))
    step = _speedup.predict_step(plan, device=A_GPU, link=A_LINK, efficiency=0.5)
    assert step.compute == pytest.approx(1e12 / 5e12)
    assert step.communication == pytest.approx((2 * 6 + 3) * 1e-3 + (2 * 1500 + 750) / 1e9)
    assert step.seconds == step.compute + step.communication


def test_16_bit_plans_use_the_16_bit_peak():
    step = _speedup.predict_step(made(compute_dtype="bfloat16"), device=A_GPU, link=A_LINK)
    assert step.compute == pytest.approx(1e12 / (0.4 * 100e12))


def test_plans_are_compared_in_a_table():
    table = _speedup.compare({"a": made(), "b": made(17 * GB)}, device=A_GPU, link=A_LINK)
    assert list(table.index) == ["a", "b"]
    assert list(table["fits"]) == ["yes", "no"]
    assert list(table["parameters (GB)"]) == [4, 17]


@pytest.mark.parametrize("n", [0, -1, 2.0, True])
def test_a_number_of_replicas_that_is_none_is_refused(n):
    with pytest.raises(ValueError, match="positive number of replicas"):
        _speedup.predict_speedup(made(), n, "T4", "PCIe 3")


def test_a_speed_up_starts_from_one_replica():
    with pytest.raises(ValueError, match="a plan of one replica"):
        _speedup.predict_speedup(made(mesh={"data": 2}), 2, "T4", "PCIe 3")


@pytest.mark.parametrize(
    "estimate", [None, planning.Estimate("TPU", "tpu", 1, refusal="needs more")]
)
def test_a_prediction_needs_a_compiled_step(estimate):
    with pytest.raises(ValueError, match="needs the FLOPs and collectives"):
        _speedup.predict_speedup(made(estimate=estimate), 2, "T4", "PCIe 3")


def test_unknown_hardware_lists_the_known():
    with pytest.raises(ValueError, match=r"hardware knows.*'T4'"):
        made().fits("T5")
    with pytest.raises(ValueError, match=r"hardware knows.*'NVLink 4'"):
        _speedup.predict_speedup(made(), 2, "T4", "string")


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

PROGRAM = """\
HloModule jit_step, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%a, %b)
}

%below (p: (s32[], f32[8])) -> pred[] {
  %limit = s32[] constant(5)
  %i = s32[] get-tuple-element(%p), index=0
  ROOT %lt = pred[] compare(%i, %limit), direction=LT
}

%body (p.1: (s32[], f32[8])) -> (s32[], f32[8]) {
  %ar = f32[8]{0} all-reduce(%x), channel_id=1, replica_groups=[2,4]<=[8], to_apply=%add
  %inner = (s32[], f32[8]) while(%t), condition=%below.2, body=%twice, %KNOWN%
}

%twice (p.2: (s32[], f32[8])) -> (s32[], f32[8]) {
  %cp = (f32[4]{0}, f32[4]{0}, u32[], u32[]) collective-permute-start(%y), channel_id=2
  %done = f32[4]{0} collective-permute-done(%cp)
}

%copy.1 (p.3: bf16[2]) -> bf16[16] {
  %ag = bf16[16]{0} all-gather(%p.3), channel_id=3, replica_groups={{0,1,2,3,4,5,6,7}}
}

%copy.2 (p.4: bf16[2]) -> bf16[16] {
  %ag.1 = bf16[16]{0} all-gather(%p.4), channel_id=3, replica_groups={{0,1,2,3,4,5,6,7}}
}

ENTRY %main (p.5: f32[8]) -> f32[8] {
  %loop = (s32[], f32[8]) while(%t.0), condition=%below, body=%body
  %f = bf16[16] fusion(%p.5), calls=%copy.1
  %g = bf16[16] fusion(%p.5), calls=%copy.2
  %rs = f32[2]{0} reduce-scatter(%z), channel_id=4, replica_groups=[2,4]<=[8], to_apply=%add
  %aa = (s8[4]{0}, /*index=1*/s8[4]{0}) all-to-all(%u, %v), channel_id=5, replica_groups=[4,2]<=[8]
  %alone = f32[9]{0} all-reduce(%w), channel_id=6, replica_groups=[8,1]<=[8], to_apply=%add
  ROOT %r = f32[8] copy(%loop)
}
""".replace("%KNOWN%", 'backend_config={"known_trip_count":{"n":"2"}}')


def test_collectives_are_read_from_a_program():
    found = {c.kind: c for c in _hlo.find(PROGRAM, 8)}
    assert found["all-reduce"] == ("all-reduce", 32, 4, 5)
    assert found["collective-permute"] == ("collective-permute", 16, 8, 10)
    assert found["all-gather"] == ("all-gather", 32, 8, 1)
    assert found["reduce-scatter"] == ("reduce-scatter", 32, 4, 1)
    assert found["all-to-all"] == ("all-to-all", 8, 2, 1)
    assert len(found) == 5


@pytest.mark.parametrize(
    ("groups", "devices"),
    [
        ("[2,4]<=[8]", 4),
        ("{{0,1},{2,3},{4,5},{6,7}}", 2),
        ("{}", 8),
        ("mesh['data'=2,'model'=4] {'model'}", 4),
        ("mesh['data'=2,'model'=4] {'data','model'}", 8),
        ("mesh['data'=2,'model'=4] {'model':(1)2}", 2),
    ],
)
def test_every_way_to_write_a_ring_is_read(groups, devices):
    line = f"  %a = f32[2]{{0}} all-reduce(%x), replica_groups={groups}, to_apply=%add"
    (found,) = _hlo.find(line, 8)
    assert found.devices == devices


def test_what_a_ring_sends():
    sent = {c.kind: c.sent for c in _hlo.find(PROGRAM, 8)}
    assert sent == {
        "all-reduce": 5 * 2 * 3 * 32 // 4,
        "collective-permute": 10 * 16,
        "all-gather": 7 * 32 // 8,
        "reduce-scatter": 3 * 32 // 4,
        "all-to-all": 4,
    }


# What a compiler says that refuses.

TOO_LARGE = """\
RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 23.04G of 15.75G hbm.
Total hbm usage >= 23.30G:
    reserved        258.00M
    program           5.50G
    arguments        17.55G
"""


@pytest.fixture
def refusing(monkeypatch):
    """Plans a small model here, where the compiler says what it is told to."""
    jax.devices()  # awake with a device, so that the plan is made here

    def plan(message):
        def compile(_):
            raise jax.errors.JaxRuntimeError(message)

        monkeypatch.setattr(jax.stages.Lowered, "compile", compile)
        return planning.plan(planned_models.small, mesh={"data": 1}, batch_size=8)

    return plan


def test_a_step_that_the_compiler_finds_too_large_is_a_plan_that_says_so(refusing):
    plan = refusing(TOO_LARGE)
    assert plan.estimate.refusal == "needs 23.04 GiB of 15.75 GiB"
    assert plan.estimate.temporaries == int(5.5 * 2**30)
    assert plan.estimate.collective_bytes is None
    assert plan.parameter_bytes == 4 * (24 * 32 + 32 + 32 * 8 + 8)
    assert "the compiler refuses: it needs 23.04 GiB" in repr(plan)


def test_a_compiler_that_fails_otherwise_is_quoted(refusing):
    with pytest.raises(RuntimeError, match=r"could not compile the step.*Mosaic.*estimate=False"):
        refusing("INTERNAL: Mosaic failed")


@pytest.mark.parametrize(
    "wrong", [{"batch_size": None}, {"batch_size": 0}, {"batch_size": 8.0}, {"max_devices": 0}]
)
def test_a_search_counts_in_positive_integers(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=rf"positive integers\. Received: {name}={value!r}\. Pass"):
        planning.smallest_mesh(planned_models.small, device="T4", **{"batch_size": 8} | wrong)


def test_numpys_integers_are_integers():
    jax.devices()  # awake with a device, so that these are planned here
    n = np.int64
    plain = planning.plan(planned_models.small, mesh={"data": 1}, batch_size=8, estimate=False)
    same = planning.plan(planned_models.small, mesh={"data": n(1)}, batch_size=n(8), estimate=False)
    assert same == plain
    assert {type(same.batch_size), *map(type, same.mesh.values())} == {int}
    device = hardware.Device("tiny", "cpu", 100, 1.0, 1e12, 1e12, "a test")
    found = planning.smallest_mesh(
        planned_models.small, device=device, batch_size=n(8), max_devices=n(1)
    )
    assert found.plan is None
    predicted = _speedup.predict_speedup(made(), n(8), A_GPU, A_LINK)
    assert predicted == _speedup.predict_speedup(made(), 8, A_GPU, A_LINK)
    assert type(predicted.n) is int


def nested():
    import keras

    a, b = keras.Input((4,), name="left"), keras.Input((6,), name="right")
    joined = keras.layers.Concatenate()([keras.layers.Dense(2)(a), b])
    outputs = {"one": keras.layers.Dense(3)(joined), "two": keras.layers.Dense(5)(joined)}
    return keras.Model({"right": b, "pair": [a]}, outputs)


def test_batches_may_be_nested():
    jax.devices()
    sample = {"right": np.zeros((2, 6)), "pair": [np.zeros((2, 4))]}
    targets = {"one": np.zeros((2, 3)), "two": np.zeros((2, 5))}
    common = {"mesh": {"data": 1}, "batch_size": 8, "estimate": False}
    losses = {"loss": {"one": "mse", "two": "mae"}, "metrics": {"one": ["mae"], "two": ["mse"]}}
    expected = 4 * 8 * (4 + 6 + 3 + 5)
    assert planning.plan(nested, **common, **losses).input_bytes == expected
    assert planning.plan(nested, **common, **losses, sample=sample).input_bytes == expected
    full = planning.plan(nested, **common, **losses, sample=sample, targets=targets)
    assert full.input_bytes == expected
