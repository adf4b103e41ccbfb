"""`chapter18.devices`: what needs its own device count runs in a child process."""

import os
import subprocess
import sys
import types
from pathlib import Path

import numpy
import pytest

from chapter18 import devices
from chapter18.devices import _jax_faults
from chapter18.devices._counting import Accelerators, find_accelerators

TRAIN = """
import os
os.environ["KERAS_BACKEND"] = "jax"
from chapter18 import devices
devices.use(8)
import keras, numpy as np
keras.distribution.set_distribution(keras.distribution.DataParallel())
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
rows = np.random.default_rng(0).normal(size=(16 * 1500, 8)).astype("float32")
model.fit(rows, rows[:, :1], batch_size=16, verbose=0)
print("steps", int(model.optimizer.iterations), "NPROC" in os.environ)
"""
# Stale copies of donated weights: every second step would multiply by the weights before it.
WIDE = """
import os
os.environ["KERAS_BACKEND"] = "jax"
from chapter18 import devices
devices.use(1)
import keras, numpy as np
rng = np.random.default_rng(0)
x = rng.normal(size=(2500, 784)).astype("float32")
def trained(**options):
    keras.utils.set_random_seed(1)
    hidden = [keras.layers.Dense(256, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((784,)), *hidden, keras.layers.Dense(10)])
    model.compile(keras.optimizers.SGD(0.5), "mse", **options)
    model.fit(x, x[:, :10], batch_size=250, shuffle=False, verbose=0)
    return model.get_weights()
pairs = zip(trained(), trained(run_eagerly=True))
print("gap", max(float(abs(a - b).max()) for a, b in pairs) < 1e-4)
"""
# What XLA's YNNPACK fusions turn into garbage from JAX 0.10.2 to 0.12.0.1.
SUMS = """
import numpy as np
from chapter18 import devices
devices.use({devices})
import jax
rows = np.random.default_rng(0).uniform(0.5, 1.5, (96, 96)).astype("float32")
given = jax.jit(lambda rows: jax.numpy.sum((rows @ jax.numpy.ones_like(rows)) * rows))(rows)
wanted = float((rows.sum(1, dtype="float64", keepdims=True) * rows).sum())
print(*jax.__version_info__, abs(float(given) / wanted - 1) < 1e-5)
"""
# A Python whose JAX deadlocks (0.9 to 0.11), with Keras and NumPy: .ci/run may name one.
UNSOUND = os.environ.get("CHAPTER18_UNSOUND_PYTHON")
PYTHONS = [
    pytest.param(sys.executable, id="this environment"),
    pytest.param(
        UNSOUND,
        id="unsound JAX",
        marks=pytest.mark.skipif(not UNSOUND, reason="CHAPTER18_UNSOUND_PYTHON is not set"),
    ),
]


def child(code, *, python=sys.executable, limit=180, **env):
    """Standard output of `code` in a process of its own, SIGKILLed after `limit` seconds."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in {"XLA_FLAGS", "NPROC"}
    }
    here = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [here, inherited.get("PYTHONPATH")]))
    done = subprocess.run(
        [python, "-c", code],
        env={**inherited, "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def refusal(code, **env):
    """The message of the RuntimeError that `code` ends with, in a child process."""
    lines = [f"    {line}" for line in code.strip().splitlines()]
    wrapped = "\n".join(["try:", *lines, "except RuntimeError as error:", "    print(error)"])
    return child(wrapped, **env)


@pytest.fixture
def no_nvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)


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
    monkeypatch.setattr(devices, "count_accelerators", lambda: Accelerators("gpu", 4, "Tesla T4"))
    devices._check_arithmetic.cache_clear()
    yield jax
    devices._check_arithmetic.cache_clear()


def pci_card(root, slot, vendor, device, klass):
    card = root / "sys/bus/pci/devices" / slot
    card.mkdir(parents=True)
    for name, value in [("vendor", vendor), ("device", device), ("class", klass)]:
        (card / name).write_text(value + "\n")


def driver_gpu(root, slot, name, uuid):
    folder = root / "proc/driver/nvidia/gpus" / slot
    folder.mkdir(parents=True)
    text = f"Model: \t\t {name}\nIRQ:   \t\t 33\nGPU UUID: \t {uuid}\nBus Location: \t {slot}\n"
    (folder / "information").write_text(text)


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_counting_imports_neither_jax_nor_keras():
    code = """
import sys
from chapter18 import devices
devices.count_accelerators()
devices.describe()
print(sorted({"jax", "jaxlib", "keras"} & set(sys.modules)))
"""
    assert child(code) == "[]"


def test_counting_leaves_jax_asleep():
    code = """
import jax
from chapter18 import devices
devices.count_accelerators()
devices.describe()
jax.config.update("jax_num_cpu_devices", 5)
jax.config.update("jax_platforms", "cpu")
print(len(jax.devices()))
"""
    assert child(code) == "5"


def test_the_count_is_remembered():
    assert devices.count_accelerators() is devices.count_accelerators()


@pytest.mark.usefixtures("no_nvml")
def test_an_empty_machine_has_none(tmp_path):
    assert find_accelerators(tmp_path, {}) == ("none", 0, "")


@pytest.mark.usefixtures("no_nvml")
def test_a_system_without_proc_and_sys_has_none(tmp_path):
    """Windows and macOS have none of these folders."""
    assert find_accelerators(tmp_path / "C:", {"CUDA_VISIBLE_DEVICES": "0"}).number == 0
    (tmp_path / "proc").touch()
    (tmp_path / "dev").touch()
    assert find_accelerators(tmp_path, {}) == ("none", 0, "")


@pytest.mark.usefixtures("no_nvml")
def test_a_card_that_cannot_be_read_is_not_counted(tmp_path):
    pci_card(tmp_path, "0000:00:04.0", "0x10de", "0x1eb8", "0x030200")
    pci_card(tmp_path, "0000:00:05.0", "0x10de", "0x1eb8", "0x030200")
    (tmp_path / "sys/bus/pci/devices/0000:00:05.0/class").unlink()
    touch(tmp_path, "dev/nvidiactl")
    assert find_accelerators(tmp_path, {}) == ("gpu", 1, "NVIDIA GPU")


@pytest.mark.usefixtures("no_nvml")
@pytest.mark.parametrize(
    ("chosen", "number"),
    [
        (None, 3),
        ("", 0),
        ("-1", 0),
        ("0,2", 2),
        ("2, 1", 2),
        ("1,7,0", 1),
        ("1,-1,0", 1),
        ("GPU-aa", 1),
        ("GPU-aa,GPU-zz,0", 1),
        ("MIG-11,MIG-12", 2),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(tmp_path, chosen, number):
    for slot, uuid in enumerate(["GPU-aa1", "GPU-bb1", "GPU-cc1"]):
        driver_gpu(tmp_path, f"0000:00:0{slot}.0", "Tesla T4", uuid)
    env = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    found = find_accelerators(tmp_path, env)
    assert found.number == number
    assert found.kind == ("gpu" if number else "none")
    assert found.name == ("Tesla T4" if number else "")


def test_nvml_is_asked_first_where_it_is_installed(tmp_path, monkeypatch):
    nvml = types.ModuleType("pynvml")
    nvml.NVMLError = type("NVMLError", (Exception,), {})
    closed = []
    nvml.nvmlInit = lambda: None
    nvml.nvmlShutdown = lambda: closed.append(True)
    nvml.nvmlDeviceGetCount = lambda: 2
    nvml.nvmlDeviceGetHandleByIndex = lambda index: index
    nvml.nvmlDeviceGetUUID = lambda index: f"GPU-{index}"
    nvml.nvmlDeviceGetName = lambda _: "NVIDIA H200"
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert find_accelerators(tmp_path, {}) == ("gpu", 2, "NVIDIA H200")
    assert closed == [True]


def test_nvml_without_a_driver_falls_back(tmp_path, monkeypatch):
    nvml = types.ModuleType("pynvml")
    nvml.NVMLError = type("NVMLError", (Exception,), {})

    def no_driver():
        raise nvml.NVMLError("Driver Not Loaded")

    nvml.nvmlInit = no_driver
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    driver_gpu(tmp_path, "0000:00:04.0", "Tesla T4", "GPU-aa")
    assert find_accelerators(tmp_path, {}) == ("gpu", 1, "Tesla T4")


@pytest.mark.usefixtures("no_nvml")
def test_pci_cards_count_only_where_the_driver_is(tmp_path):
    pci_card(tmp_path, "0000:00:04.0", "0x10de", "0x1eb8", "0x030200")
    pci_card(tmp_path, "0000:00:05.0", "0x10de", "0x10f8", "0x040300")  # the card's sound
    pci_card(tmp_path, "0000:00:06.0", "0x8086", "0x3e92", "0x030000")  # another vendor
    assert find_accelerators(tmp_path, {}).number == 0
    touch(tmp_path, "dev/nvidiactl")
    assert find_accelerators(tmp_path, {}) == ("gpu", 1, "NVIDIA GPU")


@pytest.mark.usefixtures("no_nvml")
@pytest.mark.parametrize(
    ("nodes", "card", "env", "number"),
    [
        (["dev/accel0", "dev/accel1", "dev/accel2", "dev/accel3"], "0x0027", {}, 8),
        (["dev/accel0", "dev/accel1", "dev/accel2", "dev/accel3"], "0x005e", {}, 4),
        (["dev/vfio/0", "dev/vfio/vfio"], "0x0063", {}, 1),
        (["dev/vfio/0", "dev/vfio/1"], None, {"TPU_ACCELERATOR_TYPE": "v5litepod-4"}, 2),
        (["dev/vfio/0", "dev/vfio/1"], None, {}, 0),
        (["dev/accel0", "dev/accel1"], None, {"TPU_ACCELERATOR_TYPE": "v2-8"}, 4),
        (["dev/accel0", "dev/accel1"], None, {"TPU_VISIBLE_CHIPS": "1"}, 1),
        (["dev/accel/accel0"], None, {}, 0),
    ],
)
def test_tpus_are_counted_by_their_device_nodes(tmp_path, nodes, card, env, number):
    touch(tmp_path, *nodes)
    if card:
        pci_card(tmp_path, "0000:00:04.0", "0x1ae0", card, "0x088000")
    found = find_accelerators(tmp_path, env)
    assert (found.kind, found.number) == ("tpu" if number else "none", number)


def test_use_simulates_the_devices_that_are_missing():
    code = """
from chapter18 import devices
given = devices.use(8)
import jax
print(given == jax.devices() == devices.use(8), {d.platform for d in given}, len(given))
print(devices.describe())
"""
    lines = child(code, CUDA_VISIBLE_DEVICES="").splitlines()
    assert lines[-2] == "True {'cpu'} 8"
    assert lines[-1].startswith("8 simulated CPU devices (")


def test_use_one_is_the_plain_processor():
    code = "from chapter18 import devices\ndevices.use(1)\nprint(devices.describe())"
    lines = child(code, CUDA_VISIBLE_DEVICES="").splitlines()
    assert lines[-1] == "1 CPU device (no accelerator)"


def test_the_count_asked_for_wins_over_xla_flags():
    code = "from chapter18 import devices\nprint(len(devices.use(6)))"
    flags = "--xla_force_host_platform_device_count=3"
    assert child(code, XLA_FLAGS=flags, CUDA_VISIBLE_DEVICES="").endswith("6")


def test_use_after_jax_woke_with_another_count_says_restart():
    code = "import jax\njax.devices()\nfrom chapter18 import devices\ndevices.use(8)"
    message = refusal(code, XLA_FLAGS=os.environ.get("XLA_FLAGS", ""), JAX_PLATFORMS="cpu")
    assert message == (
        "The devices must be chosen before JAX computes anything. "
        "Received: devices.use(8), but JAX already runs with 1 device. "
        "Restart the kernel and call devices.use(8) first."
    )


def test_a_second_use_with_another_count_says_restart():
    code = "from chapter18 import devices\ndevices.use(4)\ndevices.use(2)"
    assert "JAX already runs with 4 devices" in refusal(code, CUDA_VISIBLE_DEVICES="")


@pytest.mark.parametrize("count", [0, -1, 2.0, True, "8"])
def test_use_refuses_what_is_not_a_positive_integer(count):
    with pytest.raises(ValueError, match=r"must be a positive integer. Received: n="):
        devices.use(count)


def test_the_integers_of_numpy_are_integers(fake_jax):
    assert devices.use(numpy.int64(2)) == fake_jax.devices()[:2]


def test_keras_with_another_backend_says_restart():
    code = "import keras\nfrom chapter18 import devices\ndevices.use(1)"
    message = refusal(code, KERAS_BACKEND="numpy", JAX_PLATFORMS="cpu")
    assert message == (
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


def test_wide_layers_train_as_they_do_eagerly():
    assert child(WIDE, CUDA_VISIBLE_DEVICES="").splitlines()[-1] == "gap True"


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


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("devices", [1, 8])
def test_a_sum_of_a_product_is_right(devices, python):
    lines = child(SUMS.format(devices=devices), python=python, CUDA_VISIBLE_DEVICES="").splitlines()
    *version, right = lines[-1].split()
    assert right == "True"
    affected = (0, 10, 2) <= tuple(map(int, version)) < (0, 12, 1)
    assert any("sum wrongly" in line for line in lines) == affected


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


def test_the_canary_falls_silent_without_a_guard_only_where_sums_are_right():
    code = """
import jax
jax.config.update("jax_platforms", "cpu")
from chapter18.devices import _jax_faults
try:
    _jax_faults.check_arithmetic()
except RuntimeError as error:
    print(error)
print(*jax.__version_info__)
"""
    *said, version = child(code).splitlines()
    if _jax_faults.WRONG_SUMS.concerns(tuple(map(int, version.split()))):
        assert said[0].startswith("JAX must add correctly on this machine. Received: a sum of ")
    else:
        assert said == []


@pytest.mark.parametrize(
    ("version", "faults"),
    [
        ((0, 7, 2), ["jax-stale-weights"]),
        ((0, 8, 1), ["jax-stale-weights"]),
        ((0, 8, 2), []),
        ((0, 8, 3), []),
        ((0, 9, 0, 1), ["jax-deadlock"]),
        ((0, 10, 1), ["jax-deadlock"]),
        ((0, 10, 2), ["jax-deadlock", "jax-wrong-sums"]),
        ((0, 11, 2), ["jax-deadlock", "jax-wrong-sums"]),
        ((0, 12, 0, 1), ["jax-wrong-sums"]),
        ((0, 12, 1), []),
    ],
)
def test_each_version_of_jax_has_the_faults_that_were_seen(version, faults):
    known = (_jax_faults.DEADLOCK, *_jax_faults.FLAGGED)
    assert sorted(fault.name for fault in known if fault.concerns(version)) == faults


@pytest.mark.parametrize("python", PYTHONS)
def test_small_steps_on_simulated_devices_never_hang(python):
    for _ in range(3):
        lines = child(TRAIN, python=python, limit=180, CUDA_VISIBLE_DEVICES="").splitlines()
        assert lines[-1] == "steps 1500 False"
        deadlocks = any("deadlock" in line for line in lines)
        assert deadlocks == (python != sys.executable), lines
