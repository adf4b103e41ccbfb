"""Build a model split over a mesh of devices, by rules that are checked first (section 4)."""

from chapter18.mesh._building import build, make_mesh, sharding_table
from chapter18.mesh._layouts import distribution, resolve

__all__ = [
    "build",
    "distribution",
    "make_mesh",
    "resolve",
    "sharding_table",
]
