"""Compile a training step without running it, and read off what the compiler expects of it."""

import math
import re
from importlib.metadata import version
from typing import NamedTuple

import jax

from chapter18.planning import _hlo

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
    collectives: tuple[_hlo.Collective, ...] | None = None
    refusal: str | None = None

    @property
    def collective_bytes(self) -> int | None:
        """Bytes that one device sends in a step, in rings; None where nothing was compiled."""
        return None if self.collectives is None else sum(c.sent for c in self.collectives)


def compile_step(training, mesh):
    """Return the `Estimate` for a `TrainingState` on the devices of `mesh`.

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
    if counted and _hlo.has_loop(text):
        counted *= _loop_factor(traced.jaxpr)
    exact = sum(array.bytes_per_device for array in training.arrays)
    return Estimate(
        compiler=_name(device),
        platform=device.platform,
        temporaries=stats.temp_size_in_bytes + _not_aliased(stats),
        padding=max(0, stats.argument_size_in_bytes - exact),
        flops=counted,
        collectives=_hlo.find(text, mesh.backend_mesh.size),
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


def _loop_factor(jaxpr):
    """Matrix FLOPs of a traced program over the same with every loop run once (≥ 1).

    XLA's cost analysis counts the body of a loop once however often it runs, so a recurrent layer
    over 20 steps looks 20 times too cheap.
    """
    once, all_trips = _count(jaxpr.jaxpr)
    return all_trips / once if once else 1.0


def _count(jaxpr):
    """Matrix FLOPs of a jaxpr: with each loop once, and with all its trips."""
    once = all_trips = 0
    for equation in jaxpr.eqns:
        own = _matrix_flops(equation)
        inner = [_count(part) for part in _inner(equation.params)]
        trips = equation.params["length"] if equation.primitive.name == "scan" else 1
        once += own + sum(a for a, _ in inner)
        all_trips += own + trips * sum(b for _, b in inner)
    return once, all_trips


def _inner(params):
    """The jaxprs that an equation calls: a loop's body, a jitted function, a derivative rule."""
    for value in params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            part = getattr(part, "jaxpr", part)
            if hasattr(part, "eqns"):
                yield part


def _matrix_flops(equation):
    name = equation.primitive.name
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        left = equation.invars[0].aval.shape
        return 2 * equation.outvars[0].aval.size * math.prod(left[i] for i in contracted)
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval
        outputs = kernel.shape[equation.params["dimension_numbers"].rhs_spec[0]]
        return 2 * equation.outvars[0].aval.size * kernel.size // outputs
    return 0
