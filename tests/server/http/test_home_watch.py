"""A master ends where its home is not its own any more, so that the next one is the only one."""

import shutil
import types

import pytest

from quintain.client.home import home as home_lib
from quintain.client.home import master_lock
from quintain.client.http import unix_sockets
from quintain.server.http import home_watch


@pytest.fixture(name="home")
def _home(tmp_path):
    home = home_lib.Home(tmp_path / "home")
    home.create()
    return home


@pytest.fixture(name="master")
def _master(home):
    """A master, as far as the watch sees it."""
    lost = []
    with unix_sockets.listen(home.socket), master_lock.hold(home.path) as lock:
        watch = home_watch.HomeWatch(home, lock, on_loss=lost.append)
        yield types.SimpleNamespace(watch=watch, lost=lost)


def mount_anew(home):
    """Puts other files with the same content in the place of the home's."""
    away = home.path.with_name("away")
    home.path.rename(away)
    shutil.copytree(away, home.path, ignore=shutil.ignore_patterns("*.sock"))
    # What is left of a socket on a disk that was mounted anew.
    unix_sockets.listen(home.socket).close()


def test_nothing_happens_as_long_as_the_home_is_what_it_was(master):
    assert master.watch.is_ours()


@pytest.mark.parametrize("is_mounted", [True, False], ids=["mounted anew", "gone"])
def test_the_master_ends_where_its_home_is_another_one(home, master, monkeypatch, is_mounted):
    monkeypatch.setattr(home_watch, "_LOOK_SECS", 0.001)
    if is_mounted:
        mount_anew(home)
    else:
        home.path.rename(home.path.with_name("away"))

    with master.watch:
        master.watch._thread.join()

    (loss,) = master.lost
    assert "This master ends, and trials go on: start a new one" in loss
    if is_mounted:
        with master_lock.hold(home.path):  # The next one can have it.
            pass


def test_a_socket_that_was_deleted_is_a_loss(home, master):
    home.socket.unlink()

    assert not master.watch.is_ours()


def test_a_disk_that_can_not_be_read_now_is_waited_for(master, monkeypatch):
    def fail(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(master_lock.HeldLock, "is_there", fail)
    with pytest.raises(OSError, match="Input/output"):
        master.watch.is_ours()
