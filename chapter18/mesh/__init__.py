"""Build a model split over a mesh of devices, by rules that are checked first (section 4)."""

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
