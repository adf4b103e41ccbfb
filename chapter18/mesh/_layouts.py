"""Decide on which mesh axis each variable is split, and refuse rules that would do nothing."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import keras

from chapter18.mesh import _schemes

Rules: TypeAlias = Mapping[str, Sequence[str | None]]
Specs: TypeAlias = dict[str, tuple[str | None, ...]]


def resolve(model: keras.Model, mesh: keras.distribution.DeviceMesh, layout: str | Rules) -> Specs:
    """Return `{path: spec}` for every variable of `model`; nothing is allocated or changed.

    A spec is a tuple with one entry an axis of the variable: the name of the mesh axis it is split
    along, or None. `layout` is the name of a scheme, or rules: a dict from
    regular expressions, which must match a whole path, to specs. What no rule matches is
    replicated: its spec is all None.

    Raises ValueError, naming the rule, the variable and the nearest paths, when a rule matches no
    variable, when two rules match one, when a spec's length is not the variable's rank, names an
    axis the mesh lacks or names one twice, or when a split axis does not divide. Raises TypeError
    for rules of another type.
    """
    sizes = dict(zip(mesh.axis_names, mesh.shape, strict=True))
    if isinstance(layout, str):
        return _by_path(_schemes.specs(model, layout, sizes))
    _check_types(layout)
    owner = _owners(model, layout)
    pairs = []
    for variable in model.variables:
        rule = owner.get(variable.path)
        spec = (None,) * len(variable.shape) if rule is None else tuple(layout[rule])
        if rule is not None:
            _check_fit(rule, spec, variable, sizes)
        pairs.append((variable, spec))
    return _by_path(pairs)


def distribution(
    mesh: keras.distribution.DeviceMesh, specs: Specs, *, data_axis: str = "data"
) -> keras.distribution.ModelParallel:
    """Return the `keras.distribution.ModelParallel` that gives each path its spec.

    `specs` is what `resolve` returns; batches are split along `data_axis`. Optimizer slots follow
    their variables. With several processes, each feeds its own rows of every batch. Raises
    ValueError when the mesh has no such axis.
    """
    if data_axis not in mesh.axis_names:
        raise ValueError(
            "Batches are split along an axis of the mesh. "
            f"Received: data_axis={data_axis!r} for a mesh with the axes {list(mesh.axis_names)}. "
            "Name one of them, or add one of size 1: make_mesh(data=1, model=8)."
        )
    layout_map = keras.distribution.LayoutMap(mesh)
    for path, spec in specs.items():
        layout_map[path] = spec
    return keras.distribution.ModelParallel(
        layout_map=layout_map, batch_dim_name=data_axis, auto_shard_dataset=False
    )


def _check_types(rules):
    if not isinstance(rules, dict):
        raise TypeError(
            "A layout is a dict of rules or the name of a scheme. "
            f"Received: {type(rules).__name__}. "
            f"Pass {{'.*/kernel': (None, 'model')}} or one of {sorted(_schemes.SCHEMES)}."
        )
    for rule, spec in rules.items():
        if not isinstance(spec, tuple | list):
            raise TypeError(
                "A rule's spec is a tuple with one entry for each axis of the variable. "
                f"Received: {spec!r} for rule {rule!r}. Write for example ('model',) for a bias."
            )


def _owners(model, rules):
    """Return `{path: rule}`; every rule owns at least one path and every path has one owner."""
    paths = list(dict.fromkeys(variable.path for variable in model.variables))
    owner = {}
    for rule in rules:
        matches = [path for path in paths if re.fullmatch(rule, path)]
        if not matches:
            raise ValueError(
                "Each rule must match the whole path of at least one variable. "
                f"Received: rule {rule!r}, which matches none. {_nearest(rule, paths)}"
            )
        for path in matches:
            if path in owner:
                raise ValueError(
                    "Each variable may be matched by one rule only. "
                    f"Received: variable {path!r}, matched by {owner[path]!r} and {rule!r}. "
                    "Make one of the two rules narrower."
                )
            owner[path] = rule
    return owner


def _nearest(rule, paths):
    parts = [path for path in paths if re.search(rule, path)]
    if parts:
        return f"It matches only a part of {parts[:3]}: write {'.*' + rule!r} or the whole path."
    near = difflib.get_close_matches(rule, paths, n=3, cutoff=0.0)
    return f"The nearest paths are {near}."


def _check_fit(rule, spec, variable, sizes):
    received = f"Received: rule {rule!r} with {spec}"
    shape = tuple(variable.shape)
    if len(spec) != len(shape):
        raise ValueError(
            "A spec has one entry for each axis of its variable. "
            f"{received}, which matches variable {variable.path!r} of shape {shape}. "
            f"Give it {len(shape)} entries, or make the rule narrower."
        )
    named = [axis for axis in spec if axis is not None]
    if len(set(named)) < len(named) or not set(named) <= set(sizes):
        raise ValueError(
            "A spec names axes of the mesh, each at most once, and None. "
            f"{received} for variable {variable.path!r}. The mesh has the axes {list(sizes)}."
        )
    for size, axis in zip(shape, spec, strict=True):
        if axis is not None and size % sizes[axis]:
            raise ValueError(
                "An axis that is split must divide by the size of the mesh axis. "
                f"{received}: variable {variable.path!r} of shape {shape} has an axis of {size}, "
                f"and {axis!r} has {sizes[axis]} devices. {_advice(shape, sizes[axis])}"
            )


def _advice(shape, devices):
    fits = [index for index, size in enumerate(shape) if size % devices == 0]
    return f"Split axis {fits[0]} instead." if fits else "Leave this variable replicated."


def _by_path(pairs):
    specs = {}
    for variable, spec in pairs:
        if specs.setdefault(variable.path, spec) != spec:
            raise ValueError(
                "Variables that share a path share a spec. "
                f"Received: {variable.path!r} with {specs[variable.path]} and {spec}. "
                "Give the layers of the model different names."
            )
    return specs
