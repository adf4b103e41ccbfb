"""A file is the old one or the new one, at any moment and after any failure."""

import pytest

from chapter18.replacing import replacing


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


def test_a_link_stays_and_its_target_is_replaced(path):
    link = path.parent / "link.json"
    link.symlink_to(path)
    with replacing(link) as partial:
        partial.write_text("new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert sorted(path.parent.iterdir()) == [path, link]


def test_a_name_may_have_all_255_bytes(tmp_path):
    longest = tmp_path / ("n" * 255)
    with replacing(longest) as partial:
        partial.write_text("new")
    assert [each.name for each in tmp_path.iterdir()] == [longest.name]
