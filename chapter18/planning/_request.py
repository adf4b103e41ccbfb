"""What a plan is asked for: checked, and put into a form that travels between processes."""

import dataclasses
import importlib.util
import math
import re
from collections.abc import Callable
from typing import Any

import keras

from chapter18 import mesh as meshes
from chapter18._shared import abstract, checks
from chapter18.planning import _step

_TOPOLOGY = re.compile(r"[\w-]+:(\d+(?:x\d+)+)")


def sizes_of(mesh, data_axis):
    """Axis sizes of a `DeviceMesh` or a dict; a dict without the data axis gets one of size 1."""
    if isinstance(mesh, keras.distribution.DeviceMesh):
        sizes = dict(zip(mesh.axis_names, mesh.shape, strict=True))
        if data_axis not in sizes:
            raise ValueError(
                "Batches are split along an axis of the mesh. "
                f"Received: data_axis={data_axis!r} for a mesh with the axes {list(sizes)}. "
                "Name one of them."
            )
        return sizes
    rule = "A mesh is a DeviceMesh, or axis names with positive sizes."
    remedy = "Pass for example {'data': 2, 'model': 4}."
    if not isinstance(mesh, dict):
        raise ValueError(f"{rule} Received: mesh={mesh!r}. {remedy}")
    sizes = {
        axis: checks.positive_integer(size, f"mesh[{axis!r}]", rule=rule, remedy=remedy)
        for axis, size in mesh.items()
    }
    return sizes if data_axis in sizes else {data_axis: 1} | sizes


@dataclasses.dataclass(frozen=True)
class Request:
    """A step to plan on some mesh: objects by their recipes, batches by their shapes.

    So it travels between processes, and nothing of the caller's is touched.
    """

    build: Callable[[], keras.Model]
    batch_size: int
    layout: str | meshes.Rules
    optimizer: Any
    loss: Any
    metrics: Any
    policy: str
    sample: Any
    targets: Any
    data_axis: str
    estimate: bool

    @classmethod
    def of(
        cls, build, batch_size, layout, optimizer, loss, metrics, policy, sample, targets,
        *, data_axis="data", estimate=True,
    ):  # fmt: skip
        """The request for these arguments of `planning.plan`."""
        recipe = _step.Recipe.of
        policy = keras.config.dtype_policy() if policy is None else policy
        return cls(
            build=build,
            batch_size=batch_size,
            layout=layout,
            optimizer=recipe(optimizer),
            loss=keras.tree.map_structure(recipe, loss),
            metrics=keras.tree.map_structure(recipe, metrics),
            policy=keras.dtype_policies.get(policy).name,
            sample=_shapes(sample, batch_size),
            targets=_shapes(targets, batch_size),
            data_axis=data_axis,
            estimate=estimate,
        )


def batch(batch_size, replicas):
    """Return the global batch size; raise ValueError unless every replica gets as many samples."""
    rule = "The global batch must divide by the data axis of the mesh."
    remedy = f"Use a multiple of {replicas}."
    number = checks.positive_integer(batch_size, "batch_size", rule=rule, remedy=remedy)
    if number % replicas:
        raise ValueError(f"{rule} Received: batch_size={number} over {replicas} replicas. {remedy}")
    return number


def count(number, name):
    """Return a number of samples or devices; raise ValueError unless it is a positive integer."""
    rule = "Batches and devices are counted in positive integers."
    return checks.positive_integer(number, name, rule=rule, remedy="Pass 1 or more.")


def check_target(target, sizes):
    """Raise ValueError unless `target` is a slice as large as the mesh, ImportError without libtpu.

    `sizes` maps the axes of the mesh to their lengths.
    """
    match = _TOPOLOGY.fullmatch(target)
    chips = math.prod(int(n) for n in match[1].split("x")) if match else None
    n = math.prod(sizes.values())
    if chips != n:
        has = f"which has {chips} devices" if match else "which is no slice"
        raise ValueError(
            "A target is a TPU slice with as many devices as the mesh. "
            f"Received: target={target!r}, {has}, for a mesh of {n}. "
            "Write the version and the chips along each axis, for example 'v5e:2x4'."
        )
    if importlib.util.find_spec("libtpu") is None:
        raise ImportError(
            "Compiling for a TPU without one needs its compiler, libtpu. "
            f"Received: target={target!r}, and no libtpu is installed. "
            "Install it with: pip install 'chapter18[tpu-plan]', or in a copy of the course "
            "pip install '.[tpu-plan]'."
        )


def _shapes(batch, batch_size):
    """The batch as `Shape`s of `batch_size` samples; None stays None."""
    if batch is None:
        return None
    rule = "A sample is a batch of arrays, as the model is called with."

    def shape(leaf):
        checks.array(leaf, rule=rule, remedy="Pass for example x_train[:8].")
        return _step.Shape((batch_size, *leaf.shape[1:]), abstract.narrowed(leaf.dtype))

    return keras.tree.map_structure(shape, batch)
