"""Several training steps in one compiled program (section 5)."""

from chapter18.steps._fusing import Fused, fuse
from chapter18.steps._scans import KERAS_FUSES

__all__ = [
    "KERAS_FUSES",
    "Fused",
    "fuse",
]
