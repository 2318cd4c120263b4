import os
import shutil

import pytest

from quintain.files import changing_files


@pytest.fixture
def tree(tmp_path):
    for name in ("a/b/c", "a.b", "gone/d", "z"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_everything_below_a_directory_is_listed_part_by_part(tree):
    (tree / "a" / "to file").symlink_to(tree / "z")
    (tree / "a" / "to directory").symlink_to(tree / "gone")
    (tree / "a" / "to nothing").symlink_to(tree / "nothing")
    found = {name: changing_files.measure(each) for name, each in changing_files.walk(tree).items()}
    assert list(found.items()) == [
        ("a", 0), ("a/b", 0), ("a/b/c", 5), ("a/to directory", 0), ("a/to file", 1),
        ("a.b", 3), ("gone", 0), ("gone/d", 6), ("z", 1),
    ]  # fmt: skip


def test_what_goes_while_it_is_listed_is_left_out(tree, monkeypatch):
    walk = os.walk

    def lose(directory, **kwargs):
        for folder, folders, files in walk(directory, **kwargs):
            if folder == str(tree):
                (tree / "z").unlink()
                shutil.rmtree(tree / "gone")
            yield folder, folders, files

    monkeypatch.setattr(os, "walk", lose)
    assert list(changing_files.walk(tree)) == ["a", "a/b", "a/b/c", "a.b"]


def test_a_directory_that_is_gone_is_empty(tree):
    assert changing_files.list_directory(tree / "gone") == [tree / "gone" / "d"]
    shutil.rmtree(tree / "gone")
    assert changing_files.walk(tree / "gone") == {}
    assert changing_files.list_directory(tree / "gone") == []
    assert changing_files.list_directory(tree / "z" / "below a file") == []
    assert changing_files.find(tree / "gone") is None


def test_what_can_not_be_read_is_an_error(tree, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError):
        changing_files.walk(tree)
    with pytest.raises(PermissionError), changing_files.missing_files_skipped():
        refuse("a")


def test_what_is_deleted_may_be_gone_already(tree, monkeypatch):
    changing_files.remove(tree / "nothing")
    changing_files.remove(tree / "z")
    (tree / "link").symlink_to(tree / "a")
    changing_files.remove(tree / "link")
    assert (tree / "a" / "b" / "c").exists()
    rmdir, seen = os.rmdir, []

    def lose(path, **kwargs):  # Somebody else is quicker.
        if not seen:
            seen.append(path)
            rmdir(path, **kwargs)
        rmdir(path, **kwargs)

    monkeypatch.setattr(os, "rmdir", lose)
    changing_files.remove(tree / "a")
    assert seen
    assert not (tree / "a").exists()
