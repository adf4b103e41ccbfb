"""What devices and links can do, by their makers' data sheets: memory, speed, latency."""

from typing import NamedTuple

import pandas as pd

_GB, _TERA, _MICRO = 10**9, 10**12, 1e-6


class Device(NamedTuple):
    """One device as JAX counts them (for TPU v2 and v3 a core, which is half a chip).

    `memory_bytes` is the data sheet's; `usable` the fraction of it that JAX takes by default.
    `flops_16` and `flops_32` are dense matrix FLOP/s as Keras runs 16-bit and float32 layers.
    """

    name: str
    kind: str
    memory_bytes: int
    usable: float
    flops_16: float
    flops_32: float
    source: str


class Link(NamedTuple):
    """What joins neighbours in a ring: bytes/s that one device sends, and seconds a message."""

    name: str
    bytes_per_second: float
    latency_seconds: float
    source: str


# JAX takes 75 % of a GPU unless XLA_PYTHON_CLIENT_MEM_FRACTION says otherwise (its GPU memory
# page). A TPU's compiler grants 15.75 GiB of a v5e's 16, less 0.25 GiB that it reserves.
_GPU, _TPU = 0.75, 0.96
_CLOUD = "docs.cloud.google.com/tpu/docs/"


def _gpu(name, gigabytes, tera_16, tera_32, source):
    return Device(name, "gpu", gigabytes * _GB, _GPU, tera_16 * _TERA, tera_32 * _TERA, source)


def _tpu(name, gigabytes, tera, page):
    # JAX's default precision feeds float32 operands to the matrix unit as bfloat16.
    memory = int(gigabytes * 2**30)
    return Device(name, "tpu", memory, _TPU, tera * _TERA, tera * _TERA, _CLOUD + page)


_DEVICES = (
    _gpu("P100", 16, 18.7, 9.3, "NVIDIA Tesla P100 PCIe data sheet"),
    _gpu("V100", 16, 125, 15.7, "NVIDIA V100 SXM2 data sheet"),
    _gpu("T4", 16, 65, 8.1, "NVIDIA T4 data sheet"),
    _gpu("L4", 24, 121, 60, "NVIDIA L4 data sheet, without sparsity; float32 as TF32"),
    _gpu("RTX 4090", 24, 165, 82.6, "NVIDIA Ada architecture white paper, without sparsity"),
    _gpu("A100-40GB", 40, 312, 156, "NVIDIA A100 data sheet; float32 as TF32"),
    _gpu("A100-80GB", 80, 312, 156, "NVIDIA A100 data sheet; float32 as TF32"),
    _gpu("H100", 80, 989, 494, "NVIDIA H100 SXM data sheet, without sparsity; float32 as TF32"),
    _gpu("H200", 141, 989, 494, "NVIDIA H200 SXM data sheet, without sparsity; float32 as TF32"),
    _tpu("v2", 8, 22.5, "v2"),
    _tpu("v3", 16, 61.5, "v3"),
    _tpu("v4", 32, 275, "v4"),
    _tpu("v5e", 16, 197, "v5e"),
    _tpu("v5p", 95, 459, "v5p"),
    _tpu("v6e", 32, 918, "v6e"),
)
# Bandwidth: half of what the data sheet gives for both directions. Latency is an assumption of
# the usual size: NCCL's small messages take some microseconds, a network's some tens.
_LINKS = (
    Link("PCIe 3", 16e9, 10 * _MICRO, "PCI-SIG, 16 lanes of 8 GT/s; latency assumed"),
    Link("PCIe 4", 32e9, 10 * _MICRO, "PCI-SIG, 16 lanes of 16 GT/s; latency assumed"),
    Link("PCIe 5", 64e9, 10 * _MICRO, "PCI-SIG, 16 lanes of 32 GT/s; latency assumed"),
    Link("NVLink 2", 150e9, 5 * _MICRO, "NVIDIA V100 data sheet, 300 GB/s; latency assumed"),
    Link("NVLink 3", 300e9, 5 * _MICRO, "NVIDIA A100 data sheet, 600 GB/s; latency assumed"),
    Link("NVLink 4", 450e9, 5 * _MICRO, "NVIDIA H100 data sheet, 900 GB/s; latency assumed"),
    # A ring uses two of the four ports of a two-dimensional torus, one in each direction.
    Link("ICI v5e", 100e9, 1 * _MICRO, _CLOUD + "v5e, 400 GB/s over 4 ports; latency assumed"),
    Link("ICI v6e", 200e9, 1 * _MICRO, _CLOUD + "v6e, 800 GB/s over 4 ports; latency assumed"),
    Link("Ethernet 10", 1.25e9, 30 * _MICRO, "10 Gbit/s; latency assumed"),
    Link("Ethernet 100", 12.5e9, 30 * _MICRO, "100 Gbit/s; latency assumed"),
)
DEVICES = {device.name: device for device in _DEVICES}
LINKS = {link.name: link for link in _LINKS}


def device(name: str | Device) -> Device:
    """Return the `Device` called `name`; a `Device` of your own is returned as it is.

    Raises ValueError, with the known names, when there is none.
    """
    return _look_up(name, DEVICES, Device)


def link(name: str | Link) -> Link:
    """Return the `Link` called `name`; a `Link` of your own is returned as it is.

    Raises ValueError, with the known names, when there is none.
    """
    return _look_up(name, LINKS, Link)


def devices_table() -> pd.DataFrame:
    """Return the known devices as a DataFrame; memory in GB (10⁹ bytes), speed in TFLOP/s."""
    columns = ["device", "kind", "memory (GB)", "16-bit TFLOP/s", "float32 TFLOP/s", "source"]
    rows = [
        (d.name, d.kind, d.memory_bytes / _GB, d.flops_16 / _TERA, d.flops_32 / _TERA, d.source)
        for d in _DEVICES
    ]
    return pd.DataFrame(rows, columns=columns).set_index("device")


def links_table() -> pd.DataFrame:
    """Return the known links as a DataFrame; GB/s one way and microseconds a message."""
    columns = ["link", "GB/s one way", "latency (µs)", "source"]
    rows = [
        (k.name, k.bytes_per_second / _GB, round(k.latency_seconds / _MICRO), k.source)
        for k in _LINKS
    ]
    return pd.DataFrame(rows, columns=columns).set_index("link")


def _look_up(name, known, kind):
    if isinstance(name, kind):
        return name
    if name not in known:
        raise ValueError(
            f"A {kind.__name__.lower()} is one that planning.hardware knows, or your own. "
            f"Received: {name!r}. Known are {list(known)}; "
            f"for another, pass hardware.{kind.__name__}({', '.join(kind._fields)})."
        )
    return known[name]
