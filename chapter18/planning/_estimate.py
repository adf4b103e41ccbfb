"""Compile a training step without running it, and read off what the compiler expects of it."""

import re
from importlib.metadata import version
from typing import NamedTuple

import jax

from chapter18.planning import _collectives as collectives
from chapter18.planning import _flops as flops

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


class Estimate(NamedTuple):
    """What a compiler expects of one step on one device; `compiler` names it.

    `temporaries` are bytes that live only during a step: gradients, activations and buffers
    together; of a TPU only its main memory. `padding` is what this compiler adds to the arrays that
    stay. `flops` counts the operations, loops with all their trips; `collectives` is a tuple of
    `Collective`. `refusal` is the compiler's own verdict where the step does not fit the device it
    compiles for; `flops` and `collectives` are then None.
    """

    compiler: str
    platform: str
    temporaries: int
    padding: int = 0
    flops: float | None = None
    collectives: tuple | None = None
    refusal: str | None = None

    @property
    def collective_bytes(self):
        """Bytes that one device sends in a step, in rings; None where nothing was compiled."""
        return None if self.collectives is None else sum(c.sent for c in self.collectives)


def compile_step(training, mesh):
    """Return the `Estimate` for a `training_state.TrainingState` on the devices of `mesh`.

    The step is compiled as `fit` compiles it. Call it where Keras' distribution is that of the
    step. Nothing runs, and no array is allocated.
    """
    device = mesh.backend_mesh.devices.flat[0]
    shardings = jax.tree.map(lambda array: array.sharding, training.state)
    step = jax.jit(training.step, donate_argnums=0, out_shardings=(None, shardings))
    traced = step.trace(training.state, training.data)
    try:
        compiled = traced.lower().compile()
    except jax.errors.JaxRuntimeError as error:
        return _refused(str(error), device)
    stats = compiled.memory_analysis()
    text = compiled.as_text()
    counted = (compiled.cost_analysis() or {}).get("flops")
    if counted and collectives.has_loop(text):
        counted *= flops.loop_factor(traced.jaxpr)
    exact = sum(array.bytes_per_device for array in training.arrays)
    return Estimate(
        compiler=_name(device),
        platform=device.platform,
        temporaries=stats.temp_size_in_bytes + _not_aliased(stats),
        padding=max(0, stats.argument_size_in_bytes - exact),
        flops=counted,
        collectives=collectives.find(text, mesh.backend_mesh.size),
    )


def _not_aliased(stats):
    """Bytes of results that do not take the place of an argument, such as the logs."""
    return max(0, stats.output_size_in_bytes - stats.alias_size_in_bytes)


def _refused(message, device):
    """The estimate in a TPU compiler's message that the step needs more than the device has."""
    used = re.search(r"Used ([\d.]+)([KMG]?) of ([\d.]+)([KMG]?) hbm", message)
    program = re.search(r"program\s+([\d.]+)([KMG]?)", message)
    if not (used and program):
        raise RuntimeError(
            f"The compiler could not compile the step. Received: {message[:2000]} "
            "Plan with estimate=False for the exact part alone."
        )
    refusal = f"needs {used[1]} {used[2]}iB of {used[3]} {used[4]}iB"
    return Estimate(_name(device), device.platform, _parse(program), refusal=refusal)


def _parse(match):
    return int(float(match[1]) * _UNITS[match[2]])


def _name(device):
    if device.platform == "tpu":
        return f"XLA for {device.device_kind}, libtpu {version('libtpu')}"
    name = "CPU" if device.platform == "cpu" else device.device_kind
    return f"XLA for {name}, jaxlib {version('jaxlib')}"
