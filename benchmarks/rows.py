"""One line of the benchmarks' table."""

from typing import NamedTuple


class Row(NamedTuple):
    """A comparison: seconds of the usual way and of ours, their ratio, and what was checked."""

    name: str
    baseline_seconds: float
    ours_seconds: float
    ratio: float
    note: str
