"""What a host still has to install for this package, for the first cell of a notebook."""

import importlib.util
from importlib import metadata

from packaging.requirements import Requirement


def missing() -> str:
    """Arguments for `pip install`: the requirements of this package that are not met here.

    Empty where all are met, or where the package was not installed but lies on the path. JAX is
    among them only where there is none at all: a host's own carries the plugins of its accelerator,
    which any other version would lose, and `devices.use` guards against the faults of old ones.
    """
    try:
        declared = metadata.requires("chapter18") or []
    except metadata.PackageNotFoundError:
        return ""
    wanted = [Requirement(line) for line in declared]
    return " ".join(f'"{one.name}{one.specifier}"' for one in wanted if _is_missing(one))


def _is_missing(requirement):
    if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
        return False
    if requirement.name == "jax":
        return importlib.util.find_spec("jax") is None
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return True
    return not requirement.specifier.contains(version, prereleases=True)
