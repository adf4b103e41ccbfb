"""Searches that were killed, or left with torn files, lose nothing that was recorded."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import keras_tuner as kt
import numpy as np
import pytest
from toy_searches import make_numbers, search_numbers

from chapter18 import tuning
from chapter18.tuning import _snapshots

HERE = Path(__file__).parent
RESULTS = [[3.0, 5.0], [1.0, 2.0], [6.0, 7.0]]
TORN = {
    "empty": lambda _: "",
    "half": lambda text: text[: len(text) // 2],
    "one character short": lambda text: text[:-1],
}


def test_what_is_written_is_read(tmp_path):
    state = {"a": [1, 2.5, None, float("inf")], "ب": {"c": "آزمایش"}}
    _snapshots.write(tmp_path / "state.json", state)
    assert _snapshots.read(tmp_path / "state.json") == state
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state.json", "state.json.backup"]


def test_what_was_never_written_is_none(tmp_path):
    assert _snapshots.read(tmp_path / "state.json") is None


@pytest.mark.parametrize("tear", TORN.values(), ids=TORN)
@pytest.mark.parametrize("name", ["state.json", "state.json.backup"])
def test_one_torn_copy_costs_nothing(tmp_path, name, tear):
    _snapshots.write(tmp_path / "state.json", {"a": 1})
    torn = tmp_path / name
    torn.write_text(tear(torn.read_text()))
    assert _snapshots.read(tmp_path / "state.json") == {"a": 1}


def test_two_torn_copies_are_refused(tmp_path):
    _snapshots.write(tmp_path / "state.json", {"a": 1})
    (tmp_path / "state.json").write_text("")
    (tmp_path / "state.json.backup").unlink()
    with pytest.raises(ValueError, match=r"one whole copy\. Received: .*state\.json, torn"):
        _snapshots.read(tmp_path / "state.json")


def test_a_changed_copy_is_not_believed(tmp_path):
    _snapshots.write(tmp_path / "state.json", {"score": 1})
    for path in tmp_path.iterdir():
        path.write_text(path.read_text().replace('"score": 1', '"score": 2'))
    with pytest.raises(ValueError, match="torn or changed by hand"):
        _snapshots.read(tmp_path / "state.json")


@pytest.mark.parametrize("tear", TORN.values(), ids=TORN)
@pytest.mark.parametrize(
    "name",
    [
        "oracle.json",
        "tuner0.json",
        "trial_0/trial.json",
        "trial_2/trial.json",
        "trial_1/executions.json",
        "trial_1/executions.json.backup",
        "snapshot.json",
        "snapshot.json.backup",
    ],
)
def test_a_search_with_a_torn_file_goes_on(tmp_path, name, tear):
    before = tuning.trials_table(search_numbers(tmp_path, RESULTS))
    torn = tmp_path / "numbers" / name
    torn.write_text(tear(torn.read_text()))
    tuner = search_numbers(tmp_path, [None, None, None, [0.0, 1.0]])
    after = tuning.trials_table(tuner)
    assert after[:3].equals(before)
    assert after["score"][3] == 0.5
    assert after["width"].nunique() == 4


def test_a_search_with_every_file_of_keras_tuner_torn_goes_on(tmp_path):
    before = tuning.trials_table(search_numbers(tmp_path, RESULTS))
    for name in ("oracle.json", "tuner0.json", "trial_*/trial.json"):
        for path in (tmp_path / "numbers").glob(name):
            path.write_text("")
    assert tuning.trials_table(make_numbers(tmp_path, RESULTS)).equals(before)


def test_a_search_without_a_whole_snapshot_is_refused(tmp_path):
    search_numbers(tmp_path, RESULTS)
    for path in (tmp_path / "numbers").glob("snapshot.json*"):
        path.write_text("{")
    with pytest.raises(
        ValueError, match=r"one whole copy\. Received: .*snapshot\.json and .*backup"
    ):
        make_numbers(tmp_path, RESULTS)


def test_the_snapshot_comes_before_the_file_it_repairs(tmp_path):
    """A kill in between would else leave a search that cannot be told from a plain one."""
    project = Path(make_numbers(tmp_path).project_dir)
    written = [project / name for name in ("snapshot.json.backup", "oracle.json")]
    times = [path.stat().st_mtime_ns for path in written]
    assert times[0] <= times[1]


def test_no_snapshot_calls_an_ended_trial_ongoing(tmp_path):
    tuner = make_numbers(tmp_path, RESULTS)
    save, seen = tuner.oracle.save, []

    def watched():
        save()
        seen.append(_snapshots.read(Path(tuner.project_dir) / "snapshot.json")["oracle"])

    tuner.oracle.save = watched
    tuner.search(verbose=0)
    assert {len(oracle["end_order"]) for oracle in seen} == {0, 1, 2, 3}
    for oracle in seen:
        assert not set(oracle["ongoing_trials"].values()) & set(oracle["end_order"])


def test_a_bayesian_search_goes_on_with_its_random_numbers(tmp_path):
    class Bayes(kt.BayesianOptimization):
        results = ()

        def run_trial(self, trial, *_, **__):
            return self.results[int(trial.trial_id)]

    options = {"tuner_class": Bayes, "num_initial_points": 2}
    tuner = search_numbers(tmp_path, [2.0, 3.0, 1.0], **options)
    resumed = make_numbers(tmp_path, [2.0, 3.0, 1.0], **options)
    before, after = (each.oracle._random_state.get_state() for each in (tuner, resumed))
    fresh = np.random.RandomState(5).get_state()
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (before[2], *before[1][:3]) != (fresh[2], *fresh[1][:3])


def test_leftovers_of_a_kill_are_cleared(tmp_path):
    search_numbers(tmp_path, RESULTS)
    project = tmp_path / "numbers"
    (project / ".snapshot.json.1.tmp").write_text("{")
    (project / "trial_3").mkdir()
    (project / "trial_3" / "trial.json").write_text("{")
    assert list(make_numbers(tmp_path, RESULTS).oracle.trials) == ["0", "1", "2"]
    assert not list(project.glob("**/.*.tmp"))


@pytest.mark.once
def test_random_kills_of_the_four_tuners_lose_nothing():
    """The campaign compares every rerun with an uninterrupted search and fails at a difference."""
    command = [sys.executable, HERE / "crash_campaign.py", "--kills", "8", "--seed", "4"]
    done = subprocess.run(
        command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    campaigns = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["kills"] for each in campaigns] == [2, 2, 2, 2]


def _start(directory):
    return subprocess.Popen(
        [sys.executable, HERE / "mnist_search.py", directory],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "KERAS_BACKEND": "jax"},
    )


def _scores(process):
    try:
        output = process.communicate(timeout=600)[0]
    finally:
        process.kill()
    assert process.returncode == 0, output
    return json.loads(output.split("scores ")[1].splitlines()[0])


def _recorded(directory):
    try:
        trials = _snapshots.read(directory / "mnist" / "snapshot.json")["trials"]
    except TypeError:
        return {}
    return {name: each["score"] for name, each in trials.items() if each["status"] == "COMPLETED"}


def test_a_killed_search_on_mnist_ends_as_if_it_had_not_been_killed(tmp_path):
    killed = _start(tmp_path / "killed")
    try:
        deadline = time.monotonic() + 600
        while len(_recorded(tmp_path / "killed")) < 2 and time.monotonic() < deadline:
            assert killed.poll() is None, killed.communicate()[0]
            time.sleep(0.02)
        # Now the third trial is in flight.
        time.sleep(0.5)
    finally:
        killed.kill()
    assert killed.wait() == -9
    killed.stdout.close()
    before = _recorded(tmp_path / "killed")
    resumed = _scores(_start(tmp_path / "killed"))
    uninterrupted = _scores(_start(tmp_path / "whole"))
    assert 2 <= len(before) < 4
    assert before.items() <= resumed.items()
    assert resumed == uninterrupted
    assert list(resumed) == ["0000", "0001", "0002", "0003"]
