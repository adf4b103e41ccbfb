"""Batches that many devices share without corrupting results, and that keep coming (section 3)."""

from chapter18.batching._evaluation import Validation, evaluate, predict
from chapter18.batching._plans import BatchPlan, plan_batches, trim
from chapter18.batching._starvation import Starvation, measure_starvation

__all__ = [
    "BatchPlan",
    "Starvation",
    "Validation",
    "evaluate",
    "measure_starvation",
    "plan_batches",
    "predict",
    "trim",
]
