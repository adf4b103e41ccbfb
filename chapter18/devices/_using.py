"""Get N devices, real or simulated, without the faults of a JAX on a CPU; say what there is."""

import importlib.util
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from chapter18._shared import checks
from chapter18.devices import _jax_faults
from chapter18.devices._counting import count_accelerators

if TYPE_CHECKING:
    import jax

_KERAS_FLOOR = (3, 15)
_PLUGINS = {"gpu": ("jax_cuda12_plugin", "jax_cuda13_plugin"), "tpu": ("libtpu",)}

_awake_with_guard = False


def use(n: int) -> "list[jax.Device]":
    """Give this process `n` devices and return them.

    They are accelerators when there are enough of them, else `n` simulated CPU devices. JAX wakes
    here, so call this before anything that computes. Three faults of JAX on a CPU are guarded
    against, each with one line that says so: on 0.9 to 0.11 simulated devices deadlock, so XLA's
    thread pool is widened; before 0.8.2 XNNPACK multiplies by stale copies of donated weights, so
    that wide layers train wrongly, and it is switched off; from 0.10.2 to 0.12.0.1 YNNPACK sums
    some products wrongly, and its fusions are switched off. On a CPU, whatever the version, a sum
    is then compared with NumPy's, once a process, in about a tenth of a second.

    Raises ValueError if `n` is not a positive integer, RuntimeError if JAX already runs with other
    devices or without a guard, if Keras was imported too early (with another backend, or a version
    below 3.15), or if JAX adds wrongly.
    """
    n = checks.positive_integer(
        n,
        "n",
        rule="The number of devices must be a positive integer.",
        remedy="Pass 1 or more, for example devices.use(8).",
    )
    _check_keras()
    import jax

    config: Any = jax.config  # which declares none of its settings
    awake = is_awake()
    real = _reachable(count_accelerators(), config.jax_platforms) >= n
    if not real:
        _simulate(n, awake)
    devices = jax.devices()
    _check_given(devices, n, real=real, awake=awake)
    if devices[0].platform == "cpu":
        _jax_faults.check_arithmetic()
    return devices[:n]


def describe() -> str:
    """One line for a human: the devices JAX runs with, or what the machine has if JAX is asleep."""
    found = count_accelerators()
    if "jax" not in sys.modules or not is_awake():
        return _describe_found(found) if found.number else "no accelerator, CPU only"
    devices = sys.modules["jax"].devices()
    if devices[0].platform != "cpu":
        return f"{_plural(len(devices), devices[0].platform.upper())} ({devices[0].device_kind})"
    kind = "simulated CPU device" if len(devices) > 1 else "CPU device"
    unused = f"not using {_describe_found(found)}" if found.number else "no accelerator"
    return f"{_plural(len(devices), kind)} ({unused})"


def _describe_found(found):
    return f"{_plural(found.number, found.kind.upper())} ({found.name})"


def is_awake() -> bool:
    """Whether JAX has started its devices, after which their number cannot change.

    JAX offers no question for this, but refuses to change its device count once awake.
    """
    import jax

    config: Any = jax.config
    count = config.jax_num_cpu_devices
    try:
        config.update("jax_num_cpu_devices", count + 1)
    except RuntimeError:
        return True
    config.update("jax_num_cpu_devices", count)
    return False


def _check_keras():
    keras = sys.modules.get("keras")
    if keras is None:
        return
    if tuple(int(part) for part in re.findall(r"\d+", keras.__version__)[:2]) < _KERAS_FLOOR:
        raise RuntimeError(
            "The course needs Keras 3.15 or newer. "
            f"Received: Keras {keras.__version__}, imported before the upgrade. "
            "Restart the kernel and run the setup cell first."
        )
    if keras.config.backend() != "jax":
        raise RuntimeError(
            "The course runs Keras on JAX. "
            f"Received: Keras imported with the {keras.config.backend()} backend. "
            "Restart the kernel and run the setup cell first."
        )


def _check_given(devices, n, *, real, awake):
    """Refuse devices that are not what was asked for: `n` of them, real or not."""
    on_cpu = devices[0].platform == "cpu"
    if real and on_cpu and not awake:
        raise RuntimeError(
            "JAX must be able to start the accelerators of this machine. "
            f"Received: {_describe_found(count_accelerators())}, but JAX found only the CPU. "
            "Repair the driver, or set JAX_PLATFORMS=cpu and restart the kernel."
        )
    if on_cpu == real or len(devices) < n or (on_cpu and len(devices) > n):
        raise _too_late(f"JAX already runs with {_plural(len(devices), 'device')}", n)


def _too_late(received, n):
    return RuntimeError(
        "The devices must be chosen before JAX computes anything. "
        f"Received: devices.use({n}), but {received}. "
        f"Restart the kernel and call devices.use({n}) first."
    )


def _simulate(n, awake):
    """Make `n` CPU devices the only ones JAX will see; once it is awake, only check the guards."""
    global _awake_with_guard
    import jax

    version = jax.__version_info__
    deadlocks = n > 1 and _jax_faults.DEADLOCK.concerns(version)
    unguarded = _jax_faults.unguarded(version)
    if awake:
        if unguarded or (deadlocks and not _awake_with_guard):
            raise _too_late(f"JAX {jax.__version__} is awake without the guard it needs", n)
        return
    for fault in unguarded:
        fault.avoid()
        print(f"JAX {jax.__version__} {fault.notice}")
    # This order: once JAX is awake the count refuses to change, the platform is ignored silently.
    jax.config.update("jax_num_cpu_devices", n)
    jax.config.update("jax_platforms", "cpu")
    if deadlocks:
        _wake_with_guard(max(32, 4 * n))
        _awake_with_guard = True
        print(f"JAX {jax.__version__} {_jax_faults.DEADLOCK.notice}")


def _wake_with_guard(threads):
    """Wake JAX with `threads` threads in XLA's pool, which reads its size only as it wakes."""
    import jax

    before = os.environ.get("NPROC")
    os.environ["NPROC"] = str(threads)
    try:
        jax.devices()
    finally:
        del os.environ["NPROC"]
        if before is not None:
            os.environ["NPROC"] = before


def _reachable(found, platforms):
    """How many of the accelerators found JAX can reach: it needs a plugin and leave to use it."""
    allowed = not platforms or {found.kind, "cuda"} & set(platforms.split(","))
    plugged = any(importlib.util.find_spec(name) for name in _PLUGINS.get(found.kind, ()))
    return found.number if allowed and plugged else 0


def _plural(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"
