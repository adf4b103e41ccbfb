"""Layouts made from the model itself: by columns, Megatron's pairs, fully sharded, replicated.

Any layout gives the same numbers; a scheme only chooses what each device keeps and sends.
"""

from typing import NamedTuple

_HEADS = {"query", "key", "value"}
_HEADS_OUT = "attention_output"


class _Group(NamedTuple):
    """The variables of one layer, by their own name, and the layer's path."""

    path: str
    variables: dict

    @property
    def kernel(self):
        return self.variables.get("kernel", self.variables.get("embeddings"))

    @property
    def is_dense(self):
        return set(self.variables) <= {"kernel", "bias"} and len(self.kernel.shape) == 2


def specs(model, name, sizes):
    """Return `(variable, spec)` for every variable of `model` under the scheme called `name`.

    `sizes` maps the mesh's axis names to their sizes. What does not divide stays replicated.
    Raises ValueError when there is no such scheme, when the mesh lacks the axis that it splits
    along, and when it would split nothing.
    """
    if name not in SCHEMES:
        raise ValueError(
            "A layout is given as rules or as the name of a scheme. "
            f"Received: {name!r}. The schemes are {sorted(SCHEMES)}."
        )
    scheme, axis = SCHEMES[name]
    if axis is not None and axis not in sizes:
        raise ValueError(
            f"The scheme {name!r} splits along the mesh axis {axis!r}. "
            f"Received: a mesh with the axes {list(sizes)}. "
            f"Make one that has it, for example make_mesh({axis}=2)."
        )
    split = scheme(model, axis, sizes.get(axis, 1))
    if axis is not None and not split:
        raise ValueError(
            f"The scheme {name!r} must split at least one variable. "
            f"Received: a model with nothing that divides by {axis}={sizes[axis]}. "
            "Use a smaller axis, or write rules of your own."
        )
    return [(v, split.get(id(v), (None,) * len(v.shape))) for v in model.variables]


def columns(model, axis, size):
    """Split each layer's outputs: its kernel along the last axis, and its bias; heads whole."""
    split = {}
    for group in _groups(model):
        _split_outputs(split, group, axis, size)
    return split


def megatron(model, axis, size):
    """Split pairs of dense layers by column, then by row: only the second one's sum travels.

    Attention is such a pair: query, key and value by heads, the output projection by the same
    heads. An embedding is split along its vocabulary, a dense layer without a partner by columns.
    Source: Shoeybi and others, Megatron-LM (2019), section 3.
    """
    split, first = {}, None
    for group in _groups(model):
        if _parent(group.path)[1] == _HEADS_OUT or (first and _is_chain(first, group, size)):
            _put(split, group.kernel, 0, axis, size)
            first = None
        elif "embeddings" in group.variables:
            _put(split, group.kernel, 0, axis, size)
        else:
            _split_outputs(split, group, axis, size)
            first = group if group.is_dense else None
    return split


def fsdp(model, axis, size):
    """Split every floating-point variable along its longest axis that divides.

    Source: Rajbhandari and others, ZeRO (2020), stage 3; XLA gathers a layer when it is needed.
    """
    split = {}
    for variable in model.variables:
        fits = [i for i, length in enumerate(variable.shape) if length % size == 0]
        if fits and "float" in str(variable.dtype):
            longest = max(fits, key=lambda i, shape=variable.shape: shape[i])
            _put(split, variable, longest, axis, size)
    return split


def replicated(model, axis, size):  # noqa: ARG001 (called like the other schemes)
    """Split nothing: plain data parallelism."""
    return {}


SCHEMES = {
    "columns": (columns, "model"),
    "megatron": (megatron, "model"),
    "fsdp": (fsdp, "data"),
    "replicated": (replicated, None),
}


def _groups(model):
    """The layers that own a kernel or embeddings, in the order in which they were made."""
    groups = {}
    for variable in model.variables:
        path, name = _parent(variable.path)
        groups.setdefault(path, {})[name] = variable
    found = [_Group(path, variables) for path, variables in groups.items()]
    return [g for g in found if g.kernel is not None and len(g.kernel.shape) > 1]


def _parent(path):
    head, _, tail = path.rpartition("/")
    return head, tail


def _split_outputs(split, group, axis, size):
    heads = _parent(group.path)[1] in _HEADS and len(group.kernel.shape) == 3
    kernel_axis, bias_axis = (1, 0) if heads else (len(group.kernel.shape) - 1, -1)
    for name, variable in group.variables.items():
        if name == "bias":
            _put(split, variable, bias_axis % len(variable.shape), axis, size)
        elif len(variable.shape) == len(group.kernel.shape):
            _put(split, variable, kernel_axis, axis, size)


def _is_chain(first, second, size):
    """Whether `second` is a dense layer beside `first` that takes what `first` gives."""
    return (
        second.is_dense
        and _parent(first.path)[0] == _parent(second.path)[0]
        and first.kernel.shape[1] == second.kernel.shape[0]
        and first.kernel.shape[1] % size == 0
    )


def _put(split, variable, index, axis, size):
    if variable.shape[index] % size == 0:
        split[id(variable)] = tuple(
            axis if i == index else None for i in range(len(variable.shape))
        )
