"""What `count_accelerators` finds on machines that are folders here."""

import sys
import types

import pytest

from chapter18 import devices
from chapter18.devices._counting import find_accelerators


@pytest.fixture
def no_nvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)


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
