"""Home directories with masters and searches, for programs that kill them."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from quintain import store as stores
from quintain.master import orphans
from quintain.records.views import file_listing

ROOT = pathlib.Path(__file__).parents[2]
MODEL_DIR = ROOT / "examples" / "platform" / "keras_digits"
SLOTS = 2
MAX_WAIT_SECS = 30
SPACE = """
entrypoint: model_def:DigitsTrial
hyperparameters:
  global_batch_size: 32
  units: 32
  dropout: {type: double, minval: 0.0, maxval: 0.5}
  learning_rate: {type: log, base: 10, minval: -4, maxval: -1}
max_restarts: 1000
scheduling_unit: 20
min_checkpoint_period: {batches: 20}
reproducibility: {experiment_seed: 17}
checkpoint_storage: {save_trial_best: 1, save_trial_latest: 1, save_experiment_best: 2}
"""
ASHA = """
searcher:
  name: async_halving
  metric: val_loss
  max_length: {batches: 120}
  num_rungs: 3
  divisor: 3
  max_trials: TRIALS
"""
PBT = """
searcher:
  name: pbt
  metric: val_loss
  population_size: POPULATION
  num_rounds: 4
  length_per_round: {batches: 30}
  replace_function: {truncate_fraction: 0.25}
  explore_function: {resample_probability: 0.2, perturb_factor: 0.2}
"""
REPLICATED = """
searcher:
  name: random
  metric: val_loss
  max_length: {batches: 60}
  max_trials: TRIALS
  replicate: {top: 3}
"""
MASTER = """
import sys, time
offset, clock = float(sys.argv.pop(1)), time.time
time.time = lambda: clock() + offset
from quintain.cli import main
sys.exit(main.run(sys.argv[1:]))
"""
"""The command line, with a clock that is so many seconds off."""
SEARCHES = {"asha": ASHA, "pbt": PBT, "replicated": REPLICATED, "rewound": ""}
"""Configs by name; "rewound" goes on from the fourth trial of the search before it."""
NUM_SHARED = 4


class Home:
    """One home directory, its master and its searches."""

    place = "SQLite + local processes + a directory"
    leave_secs = 20.0
    """For so long processes may be there after the master has ended in order."""

    def __init__(self, path):
        self.path = path
        self.path.mkdir(parents=True)
        self.environment = {
            **os.environ,
            "QUINTAIN_HOME": str(path),
            "PYTHONPATH": str(ROOT),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        self.master = None
        self.clock_offset_secs = 0.0
        self._kinds = []
        self.database = path / "quintain.db"

    def start_master(self):
        with (self.path / "master.out").open("ab") as output:
            self.master = subprocess.Popen(
                [
                    *(sys.executable, "-c", MASTER, str(self.clock_offset_secs)),
                    *("master", "start", *self.master_options()),
                ],
                env=self.environment,
                stdout=output,
                stderr=output,
            )

    def master_options(self):
        return [f"--slots={SLOTS}"]

    def space(self):
        return SPACE

    def wait_for_master(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError, KeyError):
                if json.loads((self.path / "master.json").read_text())["pid"] == self.master.pid:
                    return
            if self.master.poll() is not None:
                raise SystemExit(f"The master did not start; see {self.path / 'master.out'}.")
            time.sleep(0.1)
        raise SystemExit(f"The master did not come up; see {self.path / 'master.out'}.")

    def kill(self, pid, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def run(self, *arguments):
        done = subprocess.run(
            [sys.executable, "-m", "quintain.cli.main", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{arguments} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    @contextlib.contextmanager
    def reading(self):
        """Reads the database."""
        store = stores.open_store(self.database)
        try:
            with store.reading() as session:
                yield session
        finally:
            store.close()

    def list_stored(self):
        """Returns the names of the checkpoints that are there."""
        names = {path.name for path in (self.path / "checkpoints").iterdir()}
        return {name for name in names if not file_listing.is_mark(name)}

    def find_unreported(self):
        """Returns whole checkpoints of this home that its database does not know."""
        store = stores.open_store(self.database)
        try:
            return {each.name for each in orphans.find(store, self.path) if each.home_id}
        finally:
            store.close()

    def find_noted(self):
        """Returns the checkpoints that the next master deletes: their storage did not answer."""
        with self.reading() as session:
            return {each.name for each in session.list_deletions()}

    def create(self, name, num_trials, population_size):
        if name == "rewound":
            self.rewind()
            return
        config = self.path / f"{name}.yaml"
        text = SEARCHES[name].replace("TRIALS", str(num_trials))
        text = text.replace("POPULATION", str(population_size))
        config.write_text(f"name: {name}\n{self.space()}{text}")
        self.run("experiment", "create", str(config), str(MODEL_DIR), "--detach", "--no_check")

    def rewind(self):
        with self.reading() as session:
            number = session.list_experiments()[-1].id
            trials = [one.id for one in session.list_trials(number) if "+" not in one.request_id]
        last = trials[NUM_SHARED - 1]
        self.run("experiment", "rewind", str(number), f"--to-trial={last}")

    def state(self, number):
        with self.reading() as session:
            return session.get_experiment(number).state

    def count_batches(self, number):
        """Returns what was done of a search so far."""
        with self.reading() as session:
            return sum(each.total_batches for each in session.list_trials(number))

    def rest(self, number, secs, *, num_batches):
        """Waits so long, but not on once so much of a search is done."""
        deadline = time.monotonic() + secs
        while (left := deadline - time.monotonic()) > 0 and (
            self.count_batches(number) < num_batches
        ):
            time.sleep(min(left, 0.2))

    def wait_for_work(self, number):
        """Waits until the search gets on, so that damage meets processes at work."""
        before, deadline = self.count_batches(number), time.monotonic() + MAX_WAIT_SECS
        while time.monotonic() < deadline and not self.state(number).is_terminal:
            if self.count_batches(number) != before:
                return
            time.sleep(0.1)

    def find_processes(self):
        """Returns the processes of this home by their numbers, the master's left out."""
        mark = f"QUINTAIN_HOME={self.path}".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in (os.getpid(), self.master_pid):
                continue
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return sorted(found)

    @property
    def master_pid(self):
        return self.master.pid if self.master is not None else -1

    def kill_something(self, choice):
        """Kills the master or another process, and returns what it was."""
        if not self._kinds:
            # Each of them has its turn before any comes again.
            self._kinds = ["master", "master", "other", "other", "other"]
            choice.shuffle(self._kinds)
        others = self.find_processes()
        if self._kinds.pop() == "master" or not others:
            self.master.kill()
            self.master.wait()
            self.start_master()
            return "master"
        try:
            os.kill(choice.choice(others), signal.SIGKILL)
        except ProcessLookupError:
            return None
        return "other"

    def stop(self):
        self.master.terminate()
        self.master.wait(60)
        deadline = time.monotonic() + self.leave_secs
        while self.find_processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.find_processes()

    def end(self):
        """Kills a master that is still there, as when this program fails."""
        if self.master is not None and self.master.poll() is None:
            self.master.kill()
            self.master.wait()
