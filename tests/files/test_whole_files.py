"""Files of runs are whole or absent, and errors say which file and what to do."""

import errno
import os
import threading

import pytest
import tensorflow as tf

from quintain import errors
from quintain.files import whole_files


def test_the_data_are_on_the_disk_before_the_file_has_its_name(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append("fsync"))
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *args: (done.append("replace"), replace(*args)))
    (tmp_path / "scratch").write_text("x")

    whole_files.publish(str(tmp_path / "scratch"), str(tmp_path / "file"))
    whole_files.write(tmp_path / "other", "y", has_rivals=True)

    assert done == ["fsync", "replace", "fsync"] * 2


@pytest.mark.parametrize("has_rivals", [False, True])
def test_a_failed_write_leaves_the_former_file_and_nothing_else(tmp_path, monkeypatch, has_rivals):
    path = tmp_path / "a [1] ü.json"
    path.write_text("former")

    def fail(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(errors.OutputError, match=r"a \[1\] ü\.json: can't be written: No space"):
        whole_files.write(path, "new", has_rivals=has_rivals)

    assert path.read_text() == "former"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.EACCES, "owner and the permissions"),
        (errno.EROFS, "Make the disk writable"),
        (errno.EDQUOT, "larger quota"),
        (errno.ENAMETOOLONG, "shorter name"),
        (errno.EIO, "log of the system"),
    ],
)
def test_every_error_of_the_system_says_what_to_do(code, advice):
    with (
        pytest.raises(errors.OutputError, match=advice),
        whole_files.write_errors_explained("runs/a/x"),
    ):
        raise OSError(code, os.strerror(code), "runs/a/x")


@pytest.mark.parametrize(
    ("error", "is_advised"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/a/x"), True),
        (tf.errors.ResourceExhaustedError(None, None, "runs/a/x; No space left on device"), True),
        (OSError(errno.EEXIST, os.strerror(errno.EEXIST), "runs/a/x"), False),
        (tf.errors.InvalidArgumentError(None, None, "no such type"), False),
    ],
)
def test_a_command_is_to_be_repeated_only_if_something_can_be_mended_before(error, is_advised):
    with (
        pytest.raises(errors.OutputError) as raised,
        whole_files.write_errors_explained("runs/a/x"),
    ):
        raise error

    assert str(raised.value).endswith("Then run the command again.") == is_advised
    assert "again" not in whole_files.describe(error)


def test_a_file_in_place_of_a_directory_is_named(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(errors.OutputError, match=r"file/x: can't be written: .*file"):
        whole_files.write(tmp_path / "file" / "x", "")


def test_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    def write():
        for _ in range(20):
            whole_files.write(tmp_path / "file", "x" * 1000, has_rivals=True)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (tmp_path / "file").read_text() == "x" * 1000
    assert os.listdir(tmp_path) == ["file"]


def test_only_files_that_were_not_there_are_recorded(tmp_path):
    (tmp_path / "old").touch()

    with whole_files.new_paths_recorded() as created:
        whole_files.write(tmp_path / "old", "")
        whole_files.write(tmp_path / "new", "")

    assert created == [str(tmp_path / "new")]


@pytest.mark.parametrize("content", [b"", b"{", b"\0\0\0", b'"\xc3', b"[" * 100_000])
def test_damaged_json_is_named(tmp_path, content):
    path = tmp_path / "state.json"
    path.write_bytes(content)

    with pytest.raises(errors.DamagedFileError, match=r"state\.json: can't be understood"):
        whole_files.read_json(str(path))


def test_one_process_at_a_time_is_alone(tmp_path):
    order = []

    def enter():
        with whole_files.directory_locked(str(tmp_path)):
            order.append("second")

    with whole_files.directory_locked(str(tmp_path)):
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join(timeout=0.05)
        order.append("first")
    thread.join()

    assert order == ["first", "second"]


def test_a_file_behind_a_url_is_written_too():
    whole_files.write("ram://whole_files/state.json", "{}")

    assert whole_files.read_json("ram://whole_files/state.json") == {}
    assert tf.io.gfile.listdir("ram://whole_files") == ["state.json"]
