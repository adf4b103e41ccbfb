"""Train in 16 bits and see which gradients are lost (section 7); `float8` trains in 8."""

from chapter18.mixed_precision._loss_scaling import Look, LossScaleWatch
from chapter18.mixed_precision._policies import gradient_underflow, policy_table

__all__ = [
    "Look",
    "LossScaleWatch",
    "gradient_underflow",
    "policy_table",
]
