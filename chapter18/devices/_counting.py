"""Count accelerators from what the operating system shows, without waking JAX or CUDA."""

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

_NVIDIA, _GOOGLE = "0x10de", "0x1ae0"
_TWO_CORE_TPUS = {"0x0027", "0x0076"}  # PCI ids of TPU v2 and v3, and of TPU7x


class Accelerators(NamedTuple):
    """What this machine has: `number` counts JAX devices, `name` is the first one's."""

    kind: Literal["gpu", "tpu", "none"]
    number: int
    name: str = ""


@functools.cache
def count_accelerators() -> Accelerators:
    """Kind and number of accelerators, found in milliseconds; the answer is remembered.

    JAX is not initialised and no accelerator memory is allocated.
    """
    return find_accelerators()


def find_accelerators(root: str | Path = "/", env: Mapping[str, str] | None = None) -> Accelerators:
    """`count_accelerators` without its memory.

    `root` is the folder that holds `dev`, `proc` and `sys`, which Windows and macOS do not have;
    `env` maps environment variables.
    """
    root, env = Path(root), os.environ if env is None else env
    tpus = _count_tpus(root, env)
    if tpus:
        return Accelerators("tpu", tpus, env.get("TPU_ACCELERATOR_TYPE", "TPU"))
    gpus = _gpus_by_nvml() or _gpus_by_driver(root) or _gpus_by_pci(root)
    names = _visible(gpus, env.get("CUDA_VISIBLE_DEVICES"))
    return Accelerators("gpu", len(names), names[0]) if names else Accelerators("none", 0)


def _count_tpus(root, env):
    """TPU devices: the chips visible to this process, times the cores JAX sees on each."""
    ids = _pci_ids(root, _GOOGLE)
    chips = len(list((root / "dev").glob("accel[0-9]*")))
    if not chips and (ids or "TPU_ACCELERATOR_TYPE" in env):
        chips = len(list((root / "dev/vfio").glob("[0-9]*")))
    visible = env.get("TPU_VISIBLE_CHIPS", env.get("TPU_VISIBLE_DEVICES"))
    if visible:
        chips = min(chips, len(visible.split(",")))
    two_cores = bool(_TWO_CORE_TPUS & set(ids)) or re.match(
        r"v[23]-|tpu7x", env.get("TPU_ACCELERATOR_TYPE", "")
    )
    return chips * (2 if two_cores else 1)


def _gpus_by_nvml():
    """(UUID, name) of each NVIDIA GPU, in the driver's order."""
    try:
        import pynvml
    except ImportError:  # nvidia-ml-py is optional
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no driver
        return []
    try:
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        return [(pynvml.nvmlDeviceGetUUID(h), pynvml.nvmlDeviceGetName(h)) for h in handles]
    finally:
        pynvml.nvmlShutdown()


def _gpus_by_driver(root):
    gpus = []
    for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        text = path.read_text("utf-8")
        fields = dict(re.findall(r"^([^:\n]+):\s*(.*?)\s*$", text, re.MULTILINE))
        gpus.append((fields.get("GPU UUID", ""), fields.get("Model", "NVIDIA GPU")))
    return gpus


def _gpus_by_pci(root):
    # A container sees the host's PCI bus, but the driver's node only if it was lent a GPU.
    if not (root / "dev/nvidiactl").exists():
        return []
    return [("", "NVIDIA GPU") for _ in _pci_ids(root, _NVIDIA, klass="0x03")]


def _pci_ids(root, vendor, klass=""):
    """Device ids of the PCI cards of this vendor whose class starts with `klass`."""
    ids = []
    for card in sorted((root / "sys/bus/pci/devices").glob("*")):
        try:
            made_by, kind, device = (
                (card / name).read_text("ascii").strip() for name in ("vendor", "class", "device")
            )
        except OSError:  # a sandbox may hide a card's files, and cards can be pulled out
            continue
        if made_by == vendor and kind.startswith(klass):
            ids.append(device)
    return ids


def _visible(gpus, chosen):
    """Names of the GPUs that CUDA_VISIBLE_DEVICES leaves: as in CUDA, up to the first bad entry."""
    if chosen is None:
        return [name for _, name in gpus]
    names = []
    for entry in filter(None, (part.strip() for part in chosen.split(","))):
        if entry.isdigit():
            matches = gpus[int(entry) : int(entry) + 1]
        elif entry.startswith("MIG-"):  # a slice of some GPU
            matches = gpus[:1]
        else:
            matches = [gpu for gpu in gpus if gpu[0].startswith(entry)]
        if not matches:
            break
        names += [name for _, name in matches]
    return names
