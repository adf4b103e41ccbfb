"""Save a model under one distribution and restore it under another, proven on the spot.

checkpoints.save(model, "model.keras")
model = checkpoints.restore("model.keras")  # whole, or split over a mesh:
model = checkpoints.restore("model.keras", build=make_model, sample=x[:8], layout="megatron",
                            mesh=mesh.make_mesh(data=1, model=8))
"""

from chapter18.checkpoints._saving import restore, save

__all__ = [
    "restore",
    "save",
]
