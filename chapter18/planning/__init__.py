"""What a training step will need on devices that are not here: bytes, messages, seconds."""

from chapter18.planning._estimate import Estimate
from chapter18.planning._hlo import Collective
from chapter18.planning._plan import Fit, Plan
from chapter18.planning._planning import plan
from chapter18.planning._sizing import SmallestMesh, smallest_mesh
from chapter18.planning._speedup import Speedup, Step, compare, predict_speedup, predict_step
from chapter18.planning._step import PlannedArray

__all__ = [
    "Collective",
    "Estimate",
    "Fit",
    "Plan",
    "PlannedArray",
    "SmallestMesh",
    "Speedup",
    "Step",
    "compare",
    "plan",
    "predict_speedup",
    "predict_step",
    "smallest_mesh",
]
