"""Build a model split over a mesh of devices, by rules that are checked first (section 4).

    grid = mesh.make_mesh(data=2, model=4)
    model = mesh.build(make_model, x[:8], "megatron", mesh=grid)  # or rules of your own:
    model = mesh.build(make_model, x[:8], {".*dense/kernel": (None, "model")}, mesh=grid)
    mesh.sharding_table(model)

Keras replicates what no rule matches, without a word; here each rule must match and divide.
`resolve` and `distribution` are the two halves of `build`, for whoever has a model already.
"""

from chapter18.mesh._building import build, make_mesh, sharding_table
from chapter18.mesh._layouts import Rules, distribution, resolve

__all__ = [
    "Rules",
    "build",
    "distribution",
    "make_mesh",
    "resolve",
    "sharding_table",
]
