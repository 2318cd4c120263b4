"""Masters on a Ray cluster of one machine: a head and two nodes, shared by all tests here."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from quintain import store as stores
from quintain.records.rows import states

ROOT = pathlib.Path(__file__).parents[2]
DEADLINE_SECS = 300.0
BATCHES = 240
CONFIG = """
name: digits
entrypoint: model_def:DigitsTrial
hyperparameters:
  global_batch_size: 32
  units: 8
  dropout: {type: double, minval: 0.0, maxval: 0.5}
  learning_rate: 0.01
scheduling_unit: 20
min_checkpoint_period: {batches: 20}
reproducibility: {experiment_seed: 17}
searcher: {name: random, metric: val_loss, max_length: {batches: BATCHES}, max_trials: TRIALS}
"""


class RayCluster:
    """The program `ray_cluster.py`, and what it says."""

    def __init__(self, directory):
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("RAY_")},
            "RAY_TMPDIR": str(directory),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": "a-token-of-ray-" + 40 * "x",
            "FOR_TRIALS": "here",
        }
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "programs" / "ray_cluster.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.environment,
            text=True,
            start_new_session=True,
        )
        self.address = json.loads(self._process.stdout.readline())["address"]

    def do(self, what, **content):
        self._process.stdin.write(json.dumps({"do": what, **content}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Home:
    """A home directory whose masters use the cluster."""

    def __init__(self, path, cluster):
        self.path = path
        self.cluster = cluster
        self.master = None
        self.environment = {**cluster.environment, "QUINTAIN_HOME": str(path)}

    def start(self, *options):
        self.path.mkdir(exist_ok=True)
        with (self.path / "out").open("ab") as output:
            self.master = subprocess.Popen(
                [
                    *(sys.executable, "-m", "quintain.cli.main", "master", "--launcher=ray"),
                    *(f"--ray-address={self.cluster.address}", "--ray-slots=2"),
                    *(f"--ray-directory={self.path.parent / 'agents'}", *options),
                ],
                env=self.environment,
                stdout=output,
                stderr=output,
            )
        wait_for(lambda: self.master_pid() == self.master.pid or self.master.poll() is not None)
        assert self.master.poll() is None, (self.path / "out").read_text()

    def master_pid(self):
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.path / "master.json").read_text())["pid"]

    def run(self, *arguments):
        done = subprocess.run(
            [sys.executable, "-m", "quintain.cli.main", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create(self, batches, trials):
        config = self.path / "config.yaml"
        config.write_text(CONFIG.replace("BATCHES", str(batches)).replace("TRIALS", str(trials)))
        model_dir = ROOT / "examples" / "platform" / "keras_digits"
        self.run("experiment", "create", str(config), str(model_dir), "--detach", "--no_check")

    def read(self, question):
        store = stores.open_store(self.path / "quintain.db")
        try:
            with store.reading() as session:
                return question(session)
        finally:
            store.close()

    def trials(self):
        return self.read(lambda session: session.list_trials(1))

    def is_done(self):
        return self.read(lambda session: session.get_experiment(1)).state.is_terminal

    def list_nodes(self):
        slots = json.loads(self.run("master", "status", "--json"))["status"]["slots"]
        return {slot["node"] for slot in slots}

    def stop(self):
        if self.master is not None and self.master.poll() is None:
            self.master.terminate()
            self.master.wait(60)


def wait_for(condition):
    deadline = time.monotonic() + DEADLINE_SECS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it was waited for in vain"
        time.sleep(0.1)
    return found


def find_processes(mark):
    """Returns the processes with this in their command line or environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            texts = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
            if mark.encode() in texts.split(b"\0"):
                found.append(int(entry.name))
    return found


def find_agents(cluster):
    """Returns the agents of a cluster: beside it, those of other tests may run."""
    found = []
    for pid in find_processes("ray::RayAgent"):
        with contextlib.suppress(OSError):
            opened = [os.readlink(each) for each in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
            if any(each.startswith(f"{cluster.directory}/") for each in opened):
                found.append(pid)
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    # Ray's sockets need short paths.
    with tempfile.TemporaryDirectory(prefix="ray_", ignore_cleanup_errors=True) as directory:
        made = RayCluster(directory)
        made.nodes = [made.do("add", cpus=2, labels={"zone": zone}) for zone in ("a", "b")]
        made.directory = pathlib.Path(directory)
        yield made
        made.close()


@pytest.fixture
def home(tmp_path, cluster):
    made = Home(tmp_path / "home", cluster)
    yield made
    made.stop()
    for pid in find_processes(f"QUINTAIN_MASTER_HOME={made.path}"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.e2e
def test_trials_lose_nothing_by_kills_and_leave_nodes_that_go_and_no_secret_is_seen(
    home, cluster, is_long
):
    num_trials = 4 if is_long else 2
    home.start()
    home.create(batches=BATCHES, trials=num_trials)
    wait_for(lambda: all(each.total_batches for each in home.trials()))
    agents = find_agents(cluster)
    drained, killed = cluster.nodes

    home.master.kill()
    home.master.wait()
    home.start()
    os.kill(agents[0], signal.SIGKILL)
    wait_for(lambda: len(find_agents(cluster)) == 2)
    cluster.do("drain", id=drained["id"])
    wait_for(lambda: len(home.list_nodes()) == 1)
    cluster.do("add", cpus=2)
    wait_for(lambda: len(home.list_nodes()) == 2)
    os.kill(killed["pid"], signal.SIGKILL)
    cluster.do("add", cpus=2)
    shown = json.dumps(cluster.do("actors"))
    wait_for(home.is_done)

    assert len(agents) == 2
    assert [
        (each.state, each.restarts, each.total_batches) for each in home.trials()
    ] == num_trials * [(states.TrialState.COMPLETED, 0, BATCHES)]
    token = (home.path / "agent.token").read_text().strip()
    assert token not in shown
    written = [*cluster.directory.rglob("*"), *home.path.rglob("*.log"), home.path / "out"]
    files = [path for path in written if path.is_file() and not path.is_symlink()]
    assert not [path for path in files if token.encode() in path.read_bytes()]
    home.stop()
    wait_for(lambda: not find_agents(cluster))  # Ray ends an actor after it was asked to.
