import contextlib
import dataclasses
import errno
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from quintain import errors
from quintain.client import master_client
from quintain.client.home import home as home_lib
from quintain.master.placing import slots
from quintain.records import process_identity
from quintain.records.rows import experiment, states
from quintain.records.views import master_status
from quintain.server import daemon
from quintain.store import store as store_lib
from quintain.web import http_server


class FakeLauncher:
    def __init__(self):
        self.closed = []

    def close(self, *, kill):
        self.closed.append(kill)


class QuietMaster:
    """A master whose experiments do what they are told at once."""

    def __init__(self, store, launcher, slots, home, *, address, launch_key, accept_new_database):
        self.store = store
        self.commands = self.workers = self.files = self.nodes = self
        self.settings = {"slots": slots, "home": home, "address": address, "key": launch_key}
        self.events = []
        self.is_draining_slowly = False

    def start(self):
        self.events.append("start")

    def stop(self):
        self.events.append("stop")

    def drain(self, experiment_id=None):
        self.events.append("drain")
        while self.is_draining_slowly:
            time.sleep(0.01)
        for one in self.status().experiments:
            self._set(one.experiment_id, states.ExperimentState.PAUSED)

    def apply(self, experiment_id, command):
        self.events.append((command, experiment_id))
        return self._set(experiment_id, states.ExperimentState.ACTIVE)

    def status(self):
        with self.store.reading() as session_:
            found = session_.list_experiments()
        return master_status.MasterStatus(
            (),
            tuple(
                master_status.ExperimentStatus(one.id, one.state)
                for one in found
                if not one.state.is_terminal
            ),
        )

    def summary(self):
        return master_status.MasterSummary(
            experiments=tuple(
                master_status.ExperimentSummary(
                    one.experiment_id, one.state, num_running=len(one.running_trials)
                )
                for one in self.status().experiments
            )
        )

    def describe(self, experiment_id):
        found = self.status().experiments
        return next((one for one in found if one.experiment_id == experiment_id), None)

    def list_slots(self, **_):
        return []

    def recent_status(self):
        return self.status()

    told_status = recent_status

    def _set(self, experiment_id, state):
        with self.store.transaction() as session_:
            changed = dataclasses.replace(session_.get_experiment(experiment_id), state=state)
            session_.update_experiment(changed)
        return changed


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(daemon.master_lib, "Master", QuietMaster)


@pytest.fixture
def launcher():
    return FakeLauncher()


@pytest.fixture
def build(home, launcher):
    def build_server(**options):
        return daemon.MasterServer(
            home,
            slots=[slots.Slot(0)],
            launcher=launcher,
            settings=daemon.ServerSettings(**options),
        )

    return build_server


def add_experiments(home, *names):
    store = store_lib.open_store(str(home.database))
    with store.transaction() as session_:
        for name in names:
            session_.add_experiment(
                experiment.Experiment(0, states.ExperimentState(name), {}, "", "")
            )
    store.close()


def test_commands_find_the_master_as_long_as_it_runs(build, home):
    with build(is_embedded=True) as server:
        found = home_lib.find_master(home)
        assert found == server.file
        assert stat.S_IMODE((home.path / "master.json").stat().st_mode) == 0o600
        with master_client.MasterClient.connect(home, found.address) as calls:
            info = calls.get_info()
        assert (info.pid, info.is_embedded) == (os.getpid(), True)
        assert process_identity.find(os.getpid()).start_time == info.start_time
        assert server.master.settings["address"] == found.url == f"unix:{home.path}/master.sock"

    assert home_lib.find_master(home) is None
    assert server.master.events == ["start", "stop"]


def test_who_waited_for_the_master_finds_its_token_at_the_first_answer(build, home, monkeypatch):
    serve, found = http_server.serve, []

    def look(*args, **settings):
        found.append(home_lib.find_master(home))
        return serve(*args, **settings)

    monkeypatch.setattr(http_server, "serve", look)

    with build() as server:
        assert found == [server.file]


def test_a_second_master_is_refused_with_the_number_of_the_first(build, home):
    with build():
        with pytest.raises(errors.StateError, match=rf"already runs .*process {os.getpid()}\)"):
            build().__enter__()
        assert home_lib.find_master(home) is not None

    with build():
        pass


def test_the_next_master_has_the_address_of_the_one_before_but_not_its_token(build):
    with build() as first:
        pass
    with build() as second:
        pass

    assert (second.url, second.file.url) == (first.url, first.file.url)
    assert second.file.token != first.file.token
    # Processes that the first one started are recognised by the second one.
    assert second.master.settings["key"] == first.master.settings["key"]


def test_no_file_of_a_trial_or_for_all_users_holds_the_token(build, home):
    with build() as server:
        holders = [
            path.name
            for path in home.path.rglob("*")
            if path.is_file() and server.file.token.encode() in path.read_bytes()
        ]
        assert holders == ["master.json"]
        assert server.file.token not in repr(server.file) + repr(server.file.address)


def test_all_that_a_master_writes_is_for_its_owner_only(build, home):
    former = os.umask(0o022)
    try:
        with build():
            paths = [home.path, *home.path.rglob("*")]
            assert {"quintain.db", "master.sock", "server.json", "master.lock"} < {
                path.name for path in paths
            }
            assert [path for path in paths if path.lstat().st_mode & 0o077] == []
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(former)


def test_a_port_that_is_taken_is_the_users_mistake_or_replaced(build, home):
    with build() as first:
        port = int(first.url.rpartition(":")[2])
        other = home_lib.find_home(str(home.path) + "-other")
        with pytest.raises(errors.ConfigError, match=f"--port: got {port}"):
            daemon.MasterServer(
                other, slots=[], launcher=FakeLauncher(), settings=daemon.ServerSettings(port=port)
            ).__enter__()
        # What the master before had is only a wish.
        key = "ab" * 32
        home_lib.write_private(other.server_file, {"port": port, "launch_key": key})
        with daemon.MasterServer(other, slots=[], launcher=FakeLauncher()) as second:
            assert second.url != first.url
            assert second.master.settings["key"].to_text() == key


@pytest.mark.parametrize("kills", [False, True])
def test_processes_go_on_unless_they_are_to_be_killed(build, launcher, kills):
    with build() as server:
        if kills:
            server.kill_on_exit()

    assert launcher.closed == [kills]


def test_what_has_been_started_is_stopped_if_the_rest_fails(build, launcher, home, monkeypatch):
    def fail(self):
        raise errors.StoreError("The disk is full.")

    monkeypatch.setattr(QuietMaster, "start", fail)

    with pytest.raises(errors.StoreError, match="disk is full"):
        build().__enter__()

    assert launcher.closed == [False]
    assert home_lib.find_master(home) is None
    monkeypatch.undo()


def test_a_drained_master_hands_its_experiments_to_the_next(build, home):
    add_experiments(home, "ACTIVE", "PAUSED", "COMPLETED")
    with build() as server:
        server.drain()
        assert server.calls.get_experiment(1).state is states.ExperimentState.PAUSED

    with build() as server:
        assert server.master.events == ["start", ("activate", 1)]
        assert server.calls.get_experiment(1).state is states.ExperimentState.ACTIVE
        assert server.calls.get_experiment(2).state is states.ExperimentState.PAUSED
    with build() as server:
        assert server.master.events == ["start"]


def test_a_master_on_a_full_disk_leaves_its_trials_to_the_next(build, home, monkeypatch, caplog):
    def fill(path, content):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    add_experiments(home, "ACTIVE")
    with build() as server:
        monkeypatch.setattr(daemon.home_lib, "write_private", fill)
        server.drain()
        assert server.calls.get_experiment(1).state is states.ExperimentState.ACTIVE
    assert "the next master takes over" in caplog.text
    assert "resume.json: No space left on device. Free some space" in caplog.text


@pytest.mark.parametrize("name", ["server.json", "resume.json", "master.json", "home.json"])
@pytest.mark.parametrize("content", [b"", b'{"experiments": [1', bytes(64), b"[]", b"{}"])
def test_a_torn_file_of_the_home_keeps_no_master_from_starting(build, home, name, content, caplog):
    add_experiments(home, "PAUSED")
    (home.path / name).write_bytes(content)

    with build() as server:
        assert home_lib.find_master(home) == server.file
        assert json.loads((home.path / "server.json").read_text()).keys() == {"port", "launch_key"}
    assert not (home.path / "resume.json").exists()


def test_a_torn_list_of_paused_experiments_is_named(build, home, caplog):
    home.resume_file.write_text('{"experiments": [1')

    with build():
        assert str(home.resume_file) in caplog.text
    assert "experiment activate ID" in caplog.text


def test_draining_ends_when_somebody_loses_patience(build):
    with build() as server:
        server.master.is_draining_slowly = True
        threading.Timer(0.2, lambda: server.request_stop(drain=False)).start()
        server.drain()
        server.master.is_draining_slowly = False
        # It asks the store, which is closed next.
        for thread in threading.enumerate():
            if thread.name == "quintain-drain":
                thread.join(60)


def test_the_master_waits_until_it_is_asked_to_stop(build, home):
    with build() as server:
        threading.Timer(0.2, lambda: server.request_stop(drain=True)).start()
        assert server.wait() is True
    with build() as server:
        with master_client.MasterClient.connect(home, server.file.address) as calls:
            calls.stop_master(drain=False)
        assert server.wait() is False


def test_an_idle_master_ends_but_not_one_with_work(build, home, monkeypatch):
    monkeypatch.setattr(daemon, "_IDLE_CHECK_SECS", 0.01)
    add_experiments(home, "ACTIVE", "PAUSED")
    ended = []
    with build() as server:
        waiting = threading.Thread(target=lambda: ended.append(server.wait(idle_timeout_secs=0.1)))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        server.drain()
        waiting.join(60)
    assert ended == [True]


def test_a_master_does_not_end_under_an_open_page(build, monkeypatch):
    monkeypatch.setattr(daemon, "_IDLE_CHECK_SECS", 0.01)
    with build() as server:
        waiting = threading.Thread(target=server.wait, kwargs={"idle_timeout_secs": 0.0})
        with server.sign_in.answering():
            waiting.start()
            waiting.join(0.2)
            assert waiting.is_alive()
        monkeypatch.setattr(daemon.sign_in_lib, "_LINGER_SECS", 0.0)
        waiting.join(60)
        assert not waiting.is_alive()


def test_a_browser_stays_signed_in_with_the_next_master_of_the_port(build, home, tmp_path):
    with build(run_dirs=[str(tmp_path)]) as first:
        cookie = first.sign_in.sessions.begin()
        with master_client.MasterClient.connect(home, first.file.address) as client:
            further = tmp_path / "further"
            further.mkdir()
            client.add_run_dirs([str(further)])
            assert client.get_info().run_dirs == (str(tmp_path), str(further))
            # The next master is given those that are still there.
            assert first.run_dirs == (str(tmp_path), str(further))
            further.rmdir()
            assert first.run_dirs == (str(tmp_path),)
            link = client.build_link()
            page = first.sign_in.sessions.page_path
            assert link.url.startswith(f"{first.url}/{page}/sign-in?code=")
    with build() as second:
        assert second.sign_in.sessions.find(cookie) is not None
        # A link of the former master is not good any more.
        assert not second.sign_in.codes.use(link.url.partition("code=")[2])
    port = int(second.url.rpartition(":")[2])
    with contextlib.closing(http_server.listen(port, 0)), build() as third:
        assert third.url != second.url
        assert third.sign_in.sessions.find(cookie) is None
    with build(port=port) as fourth:
        assert fourth.sign_in.sessions.find(cookie) is None


@pytest.mark.slow
def test_a_killed_master_leaves_nothing_that_stops_the_next(build, home):
    code = textwrap.dedent("""
        import time
        from quintain.client.home import home
        from quintain.server import daemon
        from tests.server import test_daemon

        daemon.master_lib.Master = test_daemon.QuietMaster
        launcher = test_daemon.FakeLauncher()
        with daemon.MasterServer(home.find_home(), slots=[], launcher=launcher):
            print("ready", flush=True)
            time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        former = home_lib.find_master(home)
        assert former.pid == process.pid
        with pytest.raises(errors.StateError, match=rf"process {process.pid}\)"):
            build().__enter__()
        process.send_signal(signal.SIGKILL)

    assert home_lib.find_master(home) is None
    assert json.loads((home.path / "master.json").read_text())["pid"] == former.pid
    with build() as server:
        assert server.file.url == former.url
        assert server.file.token != former.token
