"""Clusters of real processes: who they are, how they fail, and that none is left alive."""

import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from child import all_end
from mnist_search import make
from toy_searches import make_numbers

from chapter18 import tuning
from chapter18.tuning import _cluster

MNIST_SEARCH = Path(__file__).parent / "mnist_search.py"


def _script(folder, code):
    path = folder / "script.py"
    path.write_text(textwrap.dedent(code), encoding="utf-8")
    return path


def test_each_process_learns_who_it_is(tmp_path):
    script = _script(
        tmp_path,
        """
        import os, sys
        names = ("KERASTUNER_TUNER_ID", "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT", "EXTRA")
        names += ("CHAPTER18_CLUSTER_WORKERS",)
        print(*(os.environ[name] for name in names), *sys.argv[1:])
        """,
    )
    done = tuning.run_cluster(
        script, workers=np.int64(2), arguments=["one", 2], environment={"EXTRA": "more"}, timeout=60
    )
    assert [process.tuner_id for process in done] == ["chief", "worker_1", "worker_2"]
    assert [process.exit_code for process in done] == [0, 0, 0]
    lines = [process.output.split() for process in done]
    assert [line[0] for line in lines] == ["chief", "worker_1", "worker_2"]
    assert all(line[1] == "127.0.0.1" and line[3:] == ["more", "2", "one", "2"] for line in lines)
    assert len({line[2] for line in lines}) == 1


_NOTES_ITSELF_AND_A_CHILD = """
    import os, subprocess, sys, time
    from pathlib import Path
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    name = os.environ["KERASTUNER_TUNER_ID"]
    folder = Path(sys.argv[1])
    (folder / f"{name}.tmp").write_text(f"{os.getpid()} {child.pid}")
    (folder / f"{name}.tmp").rename(folder / f"{name}.pids")
    print("started", name, flush=True)
"""


def _pids(folder):
    return [int(pid) for path in folder.glob("*.pids") for pid in path.read_text().split()]


def test_a_failure_ends_every_process(tmp_path):
    script = _script(
        tmp_path,
        _NOTES_ITSELF_AND_A_CHILD
        + """
    if name == "worker_1":
        while len(list(folder.glob("*.pids"))) < 3:
            time.sleep(0.05)
        sys.exit("worker 1 gave up")
    time.sleep(300)
    """,
    )
    with pytest.raises(RuntimeError, match=r"(?s)exit code 0\. Received: 1 from worker_1.*gave up"):
        tuning.run_cluster(script, arguments=[tmp_path], timeout=60)
    assert len(_pids(tmp_path)) == 6
    assert all_end(_pids(tmp_path))


def test_a_time_out_ends_every_process(tmp_path, monkeypatch):
    script = _script(tmp_path, _NOTES_ITSELF_AND_A_CHILD + "\n    time.sleep(300)\n")
    # The time is over when all have started, however long this machine needs for that.
    began = iter([0.0])

    def now():
        return next(began, 61.0 * (len(_pids(tmp_path)) == 4))

    monkeypatch.setattr(_cluster, "time", SimpleNamespace(sleep=time.sleep, monotonic=now))
    with pytest.raises(TimeoutError, match=r"(?s)chief, worker_1 still running after 60 s.*Last l"):
        tuning.run_cluster(script, workers=1, arguments=[tmp_path], timeout=60)
    assert len(_pids(tmp_path)) == 4
    assert all_end(_pids(tmp_path))


def _in_cluster(monkeypatch, name, folder):
    monkeypatch.setenv("KERASTUNER_TUNER_ID", name)
    monkeypatch.setenv("CHAPTER18_CLUSTER_MEETING", str(folder))
    monkeypatch.setenv("CHAPTER18_CLUSTER_WORKERS", "2")


def test_no_worker_begins_before_the_last_has_come(tmp_path, monkeypatch):
    _in_cluster(monkeypatch, "worker_1", tmp_path)
    first = threading.Thread(target=_cluster.meet, daemon=True)
    first.start()
    while first.is_alive() and not (tmp_path / "worker_1.here").exists():
        time.sleep(0.01)
    assert first.is_alive()
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "worker_2")
    _cluster.meet()
    first.join(60)
    assert not first.is_alive()


def test_neither_a_chief_nor_a_process_outside_a_cluster_waits(tmp_path, monkeypatch):
    _cluster.meet()
    _in_cluster(monkeypatch, "chief", tmp_path)
    _cluster.meet()
    assert not list(tmp_path.iterdir())


def test_a_process_that_does_not_say_who_it_is_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
    monkeypatch.setenv("KERASTUNER_ORACLE_PORT", "8000")
    with pytest.raises(RuntimeError, match=r'"KERASTUNER_TUNER_ID" was not\. Please specify an ID'):
        make_numbers(tmp_path)


def test_a_missing_script_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"must be a Python file\. Received: .*nothing\.py"):
        tuning.run_cluster(tmp_path / "nothing.py")


@pytest.mark.parametrize("workers", [0, 1.5, True])
def test_a_cluster_without_workers_is_refused(workers):
    with pytest.raises(ValueError, match=rf"at least one worker\. Received: workers={workers}"):
        tuning.run_cluster(MNIST_SEARCH, workers=workers)


def test_a_chief_and_two_workers_search_together(tmp_path):
    done = tuning.run_cluster(MNIST_SEARCH, arguments=[tmp_path], timeout=600)
    assert [process.exit_code for process in done] == [0, 0, 0]
    table = tuning.trials_table(make(tmp_path))
    assert set(table["status"]) == {"COMPLETED"}
    assert len(table[["units", "rate"]].drop_duplicates()) == len(table) == 4
    assert table[["execution_1", "execution_2", "best_epoch", "seconds"]].notna().all(axis=None)
