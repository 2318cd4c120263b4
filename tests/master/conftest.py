"""Launchers of processes that are quick to start, and simulated workers without any process."""

import dataclasses
import hashlib
import json
import pathlib
import time

import pytest
from typing_extensions import override

import quintain
from quintain import errors
from quintain.master import master as master_lib
from quintain.master.placing import slots
from quintain.master.processes import launcher as launcher_lib
from quintain.master.processes import process_launcher
from quintain.records import checkpoint_manifest
from quintain.records.rows import exit_codes, trial, workload
from quintain.records.rows import launch as launch_lib
from quintain.records.rows import node as node_lib
from quintain.store import store as store_lib

DEADLINE_SECS = 600.0
"""When a test gives up that waits in vain; what it waits for may take long on a busy machine."""


class Harness:
    """Starts tiny processes and collects what becomes of them."""

    def __init__(self, scratch_dir):
        self.scratch_dir = scratch_dir
        self.launchers = []
        self.identities = {}

    def make(self, **options):
        self.launchers.append(
            process_launcher.ProcessLauncher(
                **{
                    "worker": "tiny_worker",
                    "preloaded": ("colorsys",),
                    "grace_secs": 0.5,
                    **options,
                }
            )
        )
        return self.launchers[-1]

    def start(self, launcher, what, *, launch_id="7-1", variables=None, own_slots=None):
        identity = launcher.start(
            launcher_lib.LaunchRequest(
                launch_id,
                trial_id=7,
                experiment_id=1,
                slots=(slots.Slot(0, num_threads=1),) if own_slots is None else own_slots,
                environment={"QUINTAIN_TINY": what, **(variables or {})},
                scratch_dir=str(self.scratch_dir),
            )
        )
        self.identities[launch_id] = identity
        return identity

    def wait_for_exit(self, launcher, count=1):
        exits = []
        deadline = time.monotonic() + DEADLINE_SECS
        while len(exits) < count and time.monotonic() < deadline:
            exits += launcher.poll()
            time.sleep(0.01)
        assert len(exits) == count
        return exits[0] if count == 1 else {found.launch_id: found for found in exits}

    def wait_for_line(self, launcher, text, rows=None):
        rows = [] if rows is None else rows
        deadline = time.monotonic() + DEADLINE_SECS
        while not any(text in row.text for row in rows):
            assert time.monotonic() < deadline, rows
            rows += launcher.read_logs()
            time.sleep(0.01)
        return rows


@pytest.fixture
def harness(tmp_path, monkeypatch):
    """Returns a harness whose processes find `tiny_worker`."""
    here = str(pathlib.Path(__file__).parent)
    root = str(pathlib.Path(quintain.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", f"{here}:{root}")
    made = Harness(tmp_path / "scratch")
    yield made
    for launcher in made.launchers:
        launcher.close(kill=True)


@pytest.fixture(params=["fork", "spawn"])
def launcher(harness, request):
    """Returns a launcher that starts processes in each of the two ways."""
    return harness.make(start_method=process_launcher.StartMethod(request.param))


Kind = workload.WorkloadKind


class FakeLauncher(launcher_lib.Launcher):
    """Remembers what was started; the test says what becomes of it."""

    def __init__(self):
        self.alive = {}
        self.exits = []
        self.killed = []
        self.lines = []
        self.fails = 0
        self.refused = 0
        self.refused_rank = None
        self.nodes = []

    @override
    def start(self, launch):
        if launch.experiment_id == self.refused:
            raise ValueError("embedded null byte")
        if self.fails or launch.rank == self.refused_rank:
            self.fails = max(self.fails - 1, 0)
            raise errors.ClusterError("no process can be started")
        same = [name for name, each in self.alive.items() if each.trial_id == launch.trial_id]
        launch_id, _ = launch_lib.split_member(launch.launch_id)
        assert same == [launch_lib.member_name(launch_id, rank) for rank in range(launch.rank)]
        self.alive[launch.launch_id] = launch
        if launch.node:
            return None
        return trial.ProcessIdentity(len(self.alive) + 1, 1.0, launch.launch_id)

    @override
    def adopt(self, launch_id, trial_id, identity, scratch_dir, node=""):
        return launch_id in self.alive

    @override
    def kill(self, launch_id):
        if launch_id in self.alive:
            self.killed.append(launch_id)
            self.end(launch_id, signal=15)

    def end(self, launch_id, *, exit_code=None, signal=None, last_lines=(), reason=""):
        launch = self.alive.pop(launch_id)
        self.exits.append(
            launcher_lib.ProcessExit(
                launch_id,
                launch.trial_id,
                exit_code,
                signal,
                tuple(last_lines),
                reason=reason,
            )
        )

    @override
    def list_nodes(self):
        return list(self.nodes)

    def join(self, *names, num_slots=2, **fields):
        """Lets machines join."""
        own_slots = tuple(slots.Slot(index) for index in range(num_slots))
        self.nodes += [node_lib.Node(name, own_slots, **fields) for name in names]

    def change(self, name, **fields):
        """Changes what a machine tells of itself."""
        self.nodes = [
            dataclasses.replace(each, **fields) if each.name == name else each
            for each in self.nodes
        ]

    def lose(self, name):
        """Loses a machine with all its processes."""
        self.change(name, state=node_lib.NodeState.LOST, reason="not heard of")
        for launch_id in [each.launch_id for each in self.alive.values() if each.node == name]:
            self.end(launch_id, reason=f"Machine {name} is gone.")

    def on(self, name):
        """Returns the trials of a machine."""
        return sorted(each.trial_id for each in self.alive.values() if each.node == name)

    @override
    def poll(self):
        exits, self.exits = self.exits, []
        return exits

    @override
    def read_logs(self):
        lines, self.lines = self.lines, []
        return lines

    @override
    def close(self, *, kill):
        del kill


def metric_of(hparams, seed, batches):
    """A loss that depends on the trial and falls with training; the same wherever it runs."""
    text = repr((sorted(hparams.items()), seed)).encode()
    start = int(hashlib.sha256(text).hexdigest()[:8], 16) / 2**32
    return round(start + 1.0 / (1 + batches), 6)


class Workers:
    """Does the work of all processes that the launcher started, one call at a time."""

    def __init__(self, master, launcher, *, metric=metric_of, order=None, find_damage=None):
        self.master = master
        self.launcher = launcher
        self.metric = metric
        self.order = order
        self.find_damage = find_damage or (lambda spec: False)
        self.specs = {}
        self.done = []

    def step(self, launch_id):
        """Lets one process do its next workload; returns the workload, or None."""
        launch = self.launcher.alive[launch_id]
        if launch_id not in self.specs:
            identity = trial.ProcessIdentity(1, 1.0, launch_id)
            spec = self.master.workers.start_run(launch.trial_id, identity)
            while spec.checkpoint and self.find_damage(spec):
                damaged = (launch.trial_id, launch_id, spec.checkpoint, "cut")
                spec = self.master.workers.report_damage(*damaged)
            self.specs[launch_id] = spec
        work = self.master.workers.next_workload(launch.trial_id, launch_id, 0.0)
        if work is None:
            return None
        if work.kind is Kind.TERMINATE:
            self.launcher.end(launch_id, exit_code=0)
            return work
        self.master.workers.report(launch.trial_id, launch_id, self.answer(launch_id, work))
        self.done.append(work)
        return work

    def _step_or_end(self, launch_id):
        try:
            self.step(launch_id)
        except errors.GoneError:
            self.launcher.end(launch_id, exit_code=exit_codes.ExitCode.NOT_WANTED)

    def answer(self, launch_id, work):
        spec = self.specs[launch_id]
        parts = {}
        total = work.total_batches + work.num_batches
        loss = self.metric(spec.hparams, spec.seed, total)
        if work.kind is Kind.TRAIN:
            parts = {
                "metrics": {"loss": loss},
                "batch_metrics": [{"loss": loss}] * work.num_batches,
                "num_inputs": 8 * work.num_batches,
            }
        elif work.kind is Kind.VALIDATE:
            parts = {"metrics": {"loss": loss}, "num_inputs": 100}
        elif work.kind is Kind.CHECKPOINT:
            uuid = f"c-{work.trial_id}-{work.number}-{launch_id}"
            parts = {"checkpoint": workload.StoredCheckpoint(uuid, {"state": 10})}
        return workload.WorkloadResult(work, 0.0, 1.0, **parts)

    def run(self, *, max_rounds=100_000, on_round=None):
        """Works until no experiment is left."""
        for number in range(max_rounds):
            self.master.tick()
            if not self.master.status().experiments:
                return
            if on_round is not None:
                on_round(number)
            self._step_all()
        raise AssertionError(f"still there: {self.master.status()}")

    def run_round(self):
        """Lets the master tick, and each process do its next workload."""
        self.master.tick()
        self.master.status()
        self._step_all()

    def _step_all(self):
        launch_ids = list(self.launcher.alive)
        if self.order is not None:
            self.order.shuffle(launch_ids)
        for launch_id in launch_ids:
            if launch_id in self.launcher.alive:
                self._step_or_end(launch_id)


def pytest_generate_tests(metafunc):
    """Runs the quick tests of the master on PostgreSQL as well, once each."""
    is_chosen = metafunc.module.__name__.endswith("test_master")
    others = [metafunc.definition.get_closest_marker(name) for name in ("slow", "parametrize")]
    if is_chosen and "store" in metafunc.fixturenames and others == [None, None]:
        metafunc.parametrize("store", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def store(tmp_path, request):
    """The store of a home: a file, or a database of a server."""
    database = tmp_path / "home" / "quintain.db"
    if getattr(request, "param", "sqlite") == "postgresql":
        database = request.getfixturevalue("postgres_url")
    opened = store_lib.open_store(database)
    yield opened
    opened.close()


@pytest.fixture
def fake_launcher():
    return FakeLauncher()


@pytest.fixture
def make_master(tmp_path, store, fake_launcher):
    """Returns masters over the same store, one after the other."""

    def make(num_slots=2, idle_secs=0.0):
        shares = [slots.Slot(index) for index in range(num_slots)]
        master = master_lib.Master(
            store, fake_launcher, shares, tmp_path / "home", idle_secs=idle_secs
        )
        master.recover()
        return master

    return make


@pytest.fixture
def make_workers(fake_launcher):
    def make(master, **options):
        return Workers(master, fake_launcher, **options)

    return make


def write_config(searcher, **fields):
    """Returns the config of an experiment as YAML (JSON is YAML)."""
    content = {
        "searcher": {"metric": "loss", **searcher},
        "hyperparameters": {
            "lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1},
            "units": {"type": "int", "minval": 1, "maxval": 64},
        },
        "reproducibility": {"experiment_seed": 7},
        "scheduling_unit": 4,
        **fields,
    }
    return json.dumps(content)


@pytest.fixture
def config_text():
    return write_config


@pytest.fixture
def describe(store):
    """Returns what an experiment came to, without names that differ from run to run."""

    def describe_experiment(experiment_id):
        with store.reading() as session:
            record = session.get_experiment(experiment_id)
            trials = session.list_trials(experiment_id)
            shown = []
            for each in trials:
                metrics = [
                    (row.group.value, row.total_batches, tuple(row.metrics.items()))
                    for row in session.list_metrics(each.id)
                ]
                batches = [(at, len(rows)) for at, rows in session.list_batch_metrics(each.id)]
                shown.append(
                    {
                        "request_id": each.request_id,
                        "state": each.state.value,
                        "hparams": each.hparams,
                        "seed": each.seed,
                        "parent": each.parent_trial_id,
                        "batches": each.total_batches,
                        "best": each.best_metric,
                        "metrics": sorted(metrics),
                        "batch_metrics": batches,
                        "reason": each.reason,
                    }
                )
        return {"state": record.state.value, "reason": record.reason, "trials": shown}

    return describe_experiment


@pytest.fixture
def write_manifest():
    """Returns a function that makes a directory the checkpoint of a trial."""

    def write(directory, *, experiment_id, trial_id):
        directory.mkdir(parents=True)
        content = {
            "format": checkpoint_manifest.FORMAT, "kind": "a.B", "total_batches": 1,
            "experiment_id": experiment_id, "trial_id": trial_id, "seed": 1, "hparams": {},
        }  # fmt: skip
        (directory / checkpoint_manifest.FILE_NAME).write_text(json.dumps(content))

    return write
