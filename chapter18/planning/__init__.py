"""What a training step will need on devices that are not here: bytes, messages, seconds.

    plan = planning.plan(make_model, mesh={"data": 2, "model": 4}, layout="columns",
                         batch_size=256, optimizer="adam", loss="mse")
    plan.require("T4")                      # MemoryError before anything is allocated
    planning.smallest_mesh(make_model, device="T4", batch_size=256)
    planning.predict_step(plan, device="v5e", link="ICI v5e").seconds

The model is compiled and never run. `hardware` holds what devices and links can do.
"""

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
