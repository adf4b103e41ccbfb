"""Read in a compiled program's text, in HLO, what its devices send to each other."""

import math
import re
from collections import defaultdict
from typing import NamedTuple

_KINDS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
_COLLECTIVE = re.compile(rf"= (?P<type>.*?) (?P<kind>{_KINDS})(?P<start>-start)?\(")
_ARRAY = re.compile(r"\b(pred|bf16|[a-z]+\d+(?:e\d+m\d+\w*)?)\[([\d,]*)\]")
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_CALLED = re.compile(r"\b(?:calls|to_apply|body|\w+_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")


class Collective(NamedTuple):
    """One kind of message: `kind`, `bytes` of the whole array, devices in a ring, times a step."""

    kind: str
    bytes: int
    devices: int
    times: int

    @property
    def sent(self) -> int:
        """Bytes that one device sends in a step, in a ring (Patarasuk and Yuan, 2009)."""
        share = (self.devices - 1) / self.devices
        factor = {"all-reduce": 2 * share, "collective-permute": 1}.get(self.kind, share)
        return round(self.bytes * factor) * self.times

    @property
    def hops(self) -> int:
        """Messages that follow one another in a step, each of which costs the link's latency."""
        n = self.devices - 1
        return {"all-reduce": 2 * n, "collective-permute": 1}.get(self.kind, n) * self.times


def find(text, devices):
    """Return the `Collective`s of one step as a tuple, the equal ones counted together.

    `text` is a compiled program in HLO, for all of `devices`. What stands in a loop counts as
    often as the loop runs; once, when the compiler does not say how often.
    """
    times = _times(text)
    found, channels = defaultdict(int), set()
    for name, line in _lines(text):
        match = _COLLECTIVE.search(line)
        if not match:
            continue
        # An accelerator's compiler may spread one message over several fusions.
        channel = re.search(r"channel_id=(\d+)", line)
        if channel and channel[1] in channels:
            continue
        channels.add(channel and channel[1])
        group = _group(line, match["kind"], devices)
        if group > 1:
            found[match["kind"], _bytes(match, group), group] += times[name]
    return tuple(Collective(*key, count) for key, count in sorted(found.items()))


def has_loop(text):
    """Whether the compiled program `text` repeats anything."""
    return " while(" in text


def _lines(text):
    """Yield `(computation, line)`; a computation is a function of the program."""
    name = ""
    for line in text.splitlines():
        header = _HEADER.match(line)
        if header:
            name = header[2]
        else:
            yield name, line


def _times(text):
    """How often a step runs each computation."""
    limits, callers = _limits(text), defaultdict(list)
    for name, line in _lines(text):
        trips = _trips(line, limits)
        called = _CALLED.findall(line)
        for branches in _BRANCHES.findall(line):
            called += re.findall(r"[\w.\-]+", branches)
        for computation in called:
            callers[computation].append((name, trips))
    known = {}

    def times(name):
        if name not in known:
            known[name] = sum(times(by) * count for by, count in callers.get(name, ())) or 1
        return known[name]

    return defaultdict(lambda: 1, {name: times(name) for name in callers})


def _trips(line, limits):
    """How often the loop on `line` runs its body; 1 if the line is not a loop, or unknown."""
    loop = re.search(r" while\(.*condition=%?([\w.\-]+)", line)
    if not loop:
        return 1
    stated = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
    return int(stated[1]) if stated else limits.get(loop[1], 1)


def _limits(text):
    """`{computation: N}` for the conditions of counting loops, `counter < N`."""
    constants, limits = {}, {}
    for name, line in _lines(text):
        constant = re.search(r"%?([\w.\-]+) = s32\[\]\S* constant\((\d+)\)", line)
        if constant:
            constants[name, constant[1]] = int(constant[2])
        test = re.search(r"ROOT .* compare\(.*?%?([\w.\-]+)\), direction=LT", line)
        if test and (name, test[1]) in constants:
            limits[name] = constants[name, test[1]]
    return limits


def _group(line, kind, devices):
    """How many devices take part in one ring."""
    if kind == "collective-permute":
        return devices
    short = re.search(r"replica_groups=\[\d+,(\d+)\]", line)
    if short:
        return int(short[1])
    listed = re.search(r"replica_groups=\{\{([\d,]+)\}", line)
    if listed:
        return len(listed[1].split(","))
    named = re.search(r"replica_groups=mesh\[(.*?)\] ?\{(.*?)\}", line)
    if not named:
        return devices
    # Newer compilers name mesh axes, or a part of one: 'model', or 'model':(1)2.
    sizes = dict(re.findall(r"'([^']+)'=(\d+)", named[1]))
    axes = re.findall(r"'([^']+)'(?::\(\d+\)(\d+))?", named[2])
    return math.prod(int(part or sizes[axis]) for axis, part in axes)


def _bytes(match, group):
    """Bytes of the whole array, from the type of the result."""
    arrays = [_size(*array) for array in _ARRAY.findall(match["type"])]
    if match["start"] and match["kind"] == "collective-permute":
        arrays = arrays[1:2]
    elif match["start"] and match["kind"] != "all-reduce":
        arrays = arrays[len(arrays) // 2 :]
    return sum(arrays) * (group if match["kind"] == "reduce-scatter" else 1)


def _size(dtype, shape):
    bits = 8 if dtype == "pred" else int(re.search(r"\d+", dtype)[0])
    return math.prod(int(n) for n in shape.split(",") if n) * bits // 8
