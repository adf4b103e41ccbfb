"""Predict seconds a step and speed-ups from a plan: an α–β model of rings, on paper speeds."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from chapter18._shared import checks
from chapter18.planning import hardware
from chapter18.planning._plan import Plan

_EFFICIENCY = 0.4


class Step(NamedTuple):
    """Predicted seconds of one training step: what a device computes, then what it sends."""

    compute: float
    communication: float

    @property
    def seconds(self) -> float:
        """Both parts, one after the other."""
        return self.compute + self.communication


class Speedup(NamedTuple):
    """`n` devices do the work of `factor` ones (two digits), if the assumptions hold."""

    n: int
    factor: float
    one: Step
    many: Step
    assumptions: tuple[str, ...]

    def __repr__(self):
        lines = [f"{self.n} devices: {self.factor:g} times the samples a second, assuming"]
        return "\n".join(lines + [f"  - {line}" for line in self.assumptions])


def predict_step(
    plan: Plan,
    *,
    device: str | hardware.Device,
    link: str | hardware.Link,
    efficiency: float = _EFFICIENCY,
) -> Step:
    """Return the predicted `Step` of a `planning.plan` on such devices, joined by such links.

    Computing takes the plan's FLOPs at `efficiency` times the device's peak; sending takes, for
    each collective, the latency of its hops and its bytes at the link's speed, in a ring and with
    nothing overlapped. `device` and `link` are names in `hardware` or your own.

    Raises ValueError when the plan has no estimate of FLOPs and collectives.
    """
    estimate = _compiled(plan)
    device, link = hardware.device(device), hardware.link(link)
    return Step(
        estimate.flops / (efficiency * _peak(device, plan)),
        sum(_seconds(link, c.hops, c.sent) for c in estimate.collectives),
    )


def predict_speedup(
    plan: Plan,
    n: int,
    device: str | hardware.Device,
    link: str | hardware.Link,
    *,
    efficiency: float = _EFFICIENCY,
) -> Speedup:
    """Return how much more `n` copies of the plan's one replica train in the same time.

    The batch of each copy stays the plan's, so the global batch is `n` times larger; after each
    step the copies sum their gradients in a ring: 2 (n − 1) messages, and 2 (n − 1) / n times the
    gradients' bytes (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009).

    Raises ValueError when `n` is not a positive integer, when the plan has more than one replica,
    or when it has no estimate.
    """
    rule = "A speed-up is that of a positive number of replicas."
    n = checks.positive_integer(n, "n", rule=rule, remedy="Pass for example 8.")
    if plan.replicas != 1:
        raise ValueError(
            "A speed-up starts from a plan of one replica. "
            f"Received: a plan with {plan.data_axis}={plan.replicas}. "
            f"Plan with {plan.data_axis}=1 and the batch of one replica."
        )
    device, link = hardware.device(device), hardware.link(link)
    one = predict_step(plan, device=device, link=link, efficiency=efficiency)
    sent = round(2 * (n - 1) / n * plan.gradient_bytes)
    summing = _seconds(link, 2 * (n - 1), sent)
    many = Step(one.compute, one.communication + summing)
    factor = _two_digits(n * one.seconds / many.seconds)
    return Speedup(n, factor, one, many, _assumptions(plan, device, link, efficiency))


def compare(
    plans: Mapping[str, Plan],
    *,
    device: str | hardware.Device,
    link: str | hardware.Link,
    efficiency: float = _EFFICIENCY,
) -> pd.DataFrame:
    """Return a DataFrame that sets plans side by side; `plans` maps names to plans.

    A row holds, for one device: GB of each exact part, of temporaries and of what it sends in a
    step, the predicted milliseconds of a step (two digits), and whether it fits.
    """
    rows = [_row(plan, device, link, efficiency) for plan in plans.values()]
    return pd.DataFrame(rows, index=pd.Index(plans, name="plan"))


def _row(plan, device, link, efficiency):
    step = predict_step(plan, device=device, link=link, efficiency=efficiency)
    return {
        "parameters (GB)": plan.parameter_bytes / 1e9,
        "optimizer (GB)": plan.optimizer_bytes / 1e9,
        "inputs (GB)": plan.input_bytes / 1e9,
        "temporaries (GB)": plan.estimate.temporaries / 1e9,
        "sent (GB)": plan.estimate.collective_bytes / 1e9,
        "collectives": sum(c.times for c in plan.estimate.collectives),
        "step (ms)": _two_digits(1000 * step.seconds),
        "fits": plan.fits(device).verdict,
    }


def _assumptions(plan, device, link, efficiency):
    kind = "16-bit" if _is_16_bit(plan) else "float32"
    return (
        f"{device.name} reaches {efficiency:.0%} of {_peak(device, plan) / 1e12:g} TFLOP/s "
        f"({kind}; {device.source})",
        f"{link.name} gives {link.bytes_per_second / 1e9:g} GB/s each way and "
        f"{link.latency_seconds * 1e6:.0f} µs a message ({link.source})",
        "gradients are summed in a ring, after the step, with nothing overlapped",
        f"each device keeps its batch of {plan.batch_size:,}, and input never makes it wait",
        f"FLOPs are those of {plan.estimate.compiler}",
    )


def _compiled(plan):
    """The plan's estimate, with its FLOPs and collectives."""
    if plan.estimate is None or plan.estimate.flops is None or plan.estimate.collectives is None:
        why = "estimate=False" if plan.estimate is None else plan.estimate.refusal
        raise ValueError(
            "A prediction needs the FLOPs and collectives of a compiled step. "
            f"Received: a plan without them ({why}). Plan with estimate=True, on a mesh that fits."
        )
    return plan.estimate


def _peak(device, plan):
    return device.flops_16 if _is_16_bit(plan) else device.flops_32


def _is_16_bit(plan):
    return plan.compute_dtype in ("float16", "bfloat16")


def _seconds(link, hops, sent):
    return hops * link.latency_seconds + sent / link.bytes_per_second


def _two_digits(number):
    """`number` rounded to two significant digits; a prediction deserves no more."""
    return round(number, 1 - math.floor(math.log10(number))) if number > 0 else 0.0
