"""A file is the old one or the new one, at any moment and after any failure."""

from pathlib import Path

import pytest

from chapter18._shared.replacing import replacing


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    return path


def test_the_old_file_stands_until_the_new_one_is_whole(path):
    with replacing(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(path.parent.iterdir()) == [path]


def write_half(path):
    with replacing(path) as partial:
        partial.write_text("ne")
        raise OSError("disk full")


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(path):
    with pytest.raises(OSError, match="disk full"):
        write_half(path)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_was_not_there_is_made(tmp_path):
    with replacing(tmp_path / "b.keras", suffix=".keras") as partial:
        assert partial.parent == tmp_path
        assert partial.suffix == ".keras"
        partial.write_bytes(b"new")
    assert (tmp_path / "b.keras").read_bytes() == b"new"


def test_a_symbolic_link_stays_one_and_its_target_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "a.json"
    target.write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to(Path("there") / "a.json")
    with replacing(link) as partial:
        assert partial.parent == target.parent
        partial.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(tmp_path.rglob("*.json")) == [link, target]


def test_a_link_to_a_file_not_yet_there_makes_it(tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "later.json")
    with replacing(link) as partial:
        partial.write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "later.json").read_text() == "new"


@pytest.mark.parametrize("name", ["a" * 247 + ".json", "گ" * 125 + ".json"])
def test_a_name_may_have_all_the_bytes_that_it_can(tmp_path, name):
    with replacing(tmp_path / name, suffix=".json") as partial:
        assert partial.suffix == ".json"
        partial.write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == [name]
