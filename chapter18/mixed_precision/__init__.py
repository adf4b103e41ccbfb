"""Train in 16 bits and see which gradients are lost (section 7); `float8` trains in 8.

mixed_precision.policy_table(model)                       # which layer computes in what
mixed_precision.gradient_underflow(model, x, y, [1, 2**15])  # what a loss scale saves
model.fit(x, y, callbacks=[mixed_precision.LossScaleWatch()])
"""

from chapter18.mixed_precision._loss_scaling import Look, LossScaleWatch
from chapter18.mixed_precision._policies import gradient_underflow, policy_table

__all__ = [
    "Look",
    "LossScaleWatch",
    "gradient_underflow",
    "policy_table",
]
