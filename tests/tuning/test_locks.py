"""Two searches in one folder: the second is refused, and a killed one holds nothing."""

import errno
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from toy_searches import Numbers, make_numbers, search_numbers

from chapter18 import tuning
from chapter18.processes import Child
from chapter18.tuning import _projects

HERE = Path(__file__).parent
SEARCHES_FOR_EVER = """
import sys, time
sys.path.insert(0, sys.argv[2])
from toy_searches import Numbers, make_numbers

class Waiting(Numbers):
    def run_trial(self, trial, *_, **__):
        if trial.trial_id == "1":
            print("searching", flush=True)
            time.sleep(600)
        return 1.0

tuner = make_numbers(sys.argv[1], tuner_class=Waiting)
tuner.search(verbose=0)
"""


class Waiting(Numbers):
    """The class that the other process searches with."""

    def run_trial(self, *_, **__):
        return 1.0


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    command = [sys.executable, "-c", SEARCHES_FOR_EVER, tmp_path, HERE]
    with Child(command, cwd=HERE.parents[1], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout.readline() == "searching\n"
        who = f"process {first.pid} on {platform.node()} has been searching since 20"
        for overwrite in (False, True):
            with pytest.raises(
                RuntimeError, match=f"Only one search.* Received: .*numbers, .*{who}"
            ):
                make_numbers(tmp_path, tuner_class=Waiting, overwrite=overwrite)
    tuner = make_numbers(tmp_path, tuner_class=Waiting)
    tuner.search(verbose=0)
    assert tuning.trials_table(tuner)["score"].tolist() == [1.0, 1.0, 1.0]


def test_one_process_may_make_and_read_a_tuner_again_and_again(tmp_path):
    first = search_numbers(tmp_path, [1.0])
    second = make_numbers(tmp_path, [1.0, 2.0])
    assert len(tuning.trials_table(first)) == 1
    second.search(verbose=0)
    assert len(tuning.trials_table(make_numbers(tmp_path, [1.0, 2.0]))) == 2


def test_a_tuner_whose_search_went_on_elsewhere_is_refused(tmp_path):
    stale, same = make_numbers(tmp_path, [1.0, 2.0]), make_numbers(tmp_path, [1.0, 2.0])
    same.search(verbose=0)
    with pytest.raises(RuntimeError, match=r"last state of its folder\. Received: .*numbers"):
        stale.search(verbose=0)
    assert [trial.score for trial in same.oracle.trials.values()] == [1.0, 2.0]
    make_numbers(tmp_path, [1.0, 2.0]).search(verbose=0)


def test_a_second_search_of_the_same_process_is_refused(tmp_path):
    refused = []

    class Nested(Numbers):
        def run_trial(self, *_, **__):
            with pytest.raises(RuntimeError, match=f"process {os.getpid()} on") as error:
                make_numbers(tmp_path, tuner_class=Nested)
            thread = threading.Thread(target=self.in_thread)
            thread.start()
            thread.join()
            refused.append(error)
            return 1.0

        def in_thread(self):
            try:
                make_numbers(tmp_path, tuner_class=Nested)
            except RuntimeError as error:
                refused.append(error)

    make_numbers(tmp_path, tuner_class=Nested, max_trials=1).search(verbose=0)
    assert len(refused) == 2


def test_a_search_that_failed_holds_nothing(tmp_path):
    class Interrupted(Numbers):
        def run_trial(self, *_, **__):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_numbers(tmp_path, tuner_class=Interrupted).search(verbose=0)
    make_numbers(tmp_path, tuner_class=Interrupted)


def test_a_drive_that_cannot_lock_is_named_and_used(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def flock(*_):
        raise OSError(errno.ENOSYS, "no locks here")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.warns(RuntimeWarning, match="numbers cannot be locked .*let no other process"):
        tuner = make_numbers(tmp_path, [1.0])
    with pytest.warns(RuntimeWarning, match="cannot be locked"):
        tuner.search(verbose=0)
    assert tuner.oracle.trials["0"].score == 1.0
    monkeypatch.undo()
    with _projects.only_one(tmp_path / "numbers"):
        pass
