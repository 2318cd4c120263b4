"""A real store with some records, and a master that notes what it is told."""

import contextlib
import dataclasses
import json
import queue
import threading
import types
from http import server as servers

import pytest
import urllib3

from quintain import errors
from quintain.client import address, master_client
from quintain.client.home import home as home_lib
from quintain.client.http import connection
from quintain.master import new_experiments
from quintain.master.processes import launch_tokens
from quintain.records.rows import (
    checkpoint,
    experiment,
    log,
    metric,
    node,
    states,
    trial,
    workload,
)
from quintain.records.views import master_status
from quintain.server import app as app_lib
from quintain.server import direct_calls
from quintain.server.feed import feed as feed_lib
from quintain.store import store as store_lib
from quintain.web import http_server

TOKEN = "the-token"
KEY = launch_tokens.LaunchKey(bytes(32))
UUID = "0b1c2d3e-0000-0000-0000-000000000001"
CONFIG = {
    "name": "digits",
    "searcher": {"name": "single", "metric": "accuracy", "max_length": 100},
    "reproducibility": {"experiment_seed": 1},
}


class FakeMaster:
    """Notes its calls; answers workers by what a test puts into `workloads`."""

    def __init__(self, store):
        self.store = store
        self.commands = self.workers = self.files = self.nodes = self
        self.calls = []
        self.workloads = {}
        self.results = []
        self.changed = threading.Condition()
        self.num_waiting = 0

    def summary(self):
        summary = master_status.ExperimentSummary(
            1, states.ExperimentState.ACTIVE, num_running=1, num_waiting=3
        )
        return master_status.MasterSummary(num_slots=1, num_busy_slots=1, experiments=(summary,))

    def list_slots(self, *, after=-1, limit=None, trial_id=None):
        slots = [one for one in self.status().slots if one.id > after]
        return [one for one in slots if trial_id in (None, one.trial_id)][:limit]

    def status(self):
        return master_status.MasterStatus(
            (master_status.SlotStatus(0, "cpu", num_threads=2, trial_id=1, experiment_id=1),),
            (master_status.ExperimentStatus(1, states.ExperimentState.ACTIVE, 0.5, 10.0, (1,)),),
        )

    def list_nodes(self):
        active, lost = node.NodeState.ACTIVE, node.NodeState.LOST
        return [
            node.NodeStatus("master", active, slots=(0,), num_held=1),
            node.NodeStatus("b", lost, slots=(1, 2)),
        ]

    def restricted_by(self, check_change):
        return self

    def read_content(self, config_text, overrides, source, parent_id):
        if parent_id is not None:
            with self.store.reading() as session:
                original = session.get_experiment(parent_id).original_config
            if config_text is None:
                config_text, source = original, f"experiment {parent_id}"
        return new_experiments.read_content(config_text, source, overrides)

    def create_experiment(self, config_text, model_dir, **options):
        if "broken" in config_text:
            raise errors.ConfigError(f"{options['source']}:1: broken: unknown.")
        self.calls.append(("create", config_text, model_dir, options))
        with self.store.transaction() as session:
            return session.add_experiment(
                experiment.Experiment(0, states.ExperimentState.ACTIVE, CONFIG, config_text, "")
            )

    def _command(self, name, experiment_id):
        self.calls.append((name, experiment_id))
        with self.store.transaction() as session:
            former = session.get_experiment(experiment_id)
            if name == "archive":
                raise errors.StateError(f"Experiment {experiment_id} is {former.state.value}.")
            return former

    def apply(self, experiment_id, command):
        former = self._command(command, experiment_id)
        if command != "pause":
            return former
        paused = dataclasses.replace(former, state=states.ExperimentState.PAUSED)
        with self.store.transaction() as session:
            session.update_experiment(paused)
        return paused

    def delete_experiment(self, experiment_id):
        self._command("delete", experiment_id)

    def update_experiment(self, experiment_id, changes):
        self.calls.append(("update", experiment_id, changes))
        with self.store.reading() as session:
            return session.get_experiment(experiment_id)

    def fork_experiment(self, experiment_id, config_text, overrides):
        self.calls.append(("fork", experiment_id, config_text, overrides))
        return self._command("forked", experiment_id)

    def rewind_experiment(self, experiment_id, to_trial, searcher, space_text, overrides):
        self.calls.append(("rewind", experiment_id, to_trial, searcher, space_text, overrides))
        return self._command("rewound", experiment_id)

    def continue_experiment(self, experiment_id, overrides):
        self.calls.append(("continue", experiment_id, tuple(overrides)))
        return self._command("continued", experiment_id)

    def kill_trial(self, trial_id):
        self.calls.append(("kill trial", trial_id))
        with self.store.reading() as session:
            return session.get_trial(trial_id)

    def note_trial(self, trial_id, note):
        self.calls.append(("note trial", trial_id, note))
        with self.store.reading() as session:
            return session.get_trial(trial_id)

    def rerun_trial(self, trial_id):
        self.calls.append(("rerun trial", trial_id))
        return self._command("rerun", 1)

    def continue_trial(self, trial_id, overrides):
        self.calls.append(("continue trial", trial_id, tuple(overrides)))
        return self._command("continued", 1)

    def delete_checkpoint(self, uuid):
        self.calls.append(("delete checkpoint", uuid))
        with self.store.reading() as session:
            return session.get_checkpoint(uuid)

    def adopt_orphan(self, name):
        self.calls.append(("adopt", name))
        return checkpoint.Checkpoint(name, 1, 1, 100)

    def delete_orphan(self, name):
        self.calls.append(("delete orphan", name))
        return checkpoint.Orphan(f"/c/{name}", 5, 1.0)

    def report_damage(self, trial_id, launch_id, uuid, damage):
        self.results.append((trial_id, launch_id, uuid, damage))
        return self.start_run(trial_id, trial.ProcessIdentity(1, 1.0, launch_id))

    def note_wait(self, trial_id, launch_id, text):
        self.results.append((trial_id, launch_id, text))

    def note_steps(self, trial_id, launch_id, number, batches):
        self.results.append((trial_id, launch_id, number, batches))

    def start_run(self, trial_id, identity):
        if identity.launch_id == "old":
            raise errors.GoneError("This run is not wanted any more.")
        return trial.TrialOrder(
            experiment_id=1,
            trial_id=trial_id,
            experiment_config=CONFIG,
            hparams={"lr": float("inf")},
            seed=3,
            entrypoint=None,
        )

    def next_workload(self, trial_id, launch_id, wait):
        with self.changed:
            self.num_waiting += 1
            self.changed.wait_for(lambda: trial_id in self.workloads, wait)
            self.num_waiting -= 1
            return self.workloads.get(trial_id)

    def give(self, trial_id):
        with self.changed:
            self.workloads[trial_id] = workload.Workload(
                workload.WorkloadKind.TRAIN, 1, trial_id, number=1, num_batches=5
            )
            self.changed.notify_all()

    def report(self, trial_id, launch_id, result):
        self.results.append((trial_id, launch_id, result))

    def report_exit(self, trial_id, launch_id, reason, message):
        self.results.append((trial_id, launch_id, reason, message))


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "home"))
    home = home_lib.find_home()
    home.create()
    return home


@pytest.fixture
def store(home):
    """Returns a store with an experiment, two trials, metrics, logs and a checkpoint."""
    store = store_lib.open_store(str(home.database))
    model_dir = home.experiments / "1" / "model_dir"
    (model_dir / "data").mkdir(parents=True)
    (model_dir / "model_def.py").write_text("class Digits: ...\n")
    (model_dir / "data" / "a b.txt").write_text("ä")
    (home.checkpoints / UUID).mkdir()
    (home.checkpoints / UUID / "weights").write_bytes(bytes(range(256)) * 5000)
    with store.transaction() as session:
        session.add_experiment(
            experiment.Experiment(
                0, states.ExperimentState.ACTIVE, CONFIG, "name: digits\n", str(model_dir)
            )
        )
        for number in (1, 2):
            session.add_trial(
                trial.TrialRecord(
                    0, 1, f"r{number}", states.TrialState.ACTIVE, {"lr": 0.1}, 3,
                    best_metric=float("nan") if number == 2 else 0.5,
                )
            )  # fmt: skip
        session.add_metrics(
            [metric.MetricRow(1, metric.MetricGroup.VALIDATION, 100, {"accuracy": 0.5}, 10, 1.0)]
        )
        session.add_logs(
            [
                log.LogRow(1, float(number), log.LogSource.STDOUT, f"line {number}")
                for number in range(5)
            ]
        )
        session.add_checkpoint(
            checkpoint.Checkpoint(UUID, 1, 1, 100, files={"weights": 1_280_000}, metric=0.5)
        )
        session.add_event(1, {"kind": "created"})
    yield store
    store.close()


@pytest.fixture
def master(store):
    return FakeMaster(store)


@pytest.fixture
def stops():
    """Returns what the server was asked to stop with."""
    return []


@pytest.fixture
def calls(store, home, master):
    return direct_calls.DirectCalls(store, home, master.status)


@pytest.fixture
def feed(store, master):
    with feed_lib.Feed(store, master.status) as feed:
        yield feed


@pytest.fixture
def app(calls, master, home, stops, feed):
    info = master_status.MasterInfo("1.2.3", str(home.path), "http://testserver", 12, 34.5)
    return app_lib.build_app(
        calls,
        master,
        info,
        token=TOKEN,
        launch_key=KEY,
        stop=stops.append,
        services=app_lib.Services(feed=feed),
    )


@pytest.fixture
def url(app):
    """Serves the app, and returns its address."""
    with (
        contextlib.closing(http_server.listen(0, 0)) as listener,
        http_server.serve(app, listener),
    ):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def http(url):
    """Returns a function that sends a request: (method, path, token=..., body=...)."""
    with urllib3.PoolManager(maxsize=100, retries=False) as pool:

        def send(method, path, *, authorization=f"Bearer {TOKEN}", body=None):
            headers = {"Content-Type": "application/json"}
            if authorization is not None:
                headers["Authorization"] = authorization
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            answer = pool.request(method, url + path, headers=headers, body=data)
            text = answer.data.decode()
            return types.SimpleNamespace(
                status=answer.status,
                text=text,
                json=json.loads(text) if text else None,
            )

        yield send


@pytest.fixture
def over_http(url):
    """Returns the users' calls over HTTP."""
    connected = connection.Connection(address.Address(url, TOKEN), retries=connection.Retries(0.0))
    with master_client.MasterClient(connected) as calls:
        yield calls


@pytest.fixture
def hook():
    """Serves an address on loopback: what it got is in `got`; it answers what is in `answers`."""
    got, answers = queue.Queue(), []

    class Handler(servers.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = answers.pop(0) if answers else 204
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            got.put((self.path, self.headers["Content-Type"], json.loads(body)))

        def log_message(self, *_):
            pass

    server = servers.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    server.got, server.answers = got, answers
    server.url = f"http://127.0.0.1:{server.server_port}/hook"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
