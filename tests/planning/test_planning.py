import importlib.util
import json
import subprocess
import sys
import threading

import jax
import numpy as np
import planned_models
import pytest
from child import all_end, run_child

from chapter18 import planning
from chapter18._shared import elsewhere
from chapter18.planning import hardware

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
from chapter18.processes import peak_bytes
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
