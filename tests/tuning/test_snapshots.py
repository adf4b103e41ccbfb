"""Searches that were killed, or left with torn files, lose nothing that was recorded."""

import json
from pathlib import Path

import keras_tuner as kt
import numpy as np
import pytest
from child import run_child
from toy_searches import make_numbers, search_numbers

from chapter18 import tuning
from chapter18.tuning import _snapshots

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
    printed = run_child("crash_campaign.py", "--kills", 8, "--seed", 4, devices=0, timeout=600)
    campaigns = [json.loads(line) for line in printed.splitlines()]
    assert [each["kills"] for each in campaigns] == [2, 2, 2, 2]
