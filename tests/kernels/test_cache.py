import errno
import multiprocessing
import os

import pytest
import tensorflow as tf

from quintain.files import user_cache
from quintain.kernels import cache, sealed_files

_CONTENT = b"a library"


@pytest.fixture(name="directory", params=["plain", "with spaces [1] ä"])
def _directory(tmp_path, monkeypatch, request):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / request.param))
    return tmp_path / request.param / "quintain" / "kernels"


def _build_and_log(path):
    """Returns a build that writes a line for each time that it runs."""

    def build(_):
        with path.open("a") as file:
            file.write("built\n")
        return _CONTENT

    return build


def _load_in_process(log):
    cache.load_or_build("key", _build_and_log(log), _check)


def _check(path):
    assert sealed_files.find_fault(path) is None
    assert path.read_bytes().startswith(_CONTENT)


def test_builds_once_for_all_processes(directory, tmp_path):
    log = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_load_in_process, args=(log,)) for _ in range(4)]

    for process in processes:
        process.start()
    for process in processes:
        process.join()

    assert [process.exitcode for process in processes] == [0] * 4
    assert log.read_text() == "built\n"
    assert sorted(path.name for path in directory.iterdir()) == ["key.lock", "key.so"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: b"x" + content[1:],
        lambda content: b"\x7fELF of somebody else" * 10,
    ],
)
def test_builds_anew_what_is_damaged(directory, tmp_path, caplog, damage):
    log = tmp_path / "log"
    cache.load_or_build("key", _build_and_log(log), _check)
    path = directory / "key.so"
    path.write_bytes(damage(path.read_bytes()))

    cache.load_or_build("key", _build_and_log(log), _check)

    assert log.read_text() == "built\n" * 2
    assert sealed_files.find_fault(path) is None
    told = f"{path} is damaged: native kernels are compiled anew."
    assert [record.message for record in caplog.records] == [told]


def test_builds_anew_what_others_can_write(directory, tmp_path):
    log = tmp_path / "log"
    cache.load_or_build("key", _build_and_log(log), _check)
    (directory / "key.so").chmod(0o666)

    cache.load_or_build("key", _build_and_log(log), _check)

    assert log.read_text() == "built\n" * 2


def test_goes_on_after_a_process_that_was_killed_while_it_built(directory, tmp_path):
    log = tmp_path / "log"

    def die(path):
        (path / "half.o").write_bytes(b"half")
        os._exit(9)

    context = multiprocessing.get_context("fork")
    killed = context.Process(target=cache.load_or_build, args=("key", die, _check))
    killed.start()
    killed.join()
    assert (directory / "key.building" / "half.o").exists()

    cache.load_or_build("key", _build_and_log(log), _check)

    assert log.read_text() == "built\n"
    assert not (directory / "key.building").exists()


def test_keeps_no_part_of_a_build_that_failed(directory):
    def fail(path):
        (path / "half.o").write_bytes(b"half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.load_or_build("key", fail, _check)

    assert [path.name for path in directory.iterdir()] == ["key.lock"]


@pytest.mark.parametrize("place", ["file", "/proc/self", "/dev/full"])
def test_builds_for_one_process_where_nothing_can_be_kept(tmp_path, monkeypatch, caplog, place):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
    loaded = []

    def load(path):
        _check(path)
        loaded.append(path)

    cache.load_or_build("key", _build_and_log(tmp_path / "log"), load)

    assert len(loaded) == 1
    assert not loaded[0].exists()
    assert "Native kernels are not kept for the next start" in caplog.text


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_builds_elsewhere_if_the_disk_is_full(directory, monkeypatch, tmp_path, caplog, number):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", fail)

    cache.load_or_build("key", _build_and_log(tmp_path / "log"), _check)

    assert (tmp_path / "log").read_text() == "built\n"
    assert [record.message for record in caplog.records] == [
        f"Native kernels are not kept for the next start: {directory}: {os.strerror(number)}."
    ]
    assert [path.name for path in directory.iterdir()] == ["key.lock"]


def test_loads_from_elsewhere_what_can_not_be_run_where_it_is(directory, tmp_path, caplog):
    """As below a mount without the right to execute."""
    loaded = []

    def load(path):
        if path.is_relative_to(tmp_path / directory.parents[1].name):
            raise tf.errors.NotFoundError(None, None, f"{path}: failed to map segment")
        _check(path)
        loaded.append(path)

    for _ in range(2):
        cache.load_or_build("key", _build_and_log(tmp_path / "log"), load)

    assert (tmp_path / "log").read_text() == "built\n"
    assert len(loaded) == 2
    assert not any(path.exists() for path in loaded)
    assert caplog.text.count("are loaded from another place") == 2


def test_builds_for_one_process_if_the_directory_is_another_users(directory, monkeypatch, tmp_path):
    directory.mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: directory.stat().st_uid + 1)
    with pytest.raises(user_cache.UnusableCacheError, match="belongs to another user"):
        user_cache.open_directory("kernels")


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(OSError, match="No space left"):
        sealed_files.write(tmp_path / "key.so", _CONTENT)

    assert not list(tmp_path.iterdir())


def test_uses_the_home_directory_unless_told_otherwise(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")

    assert str(user_cache.find_directory("kernels")) == "/home/somebody/.cache/quintain/kernels"
