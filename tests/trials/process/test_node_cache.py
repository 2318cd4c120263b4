import errno
import fcntl
import os
import shutil
import threading
import types

import pytest

from quintain import errors
from quintain.trials.process import node_cache


@pytest.fixture
def make_cache(tmp_path):
    """Returns a function that opens the cache as one more process of the machine does."""
    opened = []

    def make(limit=1000):
        opened.append(node_cache.NodeCache(tmp_path / "cache", limit))
        return opened[-1]

    yield make
    for cache in opened:
        cache.close()


def write(content, log=None):
    def fill(directory):
        if log is not None:
            log.append(sorted(os.listdir(directory)))
        (directory / "file").write_bytes(content)

    return fill


def names(tmp_path, kind="code"):
    return sorted(os.listdir(tmp_path / "cache" / kind))


def test_processes_that_want_the_same_at_once_fetch_it_once(make_cache):
    log, found = [], []
    is_filling, may_end = threading.Event(), threading.Event()

    def fill(directory):
        is_filling.set()
        may_end.wait(60)
        write(b"x", log)(directory)

    caches = [make_cache() for _ in range(8)]
    threads = [
        threading.Thread(target=lambda each=each: found.append(each.hold("code", "a", 1, fill)))
        for each in caches
    ]
    for thread in threads:
        thread.start()
    is_filling.wait(60)
    may_end.set()
    for thread in threads:
        thread.join()
    assert log == [[]]
    assert len(found) == 8
    assert {path.joinpath("file").read_bytes() for path in found} == {b"x"}


def test_who_finds_nothing_does_not_wait_for_those_who_hold_it_by_now(make_cache, monkeypatch):
    first, second, lock = make_cache(), make_cache(), fcntl.flock

    def be_late(file, how):
        if how == fcntl.LOCK_EX:
            monkeypatch.undo()
            first.hold("code", "a", 1, write(b"x"))
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", be_late)
    late = threading.Thread(target=second.hold, args=("code", "a", 1, write(b"y")), daemon=True)
    late.start()
    late.join(60)
    assert not late.is_alive()
    assert second.hold("code", "a", 1, write(b"y")).joinpath("file").read_bytes() == b"x"


def test_what_was_used_longest_ago_goes_first_and_nothing_that_is_used(make_cache, tmp_path):
    first, second, third = make_cache(), make_cache(), make_cache()
    for name in "abc":
        first.hold("code", name, 300, write(bytes(300)))
        os.utime(tmp_path / "cache" / "code" / name, (ord(name), ord(name)))
    first.close()
    second.hold("code", "a", 300, write(b"never"))
    third.hold("checkpoints", "d", 300, write(bytes(300)))
    assert names(tmp_path) == ["a", "c"]
    with pytest.raises(errors.NoRoomError, match=r"no room .* for 0.0 MiB: its limit .*--c"):
        make_cache().hold("checkpoints", "e", 900, write(bytes(900)))
    third.release("checkpoints")
    make_cache().hold("checkpoints", "f", 700, write(bytes(700)))
    assert (names(tmp_path), names(tmp_path, "checkpoints")) == (["a"], ["f"])
    assert names(tmp_path, "locks") == ["-room", "checkpoints-e", "checkpoints-f", "code-a"]


def test_files_of_others_in_the_directory_stay(make_cache, tmp_path):
    others = tmp_path / "cache" / "scratch" / "t1"
    others.mkdir(parents=True)
    (others / "log").write_bytes(bytes(2000))
    make_cache().hold("code", "a", 1000, write(bytes(1000)))
    assert (others / "log").exists()


def test_what_a_killed_process_had_is_gone_on_with_and_counts(make_cache, tmp_path):
    def fail(directory):
        (directory / "part").write_bytes(bytes(600))
        raise KeyboardInterrupt

    log = []
    with pytest.raises(KeyboardInterrupt):
        make_cache().hold("code", "a", 900, fail)
    make_cache().hold("code", "a", 900, write(b"x", log))
    assert log == [["part"]]
    with pytest.raises(KeyboardInterrupt):
        make_cache().hold("checkpoints", "b", 100, fail)
    shutil.rmtree(tmp_path / "cache" / "code" / "a")
    make_cache().hold("code", "c", 900, write(bytes(900)))
    assert names(tmp_path, "incoming") == []


def test_a_full_disk_is_told_and_leaves_nothing_that_looks_complete(
    make_cache, tmp_path, monkeypatch
):
    def fail(directory):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(errors.NoRoomError, match="of the disk are free"):
        make_cache().hold("code", "a", 1, fail)
    assert not (tmp_path / "cache" / "code").exists()
    make_cache().hold("code", "b", 10, write(bytes(10)))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: types.SimpleNamespace(free=5))
    with pytest.raises(errors.NoRoomError, match="Free some space"):
        make_cache().hold("code", "c", 10, write(bytes(10)))


def test_what_is_larger_than_the_cache_may_be_never_has_room(make_cache):
    with pytest.raises(errors.CheckpointError, match="its limit is") as caught:
        make_cache().hold("code", "a", 1001, write(bytes(1001)))
    assert not isinstance(caught.value, errors.NoRoomError)


def test_a_directory_that_others_may_write_to_is_refused(make_cache, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(errors.ConfigError, match=r"QUINTAIN_CACHE.* mode 0777"):
        make_cache().hold("code", "a", 1, write(b"x"))
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").touch()
    with pytest.raises(errors.ConfigError, match="QUINTAIN_CACHE"):
        make_cache().hold("code", "a", 1, write(b"x"))


def test_a_lock_that_was_deleted_meanwhile_is_none(make_cache, tmp_path, monkeypatch):
    cache = make_cache()
    cache.hold("code", "a", 1, write(b"x"))
    cache.close()
    flock, deleted = fcntl.flock, []

    def delete_first(lock, how):
        flock(lock, how)
        if not deleted:
            deleted.append(lock.name)
            os.unlink(lock.name)

    monkeypatch.setattr(fcntl, "flock", delete_first)
    cache.hold("code", "a", 1, write(b"x"))
    assert os.path.samestat(
        os.stat(tmp_path / "cache" / "locks" / "code-a"),
        os.fstat(cache._held["code", "a"].fileno()),
    )
