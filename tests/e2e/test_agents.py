"""A search on agents of their own, over TLS, while agents and the master are killed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from quintain.client.home import home as home_lib
from quintain.client.home import token_files
from quintain.records.rows import log, metric
from quintain.store import store as store_lib

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

ROOT = pathlib.Path(__file__).parents[2]
MODEL_DIR = ROOT / "tests" / "e2e" / "toy_trial"
CONFIG = """
name: toy
entrypoint: model_def:ToyTrial
data: {secs_per_batch: 0.05}
hyperparameters:
  rate: {type: double, minval: 0.1, maxval: 1.0}
scheduling_unit: 5
searcher:
  name: random
  metric: error
  max_length: {batches: 60}
  max_trials: 3
max_restarts: 0
min_checkpoint_period: {batches: 20}
reproducibility: {experiment_seed: 7}
"""
DEADLINE_SECS = 120.0


class Cluster:
    """A master without slots, and agents, as processes."""

    def __init__(self, path):
        self.path = path
        self.home = home_lib.find_home(str(path / "home"))
        self.environment = {**os.environ, "QUINTAIN_HOME": str(self.home.path)}
        self.started = []

    def start(self, *arguments):
        with open(self.path / "stderr.txt", "a") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "quintain.cli.main", *map(str, arguments)],
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=self.environment,
                cwd=self.path,
            )
        self.started.append(process)
        return process

    def run(self, *arguments):
        done = subprocess.run(
            [sys.executable, "-m", "quintain.cli.main", *map(str, arguments)],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_master(self):
        master = self.start("master", "start", "--slots=0", "--tls")
        self.wait(lambda: home_lib.find_master(self.home) is not None)
        return master

    def start_agent(self, name, *flags):
        info = json.loads(self.run("master", "status", "--json"))["master"]
        token_files.load(self.home.agent_token)
        return self.start(
            "agent",
            f"--master={info['url']}",
            f"--fingerprint={info['fingerprint']}",
            f"--token-file={self.home.agent_token}",
            f"--name={name}",
            f"--cache={self.path / ('Gerät ' + name)}",
            "--slots=2",
            *flags,
        )

    def wait(self, condition):
        deadline = time.monotonic() + DEADLINE_SECS
        while not condition():
            assert time.monotonic() < deadline, (self.path / "stderr.txt").read_text()
            time.sleep(0.1)

    def read(self):
        """Returns states of trials, and what each has written, in order."""
        store = store_lib.open_store(self.home.database)
        try:
            with store.reading() as session:
                trials = session.list_trials(1)
                lines = {
                    each.id: [
                        row.text
                        for row in session.list_logs(each.id)
                        if row.source is log.LogSource.STDOUT
                    ]
                    for each in trials
                }
                batches = {
                    each.id: [
                        row.total_batches
                        for row in session.list_metrics(each.id, group=metric.MetricGroup.TRAINING)
                    ]
                    for each in trials
                }
        finally:
            store.close()
        return trials, lines, batches

    def has_trained(self, num_batches):
        return any(max(batches, default=0) >= num_batches for batches in self.read()[2].values())

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def test_a_search_on_agents_survives_kills_of_agents_and_of_the_master(cluster):
    (cluster.path / "toy.yaml").write_text(CONFIG)
    master = cluster.start_master()
    agent = cluster.start_agent("one", "--label=kind=fast")
    cluster.run("experiment", "create", "toy.yaml", MODEL_DIR, "--detach")
    cluster.wait(lambda: cluster.has_trained(10))
    agent.kill()
    agent.wait()
    cluster.wait(lambda: cluster.has_trained(20))
    agent = cluster.start_agent("one", "--label=kind=fast")
    cluster.wait(lambda: cluster.has_trained(35))
    master.kill()
    master.wait()
    cluster.start_master()
    cluster.wait(lambda: cluster.has_trained(60))
    # The trials that are left save themselves, and go on with the other machine.
    other = cluster.start_agent("two")
    cluster.wait(lambda: len([each for each in cluster.read()[2].values() if each]) > 2)
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(DEADLINE_SECS) == 0
    cluster.wait(lambda: all(each.state.is_terminal for each in cluster.read()[0]))
    other.send_signal(signal.SIGTERM)
    assert other.wait(DEADLINE_SECS) == 0

    trials, lines, batches = cluster.read()
    assert {each.state.value for each in trials} == {"COMPLETED"}
    assert [each.restarts for each in trials] == [0] * 3
    for each in trials:
        steps = list(range(5, 65, 5))
        assert batches[each.id] == steps
        trained = [line for line in lines[each.id] if line.startswith("trained")]
        assert trained == [f"trained to {step}" for step in steps]
