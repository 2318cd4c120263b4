"""Processes that do not see the master's directories, and connections that break.

A real master answers over HTTP. What stands between it and a process cuts each connection after a
number of bytes.
"""

import contextlib
import json
import os
import pathlib
import socket
import threading
import types
import urllib.parse
import uuid

import pytest
import urllib3

from quintain import errors
from quintain.client import address, master_client
from quintain.client.home import home as home_lib
from quintain.client.http import connection
from quintain.files import atomic_write
from quintain.master import master as master_lib
from quintain.master.placing import slots
from quintain.master.processes import launch_tokens
from quintain.master.transfer import uploads as uploads_lib
from quintain.records import checkpoint_manifest
from quintain.records.rows import workload
from quintain.records.views import file_listing, master_status
from quintain.server import app as app_lib
from quintain.server import direct_calls
from quintain.server.security import sessions as sessions_lib
from quintain.server.security import sign_in as sign_in_lib
from quintain.storage import retries
from quintain.store import store as store_lib
from quintain.testing import idle_launcher
from quintain.trials.process import trial_files, worker
from quintain.web import http_server

KEY = launch_tokens.LaunchKey(bytes(32))
CONFIG = """
name: digits
entrypoint: model_def:Digits
searcher: {name: random, metric: loss, max_length: {batches: 100}, max_trials: 2}
scheduling_unit: 10
"""
QUICK = connection.Retries(total_secs=60.0, first_pause_secs=0.01, max_pause_secs=0.05)
NONE = connection.Retries(total_secs=0.0)
HOSTILE_PATHS = [
    "../escaped", "/etc/escaped", "a/../../escaped", "", ".", "a//b", "./a", "a/", "..", "a\\b",
    "n" * 300, "p/" * 600 + "q", "\0",
]  # fmt: skip


class Launcher(idle_launcher.IdleLauncher):
    """Has other machines start what it is told to."""

    def __init__(self):
        self.launches = {}
        self.exits = []

    def start(self, launch):
        self.launches[launch.trial_id] = launch

    def kill(self, launch_id):
        pass

    def poll(self):
        exits, self.exits = self.exits, []
        return exits


class Proxy:
    """Forwards connections, and cuts each after `most_bytes` in one of the directions."""

    def __init__(self, port):
        self.most_bytes = None
        self.num_cut = 0
        self._threads = []
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for end in (client, server):
                    # Otherwise the end of each request waits 40 ms for the other side.
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for pair in ((client, server), (server, client)):
                    thread = threading.Thread(target=self._forward, args=pair, daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _forward(self, source, target):
        count = 0
        with contextlib.suppress(OSError):
            while data := source.recv(8192):
                count += len(data)
                if self.most_bytes is not None and count > self.most_bytes:
                    target.sendall(data[: len(data) // 2])
                    self.num_cut += 1
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def code(tmp_path):
    directory = tmp_path / "code"
    (directory / "dätä files").mkdir(parents=True)
    (directory / "model_def.py").write_text("class Digits: ...\n")
    (directory / "dätä files" / "a b%20.txt").write_bytes(bytes(range(256)) * 300)
    (directory / "empty").touch()
    (directory / "run.sh").write_text("#!/bin/sh\n")
    (directory / "run.sh").chmod(0o755)
    (directory / "link").symlink_to("dätä files/a b%20.txt")
    return directory


@pytest.fixture
def cluster(tmp_path, code):
    """Returns a master with two trials that run elsewhere, behind a proxy."""
    home = home_lib.Home(tmp_path / "home")
    home.create()
    store = store_lib.open_store(str(home.database))
    launcher = Launcher()
    master = master_lib.Master(
        store, launcher, [slots.Slot(0), slots.Slot(1)], home.path, launch_key=KEY
    )
    master.recover()
    master.commands.create_experiment(CONFIG, code)
    master.tick()
    info = master_status.MasterInfo("1.2.3", str(home.path), "http://testserver", 12, 34.5)
    calls = direct_calls.DirectCalls(store, home, master.status)
    with (
        contextlib.closing(http_server.listen(0, 0)) as listener,
        contextlib.closing(Proxy(listener.getsockname()[1])) as proxy,
    ):
        sign_in = sign_in_lib.SignIn(
            info.url, sessions_lib.Sessions(port=0), hosts=[f"127.0.0.1:{proxy.port}"]
        )
        app = app_lib.build_app(
            calls,
            master,
            info,
            token="secret",
            launch_key=KEY,
            stop=lambda drain: None,
            sign_in=sign_in,
        )
        with http_server.serve(app, listener):
            yield types.SimpleNamespace(
                home=home, master=master, launcher=launcher, proxy=proxy, store=store
            )
    store.close()


@pytest.fixture
def make_source(cluster, tmp_path, monkeypatch):
    """Returns a function that makes what the process of a trial on a machine asks."""
    with contextlib.ExitStack() as stack:

        def make(machine="a", trial_id=1, *, is_shared=False, retries=QUICK, limit=2**30):
            if not is_shared:
                monkeypatch.setattr(trial_files.TrialFiles, "_is_shared", lambda *_: False)
            launch_id = cluster.launcher.launches[trial_id].launch_id
            environment = {
                "QUINTAIN_MASTER": f"http://127.0.0.1:{cluster.proxy.port}",
                "QUINTAIN_TOKEN": KEY.build_token(trial_id, launch_id),
                "QUINTAIN_TRIAL_ID": str(trial_id),
                "QUINTAIN_LAUNCH_ID": launch_id,
                "QUINTAIN_SCRATCH": str(tmp_path / machine / "scratch" / launch_id),
                "QUINTAIN_MASTER_HOME": str(tmp_path / "nowhere"),
                "QUINTAIN_CACHE": str(tmp_path / machine),
                "QUINTAIN_CACHE_LIMIT": str(limit),
            }
            settings = worker.Settings.from_environment(environment)
            connected = connection.Connection(settings.address, retries=retries)
            source = worker.HttpWorkloadSource(settings, stack.enter_context(connected))
            stack.callback(source._files._cache.close)
            return source

        yield make


def read_all(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(pathlib.Path(directory).rglob("*"))
        if path.is_file()
    }


def write_checkpoint(source, spec, size=3_000_000, **changes):
    """Saves a checkpoint as a trial does; returns its name and the files."""
    storage = source.open_storage(spec)
    name = str(uuid.uuid4())
    directory = storage.stage(name)
    (directory / "ränks" / "1").mkdir(parents=True)
    (directory / "state").write_bytes(os.urandom(size))
    (directory / "ränks" / "1" / "part %41").write_bytes(b"part" * 1000)
    (directory / "empty").touch()
    manifest = {
        "format": 1, "kind": "FakeController", "total_batches": 10,
        "experiment_id": spec.experiment_id, "trial_id": spec.trial_id, "seed": spec.seed,
        "hparams": {}, "home_id": spec.home_id, "launch_id": spec.launch_id,
        "hashes": checkpoint_manifest.hash_files(directory),
        "sizes": checkpoint_manifest.list_files(directory), **changes,
    }  # fmt: skip
    (directory / "metadata.json").write_text(json.dumps(manifest))
    written = read_all(directory)
    files = checkpoint_manifest.list_files(directory)
    storage.commit(directory, name)
    return name, written, files


def save(cluster, source, spec, size=3_000_000):
    """Trains, saves, and reports it as a trial does."""
    stored = None
    while stored is None:
        task = source.next_workload()
        parts = {"metrics": {"loss": 0.5}}
        if task.kind is workload.WorkloadKind.CHECKPOINT:
            name, written, files = write_checkpoint(source, spec, size)
            stored = workload.StoredCheckpoint(name, files)
            parts = {"checkpoint": stored}
        elif not any(
            live.is_preempted for live in cluster.master._shared.launches_by_trial.values()
        ):
            for live in cluster.master._shared.launches_by_trial.values():
                live.is_preempted = True
        source.report(workload.WorkloadResult(task, 1.0, 2.0, **parts))
    return name, written


def go_on(cluster, trial_id=1):
    """Lets the process of a trial end, and starts it anew."""
    former = cluster.launcher.launches.pop(trial_id)
    live = cluster.master._shared.launches_by_trial[trial_id]
    cluster.launcher.exits.append(
        master_lib.scheduling.launcher_lib.ProcessExit(live.record.launch_id, trial_id, 0, None)
    )
    cluster.master.tick()
    cluster.master.tick()
    assert cluster.launcher.launches[trial_id].launch_id != former.launch_id


@pytest.mark.parametrize("most_bytes", [None, 30_000])
def test_code_is_fetched_once_for_all_processes_of_a_machine(
    cluster, make_source, code, most_bytes
):
    cluster.proxy.most_bytes = most_bytes
    spec = make_source("a", 1).start()
    assert read_all(spec.model_dir) == read_all(code)
    assert os.readlink(pathlib.Path(spec.model_dir, "link")) == "dätä files/a b%20.txt"
    assert os.access(pathlib.Path(spec.model_dir, "run.sh"), os.X_OK)
    assert not os.access(pathlib.Path(spec.model_dir, "model_def.py"), os.X_OK)
    (pathlib.Path(spec.model_dir) / "seen").touch()
    assert pathlib.Path(make_source("a", 2).start().model_dir, "seen").exists()
    assert not pathlib.Path(make_source("b", 2).start().model_dir, "seen").exists()
    assert str(cluster.home.path) not in json.dumps(vars(spec), default=repr)


def test_code_that_is_damaged_on_a_machine_is_fetched_again(make_source, code):
    directory = pathlib.Path(make_source("a", 1).start().model_dir)
    (directory / "model_def.py").write_text("class Dig")
    (directory / "run.sh").unlink()
    (directory / "dätä files" / "a b%20.txt").write_bytes(bytes(256 * 300))
    assert pathlib.Path(make_source("a", 2).start().model_dir) == directory
    assert read_all(directory) == read_all(code)
    assert os.access(directory / "run.sh", os.X_OK)


def test_directories_that_are_seen_are_used(cluster, make_source):
    source = make_source("a", is_shared=True)
    spec = source.start()
    assert spec.model_dir == str(cluster.home.experiments / "1" / "model_dir")
    assert spec.tensorboard_dir == str(cluster.home.experiments / "1" / "tensorboard" / "1")
    name, written, _ = write_checkpoint(source, spec, size=10)
    assert read_all(cluster.home.checkpoints / name) == written
    assert cluster.proxy.num_cut == 0


def test_a_copy_of_a_directory_on_another_machine_is_not_taken_for_it(cluster, make_source):
    make_source("a", is_shared=True).start()
    for mark in cluster.home.path.rglob(".quintain-*.mark"):
        mark.write_text("of another master")
    source = make_source("b", is_shared=True)
    spec = source.start()
    assert spec.model_dir.startswith(str(cluster.home.path.parent / "b" / "code"))
    write_checkpoint(source, spec, size=10)
    assert not list((cluster.home.path.parent / "b" / "scratch").rglob("state"))


@pytest.mark.parametrize("most_bytes", [None, 400_000])
def test_a_checkpoint_that_is_sent_is_whole_whatever_breaks(cluster, make_source, most_bytes):
    source = make_source()
    spec = source.start()
    cluster.proxy.most_bytes = most_bytes
    name, written, _ = write_checkpoint(source, spec)
    assert read_all(cluster.home.checkpoints / name) == written
    assert os.listdir(cluster.home.checkpoints / name / "ränks") == ["1"]
    assert [p.name for p in cluster.home.checkpoints.iterdir() if p.is_dir()] == [name]
    assert not list(pathlib.Path(spec.scratch_dir).rglob("state"))
    assert (cluster.proxy.num_cut > 5) is (most_bytes is not None)


def test_a_trial_goes_on_elsewhere_from_the_checkpoint_that_it_sent(cluster, make_source):
    first = make_source("a")
    name, written = save(cluster, first, first.start())
    go_on(cluster)
    second = make_source("b")
    spec = second.start()
    assert spec.checkpoint == name
    cluster.proxy.most_bytes = 400_000
    directory = second.fetch_checkpoint(spec)
    assert read_all(directory) == written
    assert cluster.proxy.num_cut > 5
    cluster.proxy.most_bytes = 0
    # Another process of the machine, of the same trial, need not fetch it.
    assert second.fetch_checkpoint(spec) == directory


def damage(path):
    data = bytearray((path / "state").read_bytes())
    data[1000] ^= 1
    (path / "state").write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (damage, "state is not what was written"),
        (lambda path: (path / "state").write_bytes(b""), "state has 0 bytes, expected 1000"),
        (lambda path: (path / "state").unlink(), "state is not there"),
        (lambda path: (path / "metadata.json").unlink(), "metadata.json"),
        (lambda path: path.rename(path.with_name("gone")), "its directory is not there"),
    ],
)
def test_a_checkpoint_that_is_damaged_at_the_master_is_told(cluster, make_source, spoil, message):
    first = make_source("a")
    name, _ = save(cluster, first, first.start(), size=1001)
    go_on(cluster)
    spoil(cluster.home.checkpoints / name)
    second = make_source("b")
    spec = second.start()
    with pytest.raises(errors.DamagedCheckpointError) as caught:
        second.fetch_checkpoint(spec)
    assert message.replace("1000", "1001") in caught.value.damage
    assert second.report_damage(name, caught.value.damage).checkpoint is None


def test_an_upload_survives_a_master_that_is_restarted(cluster, make_source, monkeypatch):
    source = make_source()
    spec = source.start()
    write, states = uploads_lib.Uploads.write, []

    def forget(uploads, *args):
        states.append(None)
        if len(states) == 2:
            cluster.master.files._uploads = uploads_lib.Uploads(kept_bytes=0)
            raise errors.StoreError("It is restarted.")
        return write(uploads, *args)

    monkeypatch.setattr(uploads_lib.Uploads, "write", forget)
    name, written, _ = write_checkpoint(source, spec)
    assert read_all(cluster.home.checkpoints / name) == written


def test_trials_that_send_at_once_do_not_end_each_other(cluster, make_source, monkeypatch):
    first, second = make_source("a", 1), make_source("b", 2)
    specs = first.start(), second.start()
    commit, stat, names = uploads_lib.Uploads.commit, pathlib.Path.stat, []

    def become_a_checkpoint(path, **kwargs):
        if path.name == "state" and path.is_relative_to(own := unfinished[0]):
            unfinished[0] = pathlib.Path("/none")
            own.rename(cluster.home.checkpoints / own.name)
        return stat(path, **kwargs)

    def wait(uploads, root, owner, name):
        if owner.trial_id == 1:
            unfinished[:] = cluster.home.checkpoints.glob(f".*.tmp/{name}")
            with monkeypatch.context() as patch:
                patch.setattr(pathlib.Path, "stat", become_a_checkpoint)
                names.append(write_checkpoint(second, specs[1])[0])
        commit(uploads, root, owner, name)

    unfinished = [pathlib.Path("/none")]
    monkeypatch.setattr(uploads_lib.Uploads, "commit", wait)
    names.append(write_checkpoint(first, specs[0])[0])
    assert unfinished == [pathlib.Path("/none")]
    assert all((cluster.home.checkpoints / name).is_dir() for name in names)


def test_an_upload_that_is_begun_again_while_it_becomes_a_checkpoint_leaves_nothing(
    cluster, make_source, ask, monkeypatch
):
    source = make_source()
    spec = source.start()
    sync, answers = atomic_write.sync_tree, []

    def begin_again(directory):
        sizes = checkpoint_manifest.list_files(directory)
        sizes = {name: size for name, size in sizes.items() if not name.endswith("/")}
        path = f"uploads/{directory.name}"
        again = threading.Thread(
            target=lambda: answers.append(ask("POST", path, {"sizes": sizes}).json)
        )
        again.start()
        again.join(0.3)  # It waits.
        waiting.append(again)
        sync(directory)

    waiting = []
    monkeypatch.setattr(atomic_write, "sync_tree", begin_again)
    name, written, _ = write_checkpoint(source, spec)
    waiting[0].join()
    assert answers == [{"is_complete": True, "files": {}}]
    assert read_all(cluster.home.checkpoints / name) == written
    assert not list(cluster.home.checkpoints.glob(".*.tmp"))


@pytest.mark.parametrize("method", ["begin", "write", "commit"])
def test_a_file_that_the_master_has_lost_is_no_mistake_of_who_sends(
    cluster, make_source, monkeypatch, method
):
    source = make_source()
    spec = source.start()
    call, seen = getattr(uploads_lib.Uploads, method), []

    def lose(uploads, *args):
        if not seen:
            seen.append(method)
            (cluster.home.path / "gone").stat()
        return call(uploads, *args)

    monkeypatch.setattr(uploads_lib.Uploads, method, lose)
    name, written, _ = write_checkpoint(source, spec)
    assert seen
    assert read_all(cluster.home.checkpoints / name) == written


@pytest.mark.parametrize("function", ["list_code", "find_code"])
def test_a_file_that_the_master_has_lost_is_no_mistake_of_who_fetches(
    cluster, make_source, monkeypatch, code, function
):
    call, seen = getattr(cluster.master.files, function), []

    def lose(*args):
        if not seen:
            seen.append(function)
            (cluster.home.path / "gone").stat()
        return call(*args)

    monkeypatch.setattr(cluster.master.files, function, lose)
    assert read_all(make_source().start().model_dir) == read_all(code)
    assert seen


def test_what_arrives_changed_is_sent_again(cluster, make_source, monkeypatch):
    source = make_source()
    spec = source.start()
    commit = uploads_lib.Uploads.commit
    seen = []

    def spoil(uploads, root, owner, name):
        if not seen:
            seen.append(name)
            (path,) = cluster.home.checkpoints.glob(f".*.tmp/{name}")
            damage(path)
        commit(uploads, root, owner, name)

    monkeypatch.setattr(uploads_lib.Uploads, "commit", spoil)
    name, written, _ = write_checkpoint(source, spec)
    assert seen == [name]
    assert read_all(cluster.home.checkpoints / name) == written


def test_what_a_process_had_begun_to_send_goes_with_it(cluster, make_source, ask):
    make_source().start()
    name = str(uuid.uuid4())
    assert ask("POST", f"uploads/{name}", {"sizes": {"state": 9}}).status == 200
    assert ask("PUT", f"uploads/{name}/files/state", b"abc").json == {"received": 3}
    assert len(list(cluster.home.checkpoints.glob(".*.tmp"))) == 1
    go_on(cluster)
    assert not list(cluster.home.checkpoints.glob(".*.tmp"))
    assert ask("PUT", f"uploads/{name}/files/state?offset=3", b"abc").status == 410


def test_a_full_disk_of_the_master_is_waited_for(cluster, make_source, monkeypatch):
    source, told, free = make_source(), [], [40 * 2**20]
    spec = source.start()

    def make_room(text):
        told.append(text)
        free[0] = 2**40

    monkeypatch.setattr(
        os, "statvfs", lambda _: types.SimpleNamespace(f_bavail=free[0], f_frsize=1)
    )
    with retries.wait_listener(make_room):
        name, written, _ = write_checkpoint(source, spec, size=9 * 2**20)
    assert "disk of the master's machine is full: 40 MiB are free" in told[0]
    assert (len(told), told[-1]) == (2, "")
    assert read_all(cluster.home.checkpoints / name) == written


def test_a_master_that_stays_away_is_waited_for_once(cluster, make_source):
    source = make_source(retries=NONE)
    spec = source.start()
    cluster.proxy.most_bytes = 0
    with pytest.raises(errors.MasterUnreachableError):
        write_checkpoint(source, spec)
    assert source.is_lost
    source.report_exit(workload.ExitedReason.ERRORED, "lost")


def test_event_files_come_to_the_master(cluster, make_source):
    source = make_source()
    spec = source.start()
    events = pathlib.Path(spec.tensorboard_dir, "träin")
    events.mkdir(parents=True)
    (events / "events.out.tfevents.1").write_bytes(b"first")
    source.close()
    (events / "events.out.tfevents.1").write_bytes(b"first and second")
    source.close()
    kept = cluster.home.experiments / "1" / "tensorboard" / "1"
    assert read_all(kept) == {"träin/events.out.tfevents.1": b"first and second"}


@pytest.fixture
def ask(cluster):
    """Returns a function that asks below the files of a run, with its token."""
    with urllib3.PoolManager(retries=False) as pool:
        tokens = {
            trial_id: (launch.launch_id, KEY.build_token(trial_id, launch.launch_id))
            for trial_id, launch in cluster.launcher.launches.items()
        }

        def send(method, path, body=None, *, trial_id=1, token_of=1, kind=None):
            launch_id = tokens[trial_id][0]
            is_data = isinstance(body, bytes)
            kind = kind or ("application/octet-stream" if is_data else "application/json")
            answer = pool.urlopen(
                method,
                f"http://127.0.0.1:{cluster.proxy._target}/api/v1/trials/{trial_id}/runs/"
                f"{launch_id}/files/{path}",
                body=body if is_data or body is None else json.dumps(body),
                headers={"Authorization": f"Bearer {tokens[token_of][1]}", "Content-Type": kind},
            )
            text = answer.data.decode("utf-8", "replace")
            found = json.loads(text) if "json" in answer.headers["content-type"] else None
            return types.SimpleNamespace(status=answer.status, text=text, json=found)

        yield send


def test_no_path_leads_out_of_what_is_the_trials(cluster, ask, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    name = str(uuid.uuid4())
    for path in HOSTILE_PATHS:
        quoted = urllib.parse.quote(path, safe="")
        answers = [
            ask("POST", f"uploads/{name}", {"sizes": {path: 3}}),
            ask("PUT", f"uploads/{name}/files/{quoted}", b"abc"),
            ask("PUT", f"uploads/{name}/files/{path}", b"abc"),
            ask("PUT", f"events/{quoted}", b"abc"),
            ask("GET", f"code/{quoted}/"),
            ask("GET", f"checkpoints/{quoted}/{quoted}"),
            ask("POST", f"uploads/{quoted}", {"sizes": {"a": 3}}),
        ]
        statuses = {answer.status for answer in answers}
        assert statuses <= {400, 403, 404, 405, 409, 410, 414, 415}, path
    new = [path for path in tmp_path.rglob("*") if path not in before]
    new = [path for path in new if not file_listing.is_mark(path.name)]
    assert [path for path in new if "tensorboard" not in path.parts] == []


def test_an_upload_keeps_to_what_was_announced(cluster, ask):
    name, other = str(uuid.uuid4()), str(uuid.uuid4())
    upload = f"uploads/{name}"
    assert ask("PUT", f"{upload}/files/state", b"abc").status == 409
    assert ask("POST", upload, {"sizes": {"state": 5, "a/b": 0}}).json == {
        "is_complete": False,
        "files": {"a/b": 0},
    }
    assert ask("PUT", f"{upload}/files/more", b"abc").status == 400
    assert ask("PUT", f"{upload}/files/state", b"abcdef").status == 400
    assert ask("PUT", f"{upload}/files/state?offset=4", b"a").status == 409
    assert ask("PUT", f"{upload}/files/state", b"abc", kind="application/json").status == 400
    assert ask("PUT", f"{upload}/files/state", b"abc").json == {"received": 3}
    assert "3 of 5 bytes" in ask("POST", f"{upload}/commit").text
    assert ask("POST", f"uploads/{other}/commit").status == 409
    assert ask("POST", upload, {"sizes": {"state": 5, "a": 1, "a/b": 0}}).status == 400
    assert ask("POST", upload, {"sizes": {"state": -1}}).status == 400
    assert ask("POST", upload, {"sizes": {"state": 2**80}}).status == 400
    assert ask("POST", upload, {"sizes": {"state": 2**60}}).status == 409
    # A new one takes the place of the one before.
    assert ask("POST", f"uploads/{other}", {"sizes": {"state": 5}}).status == 200
    assert ask("PUT", f"{upload}/files/state?offset=3", b"de").status == 409
    assert ask("DELETE", f"uploads/{other}").status == 200
    assert [path for path in cluster.home.checkpoints.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"trial_id": 2},
        {"experiment_id": 7},
        {"home_id": "x"},
        {"launch_id": "t1-x"},
        {"hashes": {}},
    ],
)
def test_a_manifest_of_somebody_else_is_refused(cluster, make_source, changes):
    source = make_source()
    spec = source.start()
    with pytest.raises(errors.ConfigError, match="manifest"):
        write_checkpoint(source, spec, size=10, **changes)
    assert [path for path in cluster.home.checkpoints.iterdir() if path.is_dir()] == []


def test_a_trial_reads_and_writes_its_own_files_only(cluster, make_source, ask):
    source = make_source("a", 2)
    name, _ = save(cluster, source, source.start(), size=10)
    assert ask("GET", f"checkpoints/{name}/state", trial_id=2, token_of=2).status == 200
    assert ask("GET", f"checkpoints/{name}/state").status == 404
    assert ask("GET", f"checkpoints/{name}").status == 404
    for method, path in (
        ("GET", "places"), ("GET", "code"), ("GET", f"checkpoints/{name}"), ("GET", "events"),
        ("POST", f"uploads/{name}"), ("PUT", "events/a"), ("DELETE", f"uploads/{name}"),
    ):  # fmt: skip
        assert ask(method, path, trial_id=2, token_of=1).status == 403


def test_paths_that_stay_inside_are_as_they_were_given():
    assert file_listing.check_path("ä b/c%2F..%00") == "ä b/c%2F..%00"


def test_a_download_of_a_user_goes_on_where_it_broke(cluster, make_source, tmp_path):
    source = make_source()
    name, written = save(cluster, source, source.start())
    cluster.proxy.most_bytes = 400_000
    users = address.Address(f"http://127.0.0.1:{cluster.proxy.port}", "secret")
    with master_client.MasterClient(connection.Connection(users, retries=QUICK)) as client:
        client.fetch_checkpoint(name, tmp_path / "copy")
        assert read_all(tmp_path / "copy") == written
        (cluster.home.checkpoints / name / "state").write_bytes(b"short")
        client.fetch_checkpoint(name, tmp_path / "copy")
    assert read_all(tmp_path / "copy") == read_all(cluster.home.checkpoints / name)
    assert cluster.proxy.num_cut > 5
