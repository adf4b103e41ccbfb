"""`chapter18.devices`: what needs its own device count runs in a child process."""

import os
import sys
import types

import numpy
import pytest
from child import run_child

from chapter18 import devices
from chapter18.devices import _jax_faults, _using

# What conftest.py may have set, and would hide.
PLAIN = {"XLA_FLAGS": None, "NPROC": None, "CUDA_VISIBLE_DEVICES": ""}


def child(code, **env):
    """The lines that `code` prints in a process that chooses its devices itself."""
    return run_child(code, devices=0, timeout=180, env=PLAIN | env).splitlines()


@pytest.fixture
def fake_jax(monkeypatch, tmp_path):
    """A JAX with four awake GPUs and the CUDA plugin, on a machine that has four GPUs."""
    (tmp_path / "jax_cuda12_plugin").mkdir()
    (tmp_path / "jax_cuda12_plugin/__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def refuse(*_):
        raise RuntimeError("awake")

    gpus = [types.SimpleNamespace(platform="gpu", device_kind="Tesla T4") for _ in range(4)]
    jax = types.ModuleType("jax")
    jax.__version__, jax.__version_info__ = "0.8.3", (0, 8, 3)
    jax.devices = lambda: gpus
    jax.jit, jax.numpy = (lambda function: function), numpy
    jax.config = types.SimpleNamespace(jax_platforms=None, jax_num_cpu_devices=-1, update=refuse)
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    four = devices.Accelerators("gpu", 4, "Tesla T4")
    monkeypatch.setattr(_using, "count_accelerators", lambda: four)
    _jax_faults.check_arithmetic.cache_clear()
    yield jax
    _jax_faults.check_arithmetic.cache_clear()


def test_counting_imports_neither_jax_nor_keras_and_leaves_jax_asleep():
    code = """
import sys
from chapter18 import devices
devices.count_accelerators()
devices.describe()
print(sorted({"jax", "jaxlib", "jaxtyping", "keras"} & set(sys.modules)))
import jax
devices.count_accelerators()
devices.describe()
jax.config.update("jax_num_cpu_devices", 5)
jax.config.update("jax_platforms", "cpu")
print(len(jax.devices()))
"""
    assert child(code) == ["[]", "5"]


def test_use_simulates_the_devices_that_are_missing_once_whatever_xla_flags_say():
    code = """
from chapter18 import devices
given = devices.use(8)
import jax
print(given == jax.devices() == devices.use(8), {d.platform for d in given}, len(given))
print(devices.describe())
try:
    devices.use(2)
except RuntimeError as error:
    print(error)
"""
    given, described, refused = child(code, XLA_FLAGS="--xla_force_host_platform_device_count=3")[
        -3:
    ]
    assert given == "True {'cpu'} 8"
    assert described.startswith("8 simulated CPU devices (")
    assert "devices.use(2), but JAX already runs with 8 devices" in refused


def test_use_one_is_the_plain_processor():
    code = "from chapter18 import devices\ndevices.use(1)\nprint(devices.describe())"
    assert child(code)[-1] == "1 CPU device (no accelerator)"


AWAKE = """
import jax
jax.devices()
from chapter18 import devices
try:
    devices.use(8)
except RuntimeError as error:
    print(error)
"""


def test_use_after_jax_woke_with_another_count_says_restart():
    flags = os.environ.get("XLA_FLAGS")
    assert child(AWAKE, XLA_FLAGS=flags, JAX_PLATFORMS="cpu") == [
        "The devices must be chosen before JAX computes anything. "
        "Received: devices.use(8), but JAX already runs with 1 device. "
        "Restart the kernel and call devices.use(8) first."
    ]


@pytest.mark.parametrize("count", [0, -1, 2.0, True, "8"])
def test_use_refuses_what_is_not_a_positive_integer(count):
    with pytest.raises(ValueError, match=r"must be a positive integer. Received: n="):
        devices.use(count)


def test_the_integers_of_numpy_are_integers(fake_jax):
    assert devices.use(numpy.int64(2)) == fake_jax.devices()[:2]


def test_keras_with_another_backend_says_restart(monkeypatch):
    keras = types.ModuleType("keras")
    keras.__version__ = "3.15.1"
    keras.config = types.SimpleNamespace(backend=lambda: "numpy")
    monkeypatch.setitem(sys.modules, "keras", keras)
    with pytest.raises(RuntimeError) as refused:
        devices.use(1)
    assert str(refused.value) == (
        "The course runs Keras on JAX. "
        "Received: Keras imported with the numpy backend. "
        "Restart the kernel and run the setup cell first."
    )


def test_keras_imported_before_its_upgrade_says_restart(monkeypatch):
    keras = types.ModuleType("keras")
    keras.__version__ = "3.13.2"
    monkeypatch.setitem(sys.modules, "keras", keras)
    message = (
        r"needs Keras 3\.15 .* Received: Keras 3\.13\.2, imported before .* Restart the kernel"
    )
    with pytest.raises(RuntimeError, match=message):
        devices.use(1)


def test_real_devices_are_used_when_there_are_enough(fake_jax):
    assert devices.use(2) == fake_jax.devices()[:2]
    assert devices.describe() == "4 GPUs (Tesla T4)"


@pytest.mark.usefixtures("fake_jax")
def test_too_few_real_devices_after_waking_says_restart():
    with pytest.raises(RuntimeError, match=r"already runs with 4 devices. Restart the kernel"):
        devices.use(8)


def test_accelerators_that_jax_does_not_reach_say_restart(fake_jax):
    cpu = types.SimpleNamespace(platform="cpu")
    fake_jax.devices = lambda: [cpu]
    with pytest.raises(RuntimeError, match=r"already runs with 1 device. Restart the kernel"):
        devices.use(1)


def test_a_driver_that_fails_is_told(fake_jax):
    fake_jax.devices = lambda: [types.SimpleNamespace(platform="cpu")]
    fake_jax.config.update = lambda *_: None  # asleep: settings may change
    with pytest.raises(RuntimeError, match=r"4 GPUs \(Tesla T4\), but JAX found only the CPU"):
        devices.use(1)


def test_a_processor_chosen_by_the_environment_is_respected(fake_jax):
    cpu = types.SimpleNamespace(platform="cpu")
    fake_jax.devices = lambda: [cpu]
    fake_jax.config.jax_platforms = "cpu"
    assert devices.use(1) == [cpu]
    assert devices.describe() == "1 CPU device (not using 4 GPUs (Tesla T4))"


def test_an_unguarded_jax_that_may_deadlock_says_restart(fake_jax):
    fake_jax.__version__, fake_jax.__version_info__ = "0.10.2", (0, 10, 2)
    fake_jax.devices = lambda: [types.SimpleNamespace(platform="cpu")] * 8
    fake_jax.config.jax_platforms = "cpu"
    with pytest.raises(RuntimeError, match=r"JAX 0\.10\.2 is awake without the guard it needs"):
        devices.use(8)


def test_an_old_jax_awake_without_its_guard_says_restart(fake_jax, monkeypatch):
    fake_jax.__version__, fake_jax.__version_info__ = "0.8.1", (0, 8, 1)
    cpu = types.SimpleNamespace(platform="cpu")
    fake_jax.devices = lambda: [cpu]
    fake_jax.config.jax_platforms = "cpu"
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    with pytest.raises(RuntimeError, match=r"JAX 0\.8\.1 is awake without the guard it needs"):
        devices.use(1)
    monkeypatch.setenv("XLA_FLAGS", "--other --xla_cpu_use_xnnpack=false")
    assert devices.use(1) == [cpu]


def test_a_jax_awake_without_the_guard_of_its_sums_says_restart(fake_jax, monkeypatch):
    fake_jax.__version__, fake_jax.__version_info__ = "0.12.0.1", (0, 12, 0, 1)
    cpu = types.SimpleNamespace(platform="cpu")
    fake_jax.devices = lambda: [cpu]
    fake_jax.config.jax_platforms = "cpu"
    flag = _jax_faults.WRONG_SUMS.flag
    # Empty means no fusion; any other value of the same flag is no guard.
    for unguarded in ("", f"{flag}LIBRARY_FUSION_TYPE_DOT"):
        monkeypatch.setenv("XLA_FLAGS", unguarded)
        with pytest.raises(RuntimeError, match=r"0\.12\.0\.1 is awake without the guard it needs"):
            devices.use(1)
    monkeypatch.setenv("XLA_FLAGS", f"--other {flag}")
    assert devices.use(1) == [cpu]


@pytest.mark.parametrize("wrong", [numpy.nan, numpy.inf, -1.0, 2.0, 1.1, 0.9])
def test_a_jax_that_adds_wrongly_is_refused_whatever_its_version(fake_jax, wrong):
    """No JAX of a version to come is at hand, so this one's sums are bent."""
    fake_jax.__version__, fake_jax.__version_info__ = "0.99.0", (0, 99, 0)
    fake_jax.devices = lambda: [types.SimpleNamespace(platform="cpu")]
    fake_jax.config.jax_platforms = "cpu"
    fake_jax.jit = lambda function: lambda rows: wrong * function(rows)
    for _ in range(2):  # a failure is not forgotten
        with pytest.raises(
            RuntimeError, match=r"must add correctly .* from JAX 0\.99\.0.* 0\.8\.3"
        ):
            devices.use(1)


def test_an_accelerator_is_not_asked_to_add(fake_jax):
    fake_jax.jit = lambda _: lambda _: numpy.nan
    assert devices.use(1) == fake_jax.devices()[:1]
