"""A database whose disk is full, read-only, broken or gone says so, and goes on when it is back."""

import errno
import os
import pathlib
import sqlite3

import pytest

from quintain import errors
from quintain import store as stores
from quintain.files import disk_errors
from quintain.store import database_errors
from quintain.store import store as store_lib
from quintain.store.sqlite import sqlite_backend
from quintain.testing import store_case


@pytest.fixture(name="path")
def _path(tmp_path):
    return tmp_path / "a home [1] ü" / "quintain.db"


@pytest.fixture(name="store")
def _store(path):
    opened = stores.open_store(path)
    with opened.transaction() as session:
        session.add_experiment(store_case.new_experiment())
    yield opened
    opened.close()


def break_disk(monkeypatch, code):
    def refuse(directory):
        raise OSError(code, os.strerror(code), str(directory))

    monkeypatch.setattr(disk_errors, "check_disk", refuse)


@pytest.mark.parametrize(
    ("text", "code", "kind", "words"),
    [
        ("database or disk is full", None, errors.StoreFullError, "its disk is full. Make room"),
        ("disk I/O error", errno.ENOSPC, errors.StoreFullError, "Make room on that disk"),
        ("attempt to write a readonly database", errno.EROFS, errors.StoreAwayError, "remount,rw"),
        ("unable to open database file", errno.EIO, errors.StoreAwayError, "broken or gone"),
        ("database disk image is malformed", errno.EIO, errors.StoreAwayError, "mount it again"),
        ("file is not a database", errno.ESTALE, errors.StoreAwayError, "mount it again"),
        ("database disk image is malformed", None, errors.StoreError, "the file is damaged"),
        ("disk I/O error", None, errors.StoreError, "look at the log of the system"),
    ],
)
def test_the_disk_is_blamed_where_it_is_to_blame(monkeypatch, path, text, code, kind, words):
    path.parent.mkdir()
    path.touch()
    if code is not None:
        break_disk(monkeypatch, code)

    found = database_errors.explain(text, str(path))

    assert type(found) is kind
    assert words in str(found)
    assert str(path.parent) in str(found)


def test_a_file_that_vanished_is_named_and_gone_on_with_when_it_is_back(store, path):
    away = path.parent.with_name("away")
    path.parent.rename(away)

    for _ in range(2):
        with (
            pytest.raises(errors.StoreAwayError, match="not there any more"),
            store.transaction() as session,
        ):
            session.add_experiment(store_case.new_experiment())
        with pytest.raises(errors.StoreAwayError), store.reading():
            pass
    assert not path.parent.exists()  # No other database was begun there.

    away.rename(path.parent)
    with store.transaction() as session:
        session.add_experiment(store_case.new_experiment())
    with store.reading() as session:
        assert len(session.list_experiments()) == 2


def test_no_other_file_is_taken_for_the_one_that_was_opened(store, path, tmp_path):
    other = stores.open_store(tmp_path / "other.db")
    other.close()
    path.rename(tmp_path / "former.db")
    (tmp_path / "other.db").rename(path)

    with (
        pytest.raises(errors.StoreAwayError, match="another file has taken the place"),
        store.transaction(),
    ):
        pass

    path.unlink()
    (tmp_path / "former.db").rename(path)
    with store.reading() as session:
        assert len(session.list_experiments()) == 1


def test_a_disk_that_was_mounted_anew_asks_for_a_new_start(store, path, monkeypatch):
    stat = os.stat

    def stat_anew(name, *args, **kwargs):
        found = stat(name, *args, **kwargs)
        if str(name) != str(path):
            return found
        fields = list(found)
        fields[2] += 1  # The number of the disk.
        return os.stat_result(fields)

    monkeypatch.setattr(sqlite_backend.os, "stat", stat_anew)
    with pytest.raises(errors.StoreAwayError, match="start it anew"), store.transaction():
        pass


def test_looking_for_a_fault_takes_no_lock_of_the_file_from_this_process(store, path):
    with store.transaction():
        before = _find_locks()
        assert database_errors.find_disk_error(str(path)) is None
        assert _find_locks() == before
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            _begin_elsewhere(path)


def _find_locks():
    lines = pathlib.Path("/proc/locks").read_text().splitlines()
    own = [line.split(maxsplit=1)[1] for line in lines if f" {os.getpid()} " in line]
    assert own
    return own


def _begin_elsewhere(path):
    connection = sqlite3.connect(path, timeout=0.0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
    finally:
        connection.close()


def test_a_lost_disk_is_explained_to_those_who_read_without_a_master(store, path, monkeypatch):
    def refuse(*_, **__):
        raise sqlite3.OperationalError("unable to open database file")

    break_disk(monkeypatch, errno.EIO)
    monkeypatch.setattr(sqlite_backend.sqlite3, "connect", refuse)

    with pytest.raises(errors.StoreAwayError, match="broken or gone"):
        store_lib.open_to_read(path)


def test_a_store_can_be_asked_whether_it_can_be_written(store, monkeypatch):
    store.check()
    break_disk(monkeypatch, errno.EROFS)

    with pytest.raises(errors.StoreAwayError, match="read-only"):
        store.check()
