"""The folder of a search: only its own files ever go, and nobody's are overwritten."""

import os
from pathlib import Path

import keras_tuner as kt
import pytest
from toy_searches import make_numbers, search_numbers

from chapter18.tuning import _projects


def _other_space():
    hp = kt.HyperParameters()
    hp.Float("width", 0.0, 2.0)
    return {"hyperparameters": hp}


def _foreign(project):
    """Put files of somebody else, some with misleading names, into the folder."""
    project.mkdir(parents=True, exist_ok=True)
    names = ["labels.csv", "train/cat.png", "train/.cat.png.1.tmp", "trial_0/notes.txt"]
    names += ["trial_plan/trial.json.txt", "tuner_notes.json", ".labels.csv.2.tmp"]
    texts = {name: f"{name} of somebody" for name in names}
    for name, text in texts.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    return texts


def _kept(project, texts):
    return {name: (project / name).read_text() for name in texts} == texts


def _own(project):
    return {path.relative_to(project).as_posix() for path in _projects.own_files(project)}


def test_a_search_begun_afresh_leaves_the_files_of_others(tmp_path):
    texts = _foreign(tmp_path / "numbers")
    discarded = _foreign(tmp_path / "numbers.discarded")
    make_numbers(tmp_path)
    # No trial has ended, so another space begins afresh.
    make_numbers(tmp_path, **_other_space())
    assert _kept(tmp_path / "numbers", texts)
    assert _kept(tmp_path / "numbers.discarded", discarded)


def test_overwriting_leaves_the_files_of_others(tmp_path):
    search_numbers(tmp_path, [1.0, 2.0])
    texts = _foreign(tmp_path / "numbers")
    assert make_numbers(tmp_path, overwrite=True).oracle.trials == {}
    assert _kept(tmp_path / "numbers", texts)
    assert not (tmp_path / "numbers" / "trial_1").exists()
    assert _own(tmp_path / "numbers") == {
        *("oracle.json", "tuner0.json", "snapshot.json", "snapshot.json.backup")
    }


def test_resuming_leaves_the_files_of_others(tmp_path):
    search_numbers(tmp_path, [1.0])
    texts = _foreign(tmp_path / "numbers")
    search_numbers(tmp_path, [1.0, 2.0])
    assert _kept(tmp_path / "numbers", texts)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["trial_0/trial.json", "tuner0.json"])
def test_files_of_others_are_not_overwritten(tmp_path, name, overwrite):
    path = tmp_path / "numbers" / name
    path.parent.mkdir(parents=True)
    path.write_text("of a clinic")
    with pytest.raises(
        ValueError, match=f"must not overwrite files.* Received: {name} in .*number"
    ):
        make_numbers(tmp_path, overwrite=overwrite)
    assert path.read_text() == "of a clinic"


def test_somebodys_oracle_is_not_overwritten(tmp_path):
    path = tmp_path / "numbers" / "oracle.json"
    path.parent.mkdir()
    path.write_text('{"connection": "of a database"}')
    with pytest.raises(ValueError, match="only if make_tuner began it"):
        make_numbers(tmp_path)
    with pytest.raises(ValueError, match=r"must not overwrite files.* Received: oracle\.json"):
        make_numbers(tmp_path, overwrite=True)
    assert "database" in path.read_text()


def test_a_search_of_plain_keras_tuner_is_overwritten_when_asked(tmp_path):
    options = {"directory": tmp_path, "project_name": "numbers"}
    kt.RandomSearch(lambda hp: hp.Boolean("deep"), "val_loss", **options).save()
    assert make_numbers(tmp_path, overwrite=True).oracle.trials == {}


def test_a_search_with_torn_snapshots_is_overwritten_when_asked(tmp_path):
    search_numbers(tmp_path, [1.0])
    for name in ("snapshot.json", "snapshot.json.backup", "oracle.json"):
        path = tmp_path / "numbers" / name
        path.write_text(path.read_text()[:40])
    assert make_numbers(tmp_path, overwrite=True).oracle.trials == {}


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "numbers").write_text("somebody's")
    for options in ({}, {"project_name": "numbers/below"}):
        with pytest.raises(ValueError, match=r"must be a folder\. Received: .*numbers, which is"):
            make_numbers(tmp_path, overwrite=True, **options)
    assert (tmp_path / "numbers").read_text() == "somebody's"


def _link(path, target):
    try:
        path.symlink_to(target, target_is_directory=True)
    except OSError:
        pytest.skip("this system lets nobody make links")


def test_a_link_is_followed_and_stays(tmp_path):
    texts = _foreign(tmp_path / "elsewhere")
    _link(tmp_path / "numbers", tmp_path / "elsewhere")
    search_numbers(tmp_path, [1.0])
    assert make_numbers(tmp_path, overwrite=True).oracle.trials == {}
    assert (tmp_path / "numbers").is_symlink()
    assert _kept(tmp_path / "elsewhere", texts)


def test_a_link_to_nowhere_is_refused(tmp_path):
    _link(tmp_path / "numbers", tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"must be a folder\. Received: .*numbers"):
        make_numbers(tmp_path)


def test_a_trial_that_is_a_link_leads_to_nothing_of_the_search(tmp_path):
    make_numbers(tmp_path)
    (tmp_path / "clinic").mkdir()
    (tmp_path / "clinic" / "trial.json").write_text("of a clinic")
    _link(tmp_path / "numbers" / "trial_7", tmp_path / "clinic")
    _projects.discard(tmp_path / "numbers")
    assert (tmp_path / "clinic" / "trial.json").read_text() == "of a clinic"


def test_a_discard_that_was_killed_is_finished(tmp_path, monkeypatch):
    search_numbers(tmp_path, [1.0, 2.0])
    project = tmp_path / "numbers"
    unlink, left = Path.unlink, iter(range(4))

    def dying(path, **options):
        if next(left, None) is None:
            raise KeyboardInterrupt
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", dying)
    with pytest.raises(KeyboardInterrupt):
        _projects.discard(project)
    monkeypatch.undo()
    assert _own(project)
    assert make_numbers(tmp_path).oracle.trials == {}
    assert not list(project.glob("trial_*"))
    assert not [name for name in os.listdir(project) if "discarded" in name]
