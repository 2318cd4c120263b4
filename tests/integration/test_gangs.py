"""Trials that two processes train, whose processes are killed one after the other."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from quintain import store as stores
from quintain.client.home import home as home_lib
from quintain.client.home import token_files

HERE = pathlib.Path(__file__).parent
MODEL = """
import keras
import numpy as np
import tensorflow as tf

from quintain import trials

X = np.random.RandomState(0).normal(size=(45, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


class Line(trials.KerasTrial):
    def build_model(self):
        model = keras.Sequential(
            [
                keras.Input((4,)),
                keras.layers.Dense(8),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.3),
                keras.layers.Dense(1),
            ]
        )
        model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
        return model

    def build_training_data_loader(self):
        assert sorted(self.context.distributed.allgather(self.context.get_rank())) == [0, 1]
        data = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(45)
        return data.batch(self.context.get_global_batch_size())

    def build_validation_data_loader(self):
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
"""
CONFIG = """
entrypoint: {entrypoint}
hyperparameters: {{global_batch_size: 8}}
searcher: {{name: single, metric: {metric}, max_length: {{batches: 40}}}}
scheduling_unit: 5
min_validation_period: {{batches: 20}}
min_checkpoint_period: {{batches: 10}}
reproducibility: {{experiment_seed: 3}}
resources: {{slots_per_trial: 2}}
"""
ELASTIC = """
entrypoint: experiment:test/line
hyperparameters: {{runtime.elastic: true, task.dropout_rate: 0.3}}
searcher: {{name: single, metric: validation_loss, max_length: {{batches: 240}}}}
scheduling_unit: 1
min_checkpoint_period: {{batches: 10}}
reproducibility: {{experiment_seed: 3}}
max_restarts: 0
resources: {{slots_per_trial: {num_slots}}}
"""
KINDS = {
    "keras": ("model_def:Line", "val_loss"),
    "task": ("experiment:test/line", "validation_loss"),
}

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


class Platform:
    """A master, and its store."""

    def __init__(self, path, *flags):
        self.environment = {
            **os.environ,
            "http_proxy": "http://127.0.0.1:1",  # A cluster's processes do not talk by a proxy.
            "QUINTAIN_HOME": str(path / "home"),
            "PYTHONPATH": str(HERE.parents[1]),
        }
        self.model_dir = path / "code"
        self.model_dir.mkdir()
        (self.model_dir / "model_def.py").write_text(MODEL)
        line = (HERE / "line_experiment.py").read_text()
        (self.model_dir / "line_experiment.py").write_text(line)
        self.process = subprocess.Popen(
            self.command("master", "start", *flags),
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.wait(lambda: (path / "home" / "master.json").exists())
        self.store = stores.open_store(path / "home" / "quintain.db")

    @staticmethod
    def command(*arguments):
        return [sys.executable, "-m", "quintain.cli.main", *arguments]

    @staticmethod
    def wait(condition):
        deadline = time.monotonic() + 600
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def create_kind(self, kind):
        entrypoint, metric = KINDS[kind]
        return self.create(CONFIG.format(entrypoint=entrypoint, metric=metric))

    def create(self, config):
        file = self.model_dir.parent / "config.yaml"
        file.write_text(config)
        done = subprocess.run(
            self.command(
                "experiment", "create", str(file), str(self.model_dir), "--json", "--detach"
            ),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["id"]

    def read(self, read):
        with self.store.reading() as session:
            return read(session)

    def kill_after(self, experiment_id, batches, rank):
        """Kills one process when the trial has trained on so many batches.

        The master stands still meanwhile, so that the trial does not end before the kill.
        """

        def stands_there():
            self.process.send_signal(signal.SIGSTOP)
            if self.trial(experiment_id).total_batches >= batches:
                return True
            self.process.send_signal(signal.SIGCONT)
            return False

        self.wait(stands_there)
        (found,) = self.read(lambda session: session.list_launches())
        assert len(found.members) == 2
        os.kill(found.members[rank].identity.pid, signal.SIGKILL)
        self.process.send_signal(signal.SIGCONT)
        self.wait(
            lambda: (
                found.launch_id
                not in [one.launch_id for one in self.read(lambda s: s.list_launches())]
            )
        )

    def trial(self, experiment_id):
        return self.read(lambda session: session.list_trials(experiment_id)[0])

    def finish(self, experiment_id):
        """Returns all metrics of a trial and its last checkpoint's files."""
        self.wait(lambda: self.read(lambda s: s.get_experiment(experiment_id)).state.is_terminal)
        trial = self.trial(experiment_id)
        logs = self.read(lambda s: [row.text for row in s.list_logs(trial.id)])
        assert trial.state.value == "COMPLETED", logs
        rows = self.read(lambda s: s.list_metrics(trial.id))
        metrics = {(row.group.value, row.total_batches): row.metrics for row in rows}
        saved = self.read(lambda s: s.get_checkpoint(trial.latest_checkpoint))
        folder = pathlib.Path(self.environment["QUINTAIN_HOME"], "checkpoints", saved.uuid)
        return metrics, read_values(folder), trial.restarts

    def close(self):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.process.kill()


class Machines(Platform):
    """A master without slots, and agents of one slot each."""

    def __init__(self, path):
        super().__init__(path, "--slots=0", "--tls", "--node-timeout=10")
        self.path = path
        self.agents = {}

    def start_agent(self, name):
        token = home_lib.find_home(str(self.path / "home")).agent_token
        token_files.load(token)
        master = self.ask("master", "status", "--json")["master"]
        arguments = [f"--master={master['url']}", f"--fingerprint={master['fingerprint']}"]
        arguments += [f"--token-file={token}", "--slots=1", "--threads-per-slot=1"]
        arguments += [f"--name={name}", f"--cache={self.path / ('Gerät ' + name)}"]
        self.agents[name] = subprocess.Popen(
            self.command("agent", *arguments),
            env=self.environment,
            stderr=subprocess.DEVNULL,
        )
        self.wait(lambda: name in [each["name"] for each in self.ask("node", "list", "--json")])

    def ask(self, *arguments):
        done = subprocess.run(
            self.command(*arguments), env=self.environment, stdout=subprocess.PIPE, check=True
        )
        return json.loads(done.stdout)

    def places(self):
        """Returns the machines of the processes that train."""
        launches = self.read(lambda session: session.list_launches())
        return sorted(member.node for one in launches for member in one.members)

    def kill_machine(self, name):
        """Kills an agent and all that it has started."""
        self.agents[name].kill()
        self.agents[name].wait()
        mark = f"QUINTAIN_NODE={name}".encode()
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)

    def close(self):
        for agent in self.agents.values():
            agent.terminate()
        super().close()
        for agent in self.agents.values():
            agent.kill()
            agent.wait()


def read_values(folder):
    """Returns all variables of a checkpoint."""
    (index,) = [path for path in folder.glob("*.index") if path.name != "data.index"]
    prefix = str(index.with_suffix(""))
    return {
        name: tf.train.load_variable(prefix, name)
        for name, _ in tf.train.list_variables(prefix)
        if name.endswith("VARIABLE_VALUE")
    }


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    found = Platform(tmp_path_factory.mktemp("gangs"), "--slots=2", "--threads_per_slot=1")
    yield found
    found.close()


@pytest.mark.long("test_local_cluster.py kills a worker, and two processes train, in every run")
@pytest.mark.parametrize(("kind", "rank"), [("keras", 1), ("task", 0)])
def test_two_processes_of_which_one_is_killed_train_as_undisturbed_ones(platform, kind, rank):
    undisturbed = platform.finish(platform.create_kind(kind))

    killed = platform.create_kind(kind)
    platform.kill_after(killed, 15, rank)
    metrics, values, restarts = platform.finish(killed)

    assert restarts == 1
    assert metrics == undisturbed[0]
    assert len(metrics) == 10
    assert values.keys() == undisturbed[1].keys()
    for name, value in undisturbed[1].items():
        np.testing.assert_array_equal(values[name], value, err_msg=name)
    if kind == "task":  # Each example was evaluated once, by one of them.
        assert (
            metrics["validation", 40]["num_seen"],
            metrics["validation", 40]["num_distinct"],
        ) == (61, 61)


@pytest.fixture
def machines(tmp_path):
    found = Machines(tmp_path)
    yield found
    found.close()


@pytest.mark.long("test_members.py loses a machine of an elastic trial in every run")
def test_an_elastic_gang_goes_on_without_a_lost_machine_until_it_is_back(machines):
    lost = f"lost-{os.getpid()}"
    machines.start_agent("kept")
    undisturbed = machines.finish(machines.create(ELASTIC.format(num_slots=1)))
    machines.start_agent(lost)

    gang = machines.create(ELASTIC.format(num_slots=2))
    machines.wait(lambda: machines.trial(gang).total_batches >= 40)
    assert machines.places() == ["kept", lost]
    machines.kill_machine(lost)
    machines.wait(lambda: machines.places() == ["kept"])
    done = machines.trial(gang).total_batches
    machines.wait(lambda: machines.trial(gang).total_batches >= done + 20)
    machines.start_agent(lost)
    machines.wait(lambda: machines.places() == ["kept", lost])
    metrics, values, restarts = machines.finish(gang)

    assert restarts == 0
    assert metrics == undisturbed[0]
    assert values.keys() == undisturbed[1].keys()
    for name, value in undisturbed[1].items():
        np.testing.assert_array_equal(values[name], value, err_msg=name)
