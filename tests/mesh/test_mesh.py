"""Meshes, rules, schemes and models built into them; the work of eight devices is in a child."""

import concurrent.futures
import gc
import json
import re

import jax
import keras
import numpy as np
import pytest
from child import run_child
from sharded_models import Block, batch, mlp

from chapter18 import mesh, processes
from chapter18._shared import abstract
from chapter18._shared.children import free_port
from chapter18.mesh import _layouts

DEVICES = [f"cpu:{i}" for i in range(8)]  # names only: what is refused never reaches a device
LAYOUTS = ("columns", "megatron", "fsdp", "replicated")


@pytest.fixture(scope="module")
def seen():
    return json.loads(run_child("mesh_scenario.py", timeout=600))


@pytest.fixture
def eight():
    return mesh.make_mesh(data=2, model=4, devices=DEVICES)


def resolve(build, layout, on):
    return abstract.build(build, batch(build)[0], lambda model: _layouts.resolve(model, on, layout))


def chosen(specs):
    return {path: spec for path, spec in specs.items() if any(spec)}


# Meshes


def test_a_mesh_keeps_the_order_of_its_axes(eight):
    assert eight.axis_names == ["data", "model"]
    assert eight.devices.tolist() == [DEVICES[:4], DEVICES[4:]]


def test_a_lone_model_axis_gets_a_data_axis_of_one():
    alone = mesh.make_mesh(model=8, devices=DEVICES)
    assert (alone.axis_names, alone.shape) == (["data", "model"], (1, 8))
    other = mesh.make_mesh(batch=2, model=4, devices=DEVICES)
    assert (other.axis_names, other.shape) == (["batch", "model"], (2, 4))


@pytest.mark.parametrize("size", [0, -1, 2.0, True, "2"])
def test_a_mesh_axis_is_a_positive_integer(size):
    with pytest.raises(ValueError, match=r"positive integer\. Received: model="):
        mesh.make_mesh(model=size, devices=DEVICES)


def test_a_mesh_has_an_axis():
    with pytest.raises(ValueError, match=r"at least one axis\. Received: none"):
        mesh.make_mesh(devices=DEVICES)


def test_a_mesh_uses_every_device(seen):
    with pytest.raises(ValueError, match=r"Received: data=2 × model=2 for 8 devices"):
        mesh.make_mesh(data=2, model=2, devices=DEVICES)
    assert "Received: data=4 × model=4 for 8 devices" in seen["rules"]["too_many"]


# Rules


def test_rules_give_specs_and_the_rest_is_replicated(eight):
    specs = resolve(mlp, {".*dense/kernel": (None, "model"), r".*dense_\d/bias": ["model"]}, eight)
    assert chosen(specs) == {
        "sequential/dense/kernel": (None, "model"),
        "sequential/dense_1/bias": ("model",),
    }
    assert specs["sequential/dense/bias"] == (None,)


REFUSED = {
    "matches nothing": (
        {"dense_7/kernel": (None, "model")},
        r"'dense_7/kernel', which matches none.*near",
    ),
    "matches a part": (
        {"dense/kernel": (None, "model")},
        r"only a part of \['sequential/dense/kernel'\]",
    ),
    "stale": (
        {"sequential_1/dense_2/kernel": (None, "model")},
        r"nearest paths are \['sequential/dense",
    ),
    "two rules": (
        {".*dense/kernel": (None, "model"), "sequential/dense/.*": ("model",)},
        r"variable 'sequential/dense/kernel', matched by '.*' and 'sequential/dense/\.\*'",
    ),
    "rank too low": (
        {".*dense/kernel": ("model",)},
        r"with \('model',\).*'sequential/dense/kernel' of shape \(16, 32\).*2 entries",
    ),
    "rank too high": (
        {".*dense/bias": (None, None, "model")},
        r"'sequential/dense/bias' of shape \(32,\)",
    ),
    "unknown axis": (
        {".*dense/bias": ("models",)},
        r"\('models',\) for variable .*\['data', 'model'\]",
    ),
    "axis twice": ({".*dense/kernel": ("model", "model")}, "each at most once"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_rule_that_would_do_nothing_or_harm_is_refused(case, eight):
    rules, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        resolve(mlp, rules, eight)


@pytest.mark.parametrize(
    ("spec", "advice"), [(("model", None), "Split axis 1 instead"), ((None, "data"), "replicated")]
)
def test_a_split_axis_must_divide(spec, advice):
    on = mesh.make_mesh(data=3, model=5, devices=range(15))

    def odd():
        units = 10 if spec[0] else 7
        return keras.Sequential([keras.Input((16,)), keras.layers.Dense(units)])

    message = rf"variable 'sequential/dense/kernel' of shape \(16, \d+\) has an axis of .*{advice}"
    with pytest.raises(ValueError, match=message):
        resolve_with(odd, np.zeros((3, 16)), {".*kernel": spec}, on)


def resolve_with(build, sample, layout, on):
    return abstract.build(build, sample, lambda model: _layouts.resolve(model, on, layout))


def test_rules_are_a_dict_of_tuples(eight):
    with pytest.raises(TypeError, match=r"dict of rules or the name of a scheme\. Received: list"):
        resolve(mlp, [("kernel", "model")], eight)
    with pytest.raises(TypeError, match=r"spec is a tuple.*Received: 'model' for rule '\.\*bias'"):
        resolve(mlp, {".*bias": "model"}, eight)


def test_batches_are_split_along_an_axis_of_the_mesh(eight):
    with pytest.raises(ValueError, match=r"data_axis='batch' for a mesh with the axes \['data'"):
        mesh.build(mlp, batch(mlp)[0], "columns", mesh=eight, data_axis="batch")


def test_variables_that_share_a_path_share_a_spec(eight):
    def twins():
        layers = [keras.layers.Dense(units, name="same") for units in (32, 8)]
        return Twins(layers)

    with pytest.raises(ValueError, match=r"share a path.*Received: 'twins/same/kernel' with"):
        resolve_with(twins, np.zeros((8, 16)), "megatron", eight)


class Twins(keras.Model):
    def __init__(self, layers):
        super().__init__()
        self.chain = layers

    def call(self, x):
        for layer in self.chain:
            x = layer(x)
        return x


# Schemes


def test_columns_split_outputs_and_their_bias(eight):
    assert chosen(resolve(mlp, "columns", eight)) == {
        "sequential/dense/kernel": (None, "model"),
        "sequential/dense/bias": ("model",),
        "sequential/dense_1/kernel": (None, "model"),
        "sequential/dense_1/bias": ("model",),
    }


def test_columns_keep_attention_heads_whole(eight):
    specs = resolve(Block, "columns", eight)
    attention = "block/multi_head_attention"
    assert specs[f"{attention}/query/kernel"] == (None, "model", None)
    assert specs[f"{attention}/query/bias"] == ("model", None)
    assert specs[f"{attention}/attention_output/kernel"] == (None, None, "model")
    assert specs["block/dense_2/kernel"] == (None, None)  # ten outputs do not divide by four


def test_megatron_pairs_columns_with_rows(eight):
    attention = "block/multi_head_attention"
    expected = {"block/embedding/embeddings": ("model", None)}
    for name in ("query", "key", "value"):
        expected[f"{attention}/{name}/kernel"] = (None, "model", None)
        expected[f"{attention}/{name}/bias"] = ("model", None)
    expected |= {
        f"{attention}/attention_output/kernel": ("model", None, None),
        "block/dense/kernel": (None, "model"),
        "block/dense/bias": ("model",),
        "block/dense_1/kernel": ("model", None),
    }
    assert chosen(resolve(Block, "megatron", eight)) == expected


def test_fsdp_splits_the_longest_axis_along_data(eight):
    specs = resolve(Block, "fsdp", eight)
    assert specs["block/dense/kernel"] == (None, "data")
    assert specs["block/dense_1/kernel"] == ("data", None)
    assert specs["block/layer_normalization/gamma"] == ("data",)


def test_a_scheme_leaves_random_seeds_whole(eight):
    assert resolve(mlp, "fsdp", eight)["seed_generator/seed_generator_state"] == (None,)


def test_replicated_splits_nothing(eight):
    assert chosen(resolve(mlp, "replicated", eight)) == {}


def test_an_unknown_scheme_lists_the_valid_ones(eight):
    with pytest.raises(ValueError, match=r"'rows'.*columns.*fsdp.*megatron.*replicated"):
        resolve(mlp, "rows", eight)


def test_a_scheme_needs_its_axis():
    on = mesh.make_mesh(data=8, devices=DEVICES)
    with pytest.raises(
        ValueError, match=r"'megatron' splits along the mesh axis 'model'.*\['data'\]"
    ):
        resolve(mlp, "megatron", on)


def test_a_scheme_that_would_split_nothing_is_refused():
    on = mesh.make_mesh(model=7, devices=range(7))
    with pytest.raises(ValueError, match=r"'columns' must split at least one.*model=7"):
        resolve(mlp, "columns", on)


# Abstract builds


def huge():
    layers = [keras.Input((50_000,)), keras.layers.Dropout(0.5), keras.layers.Dense(50_000)]
    return keras.Sequential(layers)


def test_an_abstract_build_has_shapes_and_allocates_nothing():
    before = len(jax.live_arrays())
    shapes = abstract.build(huge, np.zeros((1, 50_000)), lambda m: [v.shape for v in m.variables])
    assert (50_000, 50_000) in shapes
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])  # would allocate what is pending
    with keras.StatelessScope():
        pass
    assert len(jax.live_arrays()) <= before + 2


def test_an_abstract_build_carries_the_policy_and_leaves_no_trace():
    keras.config.set_dtype_policy("mixed_bfloat16")
    next_name = keras.layers.Dense(1).name

    def look(model):
        keras.config.set_dtype_policy("float16")
        keras.distribution.set_distribution(keras.distribution.DataParallel())
        return model.layers[-1].compute_dtype, model.layers[-1].name

    assert abstract.build(mlp, batch(mlp)[0], look) == ("bfloat16", "dense_1")
    assert keras.config.dtype_policy().name == "mixed_bfloat16"
    assert keras.distribution.distribution() is None
    number = int(re.sub(r"\D", "", next_name) or 0)
    assert keras.layers.Dense(1).name == f"dense_{number + 1}"


def test_an_abstract_build_carries_flash_attention():
    keras.config.disable_flash_attention()
    try:
        assert abstract.isolated(keras.config.is_flash_attention_enabled) is False
    finally:
        keras.config.enable_flash_attention()


def test_slots_can_be_made_without_arrays():
    def slots(model):
        optimizer = keras.optimizers.Adam()
        before = len(jax.live_arrays())
        with abstract.scope():
            optimizer.build(model.trainable_variables)
        assert len(jax.live_arrays()) <= before
        return [v.shape for v in optimizer.variables]

    assert abstract.build(huge, None, slots).count((50_000, 50_000)) == 2


def test_build_returns_an_uncompiled_model():
    def compiled():
        model = mlp()
        model.compile("adam", "mse")
        return model

    with pytest.raises(
        RuntimeError, match=r"initial values to initializers.*compile it afterwards"
    ):
        abstract.build(compiled, batch(mlp)[0], len)
    with pytest.raises(TypeError, match=r"returns the model it created\. Received: NoneType"):
        abstract.build(lambda: None, batch(mlp)[0], len)


def test_a_sample_has_shapes():
    with pytest.raises(TypeError, match=r"batch of arrays.*Received: float"):
        abstract.build(mlp, [0.5, 0.5], len)
    with pytest.raises(
        ValueError, match=r"Received: no sample, and 'sequential' has no input shape"
    ):
        abstract.build(mlp, None, len)


HARMFUL = {
    "matches nothing": ({"kernel": (None, "model")}, "whole path of at least one variable"),
    "stale": ({"sequential_1/dense_1/kernel": (None, "model")}, "whole path of at least one"),
    "rank": ({".*kernel": ("model",)}, "one entry for each axis of its variable"),
    "does not divide": ({".*kernel": (None, "model")}, "must divide by the size of the mesh axis"),
}


@pytest.mark.parametrize("case", HARMFUL)
def test_a_refused_build_leaves_nothing_behind(case):
    """Ten gigabytes would be allocated on these three devices, which do not even exist."""
    layout, message = HARMFUL[case]
    three = mesh.make_mesh(data=1, model=3, devices=DEVICES[:3])
    before = keras.distribution.DataParallel()
    keras.distribution.set_distribution(before)
    gc.collect()  # what earlier tests left behind may not go in between
    arrays = len(jax.live_arrays())
    with pytest.raises(ValueError, match=message):
        mesh.build(huge, np.zeros((1, 50_000)), layout, mesh=three)
    assert keras.distribution.distribution() is before
    assert len(jax.live_arrays()) <= arrays


def test_errors_of_build_come_through_unchanged():
    error = ValueError("units must be given")

    def broken():
        raise error

    with pytest.raises(ValueError, match="units must be given") as caught:
        abstract.build(broken, batch(mlp)[0], len)
    assert caught.value is error


# Models on eight devices


@pytest.mark.parametrize("name", ["mlp", "block"])
@pytest.mark.parametrize("layout", LAYOUTS)
class TestEveryLayout:
    def test_predicts_and_trains_as_one_device(self, seen, name, layout):
        assert seen[name][layout]["predictions"] < 1e-5
        assert seen[name][layout]["weights"] < 1e-4

    def test_table_tells_the_bytes_of_the_real_shards(self, seen, name, layout):
        assert [seen[name][layout]["table_bytes"]] == seen[name][layout]["shard_bytes"]

    def test_is_really_split_and_slots_follow(self, seen, name, layout):
        assert (seen[name][layout]["split"] > 0) == (layout != "replicated")
        assert seen[name][layout]["slots_follow"]

    def test_paths_do_not_depend_on_what_was_built_before(self, seen, name, layout):
        assert seen[name][layout]["paths"] == seen[name]["columns"]["paths"]
        assert "_3/" not in "".join(seen[name][layout]["paths"])


def test_running_the_cell_twice_changes_nothing(seen):
    assert seen["rules"]["twice_equal"]
    assert seen["rules"]["split"] == ["sequential/dense/kernel", "sequential/dense_1/kernel"]
    assert seen["rules"]["specs"] == [[None, "model"], ["model", None]]


def test_a_model_made_outside_build_is_refused(seen):
    assert "was allocated before" in seen["rules"]["ready_model"]
    assert "'sequential" in seen["rules"]["ready_model"]
    assert seen["rules"]["distribution_after"] == "None"


def test_the_table_of_an_undistributed_model():
    model = mlp()
    model(batch(mlp)[0])
    row = mesh.sharding_table(model).iloc[0]
    assert (row["shape"], row["spec"], row["replicated"]) == ((16, 32), (None, None), True)
    assert row["bytes"] == row["bytes_per_device"] == 16 * 32 * 4


# Two real processes


def test_predicting_together_needs_a_distribution():
    with pytest.raises(RuntimeError, match=r"under a distribution\. Received: none\. Set one"):
        processes.predict(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), np.ones(2))


def test_two_processes_end_with_the_weights_of_one(tmp_path):
    """Both end by themselves with exit code 0; `run_child` asserts that."""
    port = free_port()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(run_child, "two_processes.py", tmp_path, port, i, devices=0, timeout=400)
            for i in range(2)
        ]
        first, second = (json.loads(run.result().splitlines()[-1]) for run in runs)
    # A save that fails in the process that writes is an error in both.
    assert first.pop("failed save").startswith("FileNotFoundError: ")
    assert second.pop("failed save") == (
        "RuntimeError: The first process writes for all. Received: an error there. "
        "Read what process 0 printed."
    )
    for seen in (first, second):
        assert re.search(
            r"planned within one process\. Received: a run of 2 .*processes\.predict\.",
            seen.pop("refused plan"),
        )
    alone = json.loads(run_child("two_processes.py", tmp_path, devices=2))
    assert set(alone) == set(first) == {"DataParallel", "ModelParallel", "fsdp"}
    for kind, values in alone.items():
        assert first[kind] == second[kind]
        for name in ("loss", "evaluated", "predicted"):
            np.testing.assert_allclose(first[kind][name], values[name], atol=1e-5, err_msg=name)
        for one, other in zip(first[kind]["weights"], values["weights"], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5, err_msg=kind)
