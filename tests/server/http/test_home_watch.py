"""A master is found again when the disk of its home was mounted anew, and there is only one."""

import json
import shutil
import types

import pytest

from quintain.client.home import home as home_lib
from quintain.client.home import master_file, master_lock
from quintain.client.http import unix_sockets
from quintain.master.cleanup import home_identity
from quintain.server.http import home_watch


@pytest.fixture(name="home")
def _home(tmp_path):
    home = home_lib.Home(tmp_path / "home")
    home.create()
    (home.path / home_identity.FILE_NAME).write_text(json.dumps({"home_id": "own"}))
    return home


@pytest.fixture(name="master")
def _master(home):
    """A master, as far as the watch sees it."""
    listeners, taken_up, lost = [unix_sockets.listen(home.socket)], [], []
    file = master_file.MasterFile(home.address, "token", 1, "mark")
    with master_lock.hold(home.path) as lock:
        watch = home_watch.HomeWatch(
            home,
            lock,
            types.SimpleNamespace(take_up=lambda: taken_up.append(True)),
            file,
            listen_on=listeners.append,
            on_loss=lost.append,
        )
        yield types.SimpleNamespace(watch=watch, listeners=listeners, taken_up=taken_up, lost=lost)
    for one in listeners:
        one.close()


def mount_anew(home):
    """Puts other files with the same content in the place of the home's."""
    away = home.path.with_name("away")
    home.path.rename(away)
    ignored = shutil.ignore_patterns("*.sock")
    shutil.copytree(away, home.path, ignore=ignored)
    # What is left of a socket on a disk that was mounted anew.
    unix_sockets.listen(home.socket).close()


def test_nothing_happens_as_long_as_the_home_is_what_it_was(home, master):
    master.watch.look()

    assert len(master.listeners) == 1
    assert not (home.path / master_file.FILE_NAME).exists()


def test_lock_and_socket_are_taken_anew(home, master):
    mount_anew(home)
    with pytest.raises(ConnectionRefusedError):
        unix_sockets.connect(home.socket, 5.0)

    master.watch.look()

    unix_sockets.connect(home.socket, 5.0).close()
    assert master_file.read(home.path).token == "token"
    with pytest.raises(master_lock.LockedError):
        master_lock.HeldLock(home.path)
    master.watch.look()
    assert len(master.listeners) == 2


def test_a_socket_that_was_deleted_is_made_anew(home, master):
    home.socket.unlink()

    master.watch.look()

    unix_sockets.connect(home.socket, 5.0).close()


def test_a_home_that_another_master_has_taken_is_left_to_it(home, master, monkeypatch):
    mount_anew(home)
    other = master_lock.Holder(1, "other", "elsewhere")
    monkeypatch.setattr(master_lock, "_describe_own", lambda: other)
    with master_lock.hold(home.path):
        monkeypatch.undo()
        with pytest.raises(master_lock.LockedError):
            master.watch.look()

    assert len(master.listeners) == 1


def test_the_master_ends_where_another_one_has_its_home(home, master, monkeypatch):
    def refuse():
        raise master_lock.LockedError(None)

    monkeypatch.setattr(home_watch, "_LOOK_SECS", 0.001)
    monkeypatch.setattr(master.watch, "look", refuse)
    with master.watch:
        master.watch._thread.join()

    (loss,) = master.lost
    assert "another master has taken it over" in loss


def test_another_home_at_the_same_place_is_left_alone(home, master):
    mount_anew(home)
    (home.path / home_identity.FILE_NAME).write_text(json.dumps({"home_id": "other"}))

    master.watch.look()

    assert not master.taken_up
    assert len(master.listeners) == 1


def test_a_home_that_is_not_there_is_waited_for(home, master):
    home.path.rename(home.path.with_name("away"))
    with pytest.raises(FileNotFoundError):
        master.watch.look()

    home.path.with_name("away").rename(home.path)
    master.watch.look()
    assert len(master.listeners) == 1
