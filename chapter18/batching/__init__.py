"""Batches that many devices share without corrupting results, and that keep coming (section 3).

batching.plan_batches(10_000, 240, 8).outcome  # what becomes of the last batch, in a sentence
x, y = batching.trim(x, y, batch_size=240)     # leave out of fit what would not split
model.fit(x, y, batch_size=240, callbacks=[batching.Validation(x_val, y_val, batch_size=240)])
batching.evaluate(model, x_test, y_test, batch_size=240)  # any number of rows, exactly
batching.measure_starvation(model, pipeline, steps=100)   # does training wait for its input?
"""

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
