import errno
import json
import os
import stat

import pytest

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.client.home import master_file, master_lock
from quintain.records import process_identity


@pytest.fixture
def home(tmp_path):
    home = home_lib.find_home(str(tmp_path / "home"))
    home.create()
    return home


def own_file():
    mark = process_identity.find_mark(os.getpid())
    return master_file.MasterFile("http://127.0.0.1:1", "secret", os.getpid(), mark)


def test_the_home_is_given_or_comes_from_the_environment_or_is_below_the_users(monkeypatch):
    monkeypatch.delenv("QUINTAIN_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")

    assert str(home_lib.find_home().path) == "/home/somebody/.quintain"
    monkeypatch.setenv("QUINTAIN_HOME", "/data/q")
    assert str(home_lib.find_home().path) == "/data/q"
    assert str(home_lib.find_home("/elsewhere").path) == "/elsewhere"


def test_an_address_that_is_written_is_found_and_is_for_its_owner_only(home):
    master_file.write(home.path, own_file())

    assert home_lib.find_master(home) == own_file()
    assert stat.S_IMODE((home.path / "master.json").stat().st_mode) == 0o600
    assert [path.name for path in home.path.iterdir() if path.is_file()] == ["master.json"]


def test_no_address_is_no_master(home):
    assert home_lib.find_master(home) is None


@pytest.mark.parametrize(
    "change",
    [{"pid": 2**22 + 1}, {"mark": "another boot 1"}],
    ids=["a process that is gone", "another process of the same number"],
)
def test_the_address_of_a_killed_master_is_stale(home, change):
    content = {**vars(own_file()), **change}
    (home.path / "master.json").write_text(json.dumps(content))

    assert home_lib.find_master(home) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 1}', "null"])
def test_a_damaged_address_counts_as_none(home, text):
    (home.path / "master.json").write_text(text)

    assert home_lib.find_master(home) is None


def test_an_address_on_a_lost_disk_is_not_taken_for_none(home, monkeypatch):
    master_file.write(home.path, own_file())

    def refuse(path):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(master_file.disk_errors, "read_json", refuse)

    with pytest.raises(OSError, match=r"Input/output error: '.*master\.json"):
        home_lib.find_own_master(home)
    with pytest.raises(OSError, match=r"Input/output error: '.*login\.json"):
        home_lib.find_master(home)
    home_lib.remove_master(home, os.getpid())
    assert (home.path / "master.json").exists()


def test_nobody_is_told_to_log_in_anew_where_a_login_is_another_users(home, monkeypatch):
    def refuse(path):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(master_file.disk_errors, "read_json", refuse)

    with pytest.raises(PermissionError, match=r"login\.json"):
        home_lib.find_master(home)


def test_an_address_is_removed_by_the_process_it_belongs_to_only(home):
    master_file.write(home.path, own_file())

    home_lib.remove_master(home, os.getpid() + 1)
    assert (home.path / "master.json").exists()
    home_lib.remove_master(home, os.getpid())
    assert not (home.path / "master.json").exists()
    home_lib.remove_master(home, os.getpid())


def test_a_master_in_another_container_is_not_taken_for_none(home, monkeypatch):
    monkeypatch.setattr(process_identity, "find_place", lambda: "that container")
    with master_lock.hold(home.path):
        master_file.write(home.path, own_file())
        monkeypatch.setattr(process_identity, "find_place", lambda: "this container")
        with pytest.raises(errors.MasterUnreachableError, match=r"elsewhere \(process \d+ on "):
            home_lib.find_master(home)
    assert home_lib.find_master(home) is None


def test_what_a_killed_master_of_another_container_left_is_no_master(home):
    holder = {"pid": 1, "host": "gone", "place": "gone"}
    (home.path / "master.lock").write_text(json.dumps(holder))

    assert home_lib.find_master(home) is None


def test_a_home_that_can_not_be_made_is_the_users_mistake(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(errors.ConfigError, match=r"QUINTAIN_HOME: got .*can't be used"):
        home_lib.find_home(str(tmp_path / "file" / "home")).create()


def modes(home):
    return {
        path.relative_to(home).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in [home, *home.rglob("*")]
    }


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_a_home_is_for_its_owner_only_whatever_the_umask(tmp_path, umask):
    path = tmp_path / "new" / "home"
    path.parent.mkdir()
    former = os.umask(umask)
    try:
        home_lib.find_home(str(path)).create()
    finally:
        os.umask(former)
    assert set(modes(path).values()) == {0o700}


def test_a_home_that_others_can_read_is_closed_and_that_is_said_once(tmp_path, caplog):
    home = home_lib.find_home(str(tmp_path / "home"))
    home.create()
    theirs = tmp_path / "theirs"
    theirs.write_text("x")
    theirs.chmod(0o644)
    (home.logs / "link").symlink_to(theirs)
    files = ["quintain.db", "quintain.db-wal", "quintain.db-shm", "server.json", "logs/master.log"]
    for name in files:
        (home.path / name).write_text("x")
        (home.path / name).chmod(0o644)
    for name in (".", "checkpoints", "logs"):
        (home.path / name).chmod(0o755)
    assert caplog.records == []

    home.create()

    assert {modes(home.path)[name] for name in files} == {0o600}
    assert {modes(home.path)[name] for name in (".", "checkpoints", "experiments", "logs")} == {
        0o700
    }
    assert stat.S_IMODE(theirs.stat().st_mode) == 0o644
    (record,) = caplog.records
    assert "could be read by other users" in record.getMessage()
    assert all(name in record.getMessage() for name in files)
    home.create()
    assert len(caplog.records) == 1


@pytest.mark.parametrize("method", ["create", "close_to_others"])
def test_a_home_that_a_link_leads_to_is_closed_like_any_other(tmp_path, caplog, method):
    target, link = tmp_path / "target", tmp_path / "link"
    (target / "logs").mkdir(parents=True)
    target.chmod(0o755)
    link.symlink_to(target)

    getattr(home_lib.find_home(str(link)), method)()

    assert stat.S_IMODE(target.stat().st_mode) == 0o700
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{link} could be read by other users")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_the_home_of_another_user_is_refused(home):
    os.chown(home.path, 65534, 65534)
    with pytest.raises(errors.ConfigError, match="belongs to user 65534"):
        home.create()
