"""What a host installs beside the package, from what distributions say of themselves."""

import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from chapter18 import requirements

ROOT = Path(__file__).parents[2]
DECLARED = ["keras>=3.15", "jax>=0.7.2,!=0.10.*", "six", "numpy>=2.1", 'lab>=1; extra == "course"']


@pytest.fixture
def host(monkeypatch, tmp_path):
    """Installs a distribution that has only metadata, in front of this environment's own."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name, version, requires=()):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        lines = [f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {line}" for line in requires]
        (folder / "METADATA").write_text("Metadata-Version: 2.4\n" + "\n".join(lines) + "\n")

    install("chapter18", "0.1.0", DECLARED)
    return install


def test_only_what_is_missing_or_too_old_is_asked_for(host):
    host("keras", "3.13.2")
    host("numpy", "2.3.0rc1")
    host("six", "1.0")
    host("jax", "0.10.2")
    assert requirements.missing() == '"keras>=3.15"'


def test_a_nightly_of_a_later_release_is_new_enough(host):
    host("keras", "3.16.0.dev2026102704")
    host("numpy", "2.1")
    assert requirements.missing() == ""


def test_jax_is_asked_for_only_where_there_is_none(host, monkeypatch):
    monkeypatch.setattr(requirements.importlib.util, "find_spec", lambda _: None)
    host("keras", "3.15.1")
    assert requirements.missing() == '"jax!=0.10.*,>=0.7.2"'


def test_a_package_that_only_lies_on_the_path_asks_for_nothing(monkeypatch):
    monkeypatch.setattr("sys.path", [])
    assert requirements.missing() == ""


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def declared():
    """Every requirement of the project and of its extras, but for its own name."""
    extras = project()["optional-dependencies"].values()
    lines = [*project()["dependencies"], *(line for extra in extras for line in extra)]
    return [one for one in map(Requirement, lines) if one.name != "chapter18"]


def locked():
    """`{name: version}` of constraints.txt, the lines for another Python or system included."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.lstrip().startswith("#")]
    assert all(re.fullmatch(r"==[^*,]+", str(pin.specifier)) for pin in pins)
    assert not any(pin.url or pin.extras for pin in pins)
    versions = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in pins}
    assert len(versions) == len(pins), "one version serves every Python and system"
    return versions


def test_every_requirement_is_declared_once():
    names = [one.name for one in declared() if not one.extras]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_the_lock_meets_every_requirement():
    versions = locked()
    for one in declared():
        assert one.specifier.contains(versions[canonicalize_name(one.name)]), one
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"][
        "requires"
    ]
    assert Requirement(backend).specifier.contains(versions["setuptools"])


@pytest.mark.parametrize("version", ["0.9.0", "0.9.0.1", "0.10.2", "0.11.2", "0.12.0", "0.12.0.1"])
def test_a_jax_that_deadlocks_or_adds_wrongly_is_excluded(version):
    (jax,) = (one for one in map(Requirement, project()["dependencies"]) if one.name == "jax")
    assert not jax.specifier.contains(version)
    assert jax.specifier.contains("0.7.2")
    assert jax.specifier.contains("0.12.1")


@pytest.mark.skipif("CHAPTER18_LOCKED" not in os.environ, reason="CHAPTER18_LOCKED is not set")
def test_this_environment_holds_what_is_locked_and_nothing_newer():
    """What .ci/run asks of a fresh environment; others may hold what they like."""
    versions = locked()
    installed = {canonicalize_name(one.name): one.version for one in metadata.distributions()}
    # The package itself, and what a fresh virtual environment brings to install with.
    ours = installed.keys() - {"chapter18", "pip", "setuptools", "wheel"}
    assert {name: installed[name] for name in ours if versions.get(name) != installed[name]} == {}
    assert {canonicalize_name(one.name) for one in declared() if _wanted(one)} <= ours


def _wanted(requirement):
    """Whether the extra `test` brings the requirement."""
    extras = project()["optional-dependencies"]
    optional = {Requirement(line).name for name in ("tpu-plan", "tfdata") for line in extras[name]}
    return requirement.name == "jax" or requirement.name not in optional
