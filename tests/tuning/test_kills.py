"""A search that trains, killed at a known moment, ends as one that nobody killed."""

import mnist_search
import pytest
from child import run_child

from chapter18.tuning import _snapshots


def test_a_killed_search_on_mnist_ends_as_if_it_had_not_been_killed(tmp_path):
    killed = tmp_path / "killed"
    with pytest.raises(AssertionError, match=f"exit code {mnist_search.DIED}"):
        run_child("mnist_search.py", killed, "0002", devices=0)
    trials = _snapshots.read(killed / "mnist" / "snapshot.json")["trials"]
    recorded = {name: each["score"] for name, each in trials.items() if each["score"] is not None}
    assert list(recorded) == ["0000", "0001"]
    resumed = mnist_search.search(killed)
    assert recorded.items() <= resumed.items()
    assert resumed == mnist_search.search(tmp_path / "whole")
    assert list(resumed) == ["0000", "0001", "0002", "0003"]
