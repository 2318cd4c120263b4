import contextlib
import dataclasses
import json
import pathlib
import socket
import threading
import time
import types
import uuid

import pytest

from quintain.records import checkpoint_manifest
from quintain.storage import checkpoint_storage, directory_storage, fsspec_storage

HOME = "home-1"
WRITER = checkpoint_storage.Writer(HOME, 3, "t7-0123")


class Road:
    """A way to a server, which can be blocked after some bytes, and opened again.

    Requests that write take `put_secs` longer.
    """

    def __init__(self, port, put_secs=0.0):
        self._put_secs = put_secs
        self._target = port
        self._listener = None
        self._ends = []
        self._left = self._again_secs = None
        self.port = 0
        self.open()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def open(self):
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close_after(self, num_bytes, *, again_secs=None):
        self._left, self._again_secs = num_bytes, again_secs

    def close(self):
        self._left = None
        for end in [self._listener, *self._ends]:
            with contextlib.suppress(OSError):  # It is closed already.
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends = []

    def _accept(self, listener):
        while True:
            try:
                near = listener.accept()[0]
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            self._ends += [near, far]
            threading.Thread(target=self._pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _pump(self, source, target, is_sent):
        try:
            while piece := source.recv(4096):
                if is_sent and piece.startswith(b"PUT "):
                    time.sleep(self._put_secs)
                if is_sent and self._left is not None:
                    self._left -= len(piece)
                    if self._left < 0:
                        self.close()
                        if self._again_secs is not None:
                            threading.Timer(self._again_secs, self.open).start()
                        return
                target.sendall(piece)
        except OSError:
            pass
        finally:
            source.close()
            target.close()


@pytest.fixture(scope="session")
def s3_port():
    moto_server = pytest.importorskip("moto.server")
    server = moto_server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@pytest.fixture
def s3(s3_port, monkeypatch):
    """The options of a server with the bucket `runs`, which accepts what the environment has."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-to-be-seen")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    options = {"endpoint_url": f"http://127.0.0.1:{s3_port}"}
    system = fsspec_storage.FsspecStorage("s3://runs", options)._system
    if not system.exists("runs"):
        system.mkdir("runs")
    return options


@pytest.fixture
def given():
    """What tests write, and as whom."""
    return types.SimpleNamespace(HOME=HOME, WRITER=WRITER, Road=Road, write=write, save=save)


@pytest.fixture
def url():
    return f"memory://quintain-{uuid.uuid4().hex}/über all"


@pytest.fixture
def storage(url, tmp_path):
    return fsspec_storage.FsspecStorage(url, {}, WRITER, scratch=tmp_path / "scratch")


@pytest.fixture(params=["directory", "memory", "file", "s3"])
def any_storage(request, tmp_path, url):
    scratch = tmp_path / "scratch"
    match request.param:
        case "directory":
            return directory_storage.DirectoryStorage(tmp_path / "root", WRITER)
        case "memory":
            return fsspec_storage.FsspecStorage(url, {}, WRITER, scratch=scratch)
        case "file":
            return fsspec_storage.FsspecStorage(f"file://{tmp_path}/r", {}, WRITER, scratch=scratch)
        case _:
            where = f"s3://runs/{uuid.uuid4().hex}/a b"
            options = request.getfixturevalue("s3")
            return fsspec_storage.FsspecStorage(where, options, WRITER, scratch=scratch)


def write(directory: pathlib.Path, **changes):
    """Writes files and a manifest as a trial does."""
    (directory / "vari ables").mkdir()
    (directory / "vari ables/data*[0]").write_bytes(bytes(range(256)) * 40)
    (directory / "ä.json").write_text("{}")
    (directory / "assets").mkdir()
    manifest = checkpoint_manifest.Manifest(
        format=1,
        kind="KerasTrialController",
        total_batches=5,
        experiment_id=3,
        trial_id=7,
        seed=1,
        hparams={"lr": 0.1},
        home_id=HOME,
        launch_id=WRITER.launch_id,
        hashes=checkpoint_manifest.hash_files(directory),
        sizes=checkpoint_manifest.list_files(directory),
    )
    content = {**dataclasses.asdict(manifest), **changes}
    (directory / checkpoint_manifest.FILE_NAME).write_text(json.dumps(content))
    return checkpoint_manifest.list_files(directory)


def save(storage, name=None, **changes):
    """Saves a checkpoint and returns its name."""
    name = name or str(uuid.uuid4())
    directory = storage.stage(name)
    write(directory, **changes)
    storage.commit(directory, name)
    return name
