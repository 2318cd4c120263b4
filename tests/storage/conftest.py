import contextlib
import dataclasses
import functools
import json
import pathlib
import shutil
import socket
import subprocess
import threading
import time
import types
import uuid
import warnings

import pytest

from quintain.records import checkpoint_manifest
from quintain.storage import (
    checkpoint_storage,
    directory_storage,
    fsspec_storage,
)

HOME = "home-1"
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = (  # That of all emulators.
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
ENVIRONMENT = {
    "s3": {
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "not-to-be-seen",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    },
    "gs": {},
    "azure": {"AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY},
}
WRITER = checkpoint_storage.Writer(HOME, 3, "t7-0123")
_OTHERS = pytest.mark.long("What is ours is the same for every object store, and S3 shows it")
PROVIDERS = ["s3", *(pytest.param(kind, marks=_OTHERS) for kind in ("gs", "azure"))]


class Road:
    """A way to a server, which can be blocked after some bytes, and opened again.

    Requests that write take `put_secs` longer.
    """

    def __init__(self, port, put_secs=0.0):
        self._put_secs = put_secs
        self._target = port
        self._listener = None
        self._ends = []
        self._left = self._again_secs = self._later = None
        self._refusal = None
        self.num_refused = 0
        # It never listens: while the road is blocked, nobody else gets its port.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port = self._reserved.getsockname()[1]
        self.open()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def open(self):
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self, answer):
        """Gives this answer to all that is asked from now on; None lets requests through again."""
        self._refusal = answer
        for end in self._ends:
            with contextlib.suppress(OSError):  # It is closed already.
                end.shutdown(socket.SHUT_RDWR)
        self._ends = []

    def close_after(self, num_bytes, *, again_secs=None):
        self._left, self._again_secs = num_bytes, again_secs

    def refuse_after(self, num_bytes, answer, *, again_secs):
        self._later = answer
        self.close_after(num_bytes, again_secs=again_secs)

    def close(self):
        self._shut()
        self._reserved.close()

    def _shut(self):
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
            if self._refusal is not None:
                self.num_refused += 1
                arguments = (near, self._refusal)
                threading.Thread(target=self._answer, args=arguments, daemon=True).start()
                continue
            far = socket.create_connection(("127.0.0.1", self._target))
            for end in (near, far):
                # Otherwise the end of each request waits 40 ms for the other side.
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._ends += [near, far]
            threading.Thread(target=self._pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _block(self):
        self._left = None
        again = self.open
        if self._later is None:
            self._shut()
        else:
            again = functools.partial(self.refuse, None)
            self.refuse(self._later)
        if self._again_secs is not None:
            threading.Thread(target=self._come_again, args=(again,), daemon=True).start()

    def _come_again(self, again):
        time.sleep(self._again_secs)
        # On a busy machine nobody may have asked yet.
        while self._refusal is not None and self.num_refused < 2:
            time.sleep(0.02)
        again()

    @staticmethod
    def _answer(near, answer):
        with contextlib.suppress(OSError, ValueError), near, near.makefile("rb") as request:
            lines = iter(request.readline, b"\r\n")
            headers = dict(line.decode().lower().split(":", 1) for line in lines if b":" in line)
            if "expect" not in headers:
                request.read(int(headers.get("content-length", 0)))
            near.sendall(answer)

    def _pump(self, source, target, is_sent):
        try:
            while piece := source.recv(4096):
                if is_sent and piece.startswith((b"PUT ", b"POST ")):
                    time.sleep(self._put_secs)
                if is_sent and self._left is not None:
                    self._left -= len(piece)
                    if self._left < 0:
                        self._block()
                        return
                target.sendall(piece)
        except OSError:
            pass
        finally:
            source.close()
            target.close()


@dataclasses.dataclass(frozen=True)
class Store:
    """A server of this machine that speaks as one of the providers does."""

    kind: str
    port: int

    def options(self, port=None):
        """What `FsspecStorage` gets; all secrets are in the environment."""
        address = f"http://127.0.0.1:{port or self.port}"
        match self.kind:
            case "s3":
                return {"endpoint_url": address}
            case "gs":
                return {"endpoint_url": address, "token": "anon"}
            case _:
                return {"account_url": f"{address}/{AZURE_ACCOUNT}"}

    def variable(self):
        """The variable that says where it is to what has no options, and its value."""
        address = f"http://127.0.0.1:{self.port}"
        match self.kind:
            case "s3":
                return "AWS_ENDPOINT_URL", address
            case "gs":
                return "STORAGE_EMULATOR_HOST", address
            case _:
                account = f"AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY}"
                endpoint = f"BlobEndpoint={address}/{AZURE_ACCOUNT}"
                return "AZURE_STORAGE_CONNECTION_STRING", f"{account};{endpoint}"

    def url(self, *names):
        scheme = "abfs" if self.kind == "azure" else self.kind
        return "/".join([f"{scheme}:/", *(names or ("runs", uuid.uuid4().hex, "a b"))])

    def section(self, bucket, prefix, port=None):
        """The `checkpoint_storage` of an experiment."""
        options = self.options(port)
        names = {name: options.pop(name) for name in list(options) if name.endswith("_url")}
        bucket_name = "container" if self.kind == "azure" else "bucket"
        others = {"prefix": prefix, "options": options, "answer_timeout": 20}
        return {"type": self.kind, bucket_name: bucket, **names, **others}

    def make_bucket(self, name):
        system = self._open(name)
        with warnings.catch_warnings(action="ignore"):  # Azure's client says that there is none.
            system.mkdir(name)

    def remove_bucket(self, name):
        system = self._open(name)
        for path in system.find(name):
            system.rm_file(path)
        system.rmdir(name)

    def _open(self, name):
        return fsspec_storage.FsspecStorage(self.url(name), self.options())._system

    def refusal(self):
        """What it answers to credentials that it does not accept any more."""
        match self.kind:
            case "s3":
                kind, text = "application/xml", "<Error><Code>AccessDenied</Code></Error>"
            case "gs":
                kind, text = "application/json", '{"error": {"code": 403, "message": "withdrawn"}}'
            case _:
                kind, text = "application/xml", "<Error><Code>AuthorizationFailure</Code></Error>"
        return (
            f"HTTP/1.1 403 Forbidden\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}"
        ).encode()


@pytest.fixture(scope="session")
def s3_port():
    moto_server = pytest.importorskip("moto.server")
    server = moto_server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@pytest.fixture(scope="session")
def gs_port():
    emulator = pytest.importorskip("gcp_storage_emulator.server")
    pytest.importorskip("gcsfs")
    server = emulator.create_server("127.0.0.1", 0, in_memory=True)
    server.start()
    yield server._api._httpd.server_address[1]
    server.stop()


@pytest.fixture(scope="session")
def azure_port():
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("needs Azurite (`npm install --global azurite`)")
    pytest.importorskip("adlfs")
    options = ["--inMemoryPersistence", "--silent", "--disableTelemetry"]
    # Azure's package may be newer than it.
    options += ["--blobPort=0", "--loose", "--skipApiVersionCheck"]
    with subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True) as server:
        lines = iter(server.stdout.readline, "")
        yield next(int(line.rpartition(":")[2]) for line in lines if "listens on" in line)
        server.terminate()
        server.communicate()  # It says that it ends.


@pytest.fixture(scope="session")
def kinds_with_bucket():
    """Kinds of servers that have the bucket `runs`: it is made once."""
    return set()


def open_store(kind, request, monkeypatch):
    store = Store(kind, request.getfixturevalue(f"{kind}_port"))
    for name, value in ENVIRONMENT[kind].items():
        monkeypatch.setenv(name, value)
    if kind not in (kinds := request.getfixturevalue("kinds_with_bucket")):
        store.make_bucket("runs")
        kinds.add(kind)
    return store


@pytest.fixture(params=PROVIDERS)
def store(request, monkeypatch):
    """A server with the bucket `runs`, which accepts what the environment has."""
    return open_store(request.param, request, monkeypatch)


@pytest.fixture
def s3(request, monkeypatch):
    """The options of a server with the bucket `runs`, which accepts what the environment has."""
    return open_store("s3", request, monkeypatch).options()


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


@pytest.fixture(params=["directory", "memory", "file", *PROVIDERS])
def any_storage(request, tmp_path, url, monkeypatch):
    scratch = tmp_path / "scratch"
    # A first look at a store that does answer may take long on a busy machine.
    monkeypatch.setattr(fsspec_storage, "_CHECK_SECS", 600.0)
    match request.param:
        case "directory":
            return directory_storage.DirectoryStorage(tmp_path / "root", WRITER)
        case "memory":
            return fsspec_storage.FsspecStorage(url, {}, WRITER, scratch=scratch)
        case "file":
            return fsspec_storage.FsspecStorage(f"file://{tmp_path}/r", {}, WRITER, scratch=scratch)
        case _:
            store = open_store(request.param, request, monkeypatch)
            options = store.options()
            return fsspec_storage.FsspecStorage(store.url(), options, WRITER, scratch=scratch)


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
