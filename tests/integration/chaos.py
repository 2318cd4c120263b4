"""Kills masters and trial processes at random during searches, and compares what came out.

python tests/integration/chaos.py --kills=50 --damage=20 --seed=1 --workdir=DIR

With `--damage`, checkpoints, files and databases are damaged as well, and clocks set: damage.py.
`--trials` and `--population` make the searches shorter.

An ASHA search of 30 trials and a PBT search of 8, of Keras models on the digits of scikit-learn,
run on two slots: once undisturbed, once while processes are killed by SIGKILL. Both masters share
nothing. Then

- every search is COMPLETED, and has the same trials: names, hyperparameters, seeds, parents;
- every training and validation of every trial gave the same metrics, to the bit (of ASHA, whose
  trials run as far as the order of results says, as far as both went);
- the PBT searches end with the same best checkpoint;
- no workload's metrics are there twice, none are missing;
- the checkpoints on the disk are those in the store, those that an older copy of the database does
  not know, and those whose process was killed before it reported them; no process is left.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

from quintain import store as stores
from quintain.records import checkpoint, metric
from quintain.scheduler import orphans

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import damage

ROOT = pathlib.Path(__file__).parents[2]
MODEL_DIR = ROOT / "examples" / "platform" / "keras_digits"
SLOTS = 2
MAX_SECS = 900
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
MASTER = """
import sys, time
offset, clock = float(sys.argv.pop(1)), time.time
time.time = lambda: clock() + offset
from quintain.cli import main
sys.exit(main.run(sys.argv[1:]))
"""
"""The command line, with a clock that is so many seconds off."""
SEARCHES = {"asha": ASHA, "pbt": PBT}


class Home:
    """One home directory, its master and its searches."""

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

    def start_master(self):
        with (self.path / "master.out").open("ab") as output:
            self.master = subprocess.Popen(
                [
                    *(sys.executable, "-c", MASTER, str(self.clock_offset_secs)),
                    *("master", "start", f"--slots={SLOTS}"),
                ],
                env=self.environment,
                stdout=output,
                stderr=output,
            )

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

    def create(self, name, num_trials, population_size):
        config = self.path / f"{name}.yaml"
        text = SEARCHES[name].replace("TRIALS", str(num_trials))
        text = text.replace("POPULATION", str(population_size))
        config.write_text(f"name: {name}\n{SPACE}{text}")
        self.run("experiment", "create", str(config), str(MODEL_DIR), "--detach", "--no_check")

    def state(self, number):
        store = stores.open_store(self.path / "quintain.db")
        with store.reading() as session:
            experiment = session.get_experiment(number)
        store.close()
        return experiment.state

    def count_batches(self, number):
        """Returns what was done of a search so far."""
        store = stores.open_store(self.path / "quintain.db")
        with store.reading() as session:
            done = sum(each.total_batches for each in session.list_trials(number))
        store.close()
        return done

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
        others = self.find_processes()
        if choice.random() < 0.4 or not others:
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
        deadline = time.monotonic() + 20
        while self.find_processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.find_processes()


def search(home, name, number, kills, choice, damages=0, damager=None):
    """Runs one search to its end; returns how often what was killed, and how often damaged."""
    killed = {"master": 0, "other": 0}
    damaged = collections.Counter()
    if damages:
        damager.begin(name)
    deadline = time.monotonic() + MAX_SECS
    while not home.state(number).is_terminal:
        if time.monotonic() > deadline:
            raise SystemExit(f"{name}: not at its end after {MAX_SECS} s; see {home.path}")
        left = max(kills - sum(killed.values()), 0), max(damages - damaged.total(), 0)
        if not any(left):
            time.sleep(0.2)
            continue
        time.sleep(choice.uniform(0.1, 2.0))
        if home.state(number).is_terminal:
            break
        if choice.random() < left[1] / sum(left):
            home.wait_for_work(number)
            damaged.update(filter(None, [damager.do_something()]))
            continue
        what = home.kill_something(choice)
        if what is not None:
            killed[what] += 1
    return killed, damaged


def read(home, number):
    """Returns what a search left: its trials by their names, its best checkpoint, its faults."""
    store = stores.open_store(home.path / "quintain.db")
    faults, trials = [], {}
    with store.reading() as session:
        experiment = session.get_experiment(number)
        if experiment.state != "COMPLETED":
            faults.append(f"experiment {number} is {experiment.state}: {experiment.reason}")
        records = session.list_trials(number)
        names = {record.id: record.request_id for record in records}
        for record in records:
            if not record.state.is_terminal or record.state == "ERROR":
                faults.append(f"trial {record.id} is {record.state}: {record.reason}")
            rows = session.list_metrics(record.id)
            keys = [(row.group, row.total_batches) for row in rows]
            if len(set(keys)) != len(keys):
                faults.append(f"trial {record.id} has metrics twice: {keys}")
            trained = [total for group, total in keys if group is metric.MetricGroup.TRAINING]
            inputs = sum(row.num_inputs for row in rows if row.group == "training")
            if trained and (max(trained) != record.total_batches or inputs < 30 * max(trained)):
                faults.append(f"trial {record.id} lacks metrics: {trained}, {inputs} inputs")
            trials[record.request_id] = {
                "hparams": record.hparams,
                "seed": record.seed,
                "parent": names.get(record.parent_trial_id),
                "total_batches": record.total_batches,
                "metrics": {f"{row.group.value} {row.total_batches}": row.metrics for row in rows},
            }
        kept = session.list_checkpoints(
            experiment_id=number, states=[checkpoint.CheckpointState.COMPLETED]
        )
    store.close()
    for one in kept:
        if not (home.path / "checkpoints" / one.uuid / "metadata.json").exists():
            faults.append(f"checkpoint {one.uuid} is not on the disk")
    best = min(
        ((one.metric, names[one.trial_id], one.total_batches) for one in kept if one.metric),
        default=None,
    )
    return trials, best, faults, {one.uuid for one in kept}


def compare(name, calm, chaos):
    """Returns the differences of two searches."""
    faults = []
    if calm.keys() != chaos.keys():
        faults.append(f"{name}: other trials: {sorted(calm.keys() ^ chaos.keys())}")
    for request_id in calm.keys() & chaos.keys():
        left, right = calm[request_id], chaos[request_id]
        fields = ["hparams", "seed", "parent"]
        if name == "pbt":
            fields.append("total_batches")
        faults += [
            f"{name} {request_id}: {field}: {left[field]} and {right[field]}"
            for field in fields
            if left[field] != right[field]
        ]
        common = left["metrics"].keys() & right["metrics"].keys()
        if name == "pbt" and left["metrics"].keys() != right["metrics"].keys():
            faults.append(f"{name} {request_id}: other workloads")
        faults += [
            f"{name} {request_id} at {key}: {left['metrics'][key]} and {right['metrics'][key]}"
            for key in sorted(common)
            if left["metrics"][key] != right["metrics"][key]
        ]
    return faults


def find_unreported(home):
    """Returns whole checkpoints of this home that its database does not know."""
    store = stores.open_store(home.path / "quintain.db")
    found = orphans.find(store, home.path)
    store.close()
    return {each.name for each in found if each.home_id}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--population", type=int, default=8)
    parser.add_argument("--damage", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workdir", required=True)
    options = parser.parse_args()
    choice = random.Random(options.seed)
    workdir = pathlib.Path(options.workdir).absolute()
    homes = {"calm": Home(workdir / "calm"), "chaos": Home(workdir / "chaos")}
    counts = {}
    damager = damage.Damage(homes["chaos"], choice)
    start = time.monotonic()
    for kind, home in homes.items():
        home.start_master()
        home.wait_for_master()
        for number, name in enumerate(SEARCHES, start=1):
            kills, damages = (
                (count + number - 1) // len(SEARCHES) if kind == "chaos" else 0
                for count in (options.kills, options.damage)
            )
            home.create(name, options.trials, options.population)
            counts[kind, name] = search(home, name, number, kills, choice, damages, damager)
            killed, damaged = counts[kind, name]
            print(
                f"{time.monotonic() - start:6.1f} s  {kind} {name}: {killed} {dict(damaged)}",
                flush=True,
            )
    faults = damager.faults
    left = {kind: home.stop() for kind, home in homes.items()}
    faults += [f"{kind}: processes are left: {pids}" for kind, pids in left.items() if pids]
    best = {}
    for number, name in enumerate(SEARCHES, start=1):
        results = {}
        for kind, home in homes.items():
            trials, best[kind, name], found, _ = read(home, number)
            results[kind] = trials
            faults += [f"{kind}: {fault}" for fault in found]
        faults += compare(name, results["calm"], results["chaos"])
        if name == "pbt" and best["calm", name] != best["chaos", name]:
            faults.append(f"pbt: best {best['calm', name]} and {best['chaos', name]}")
    damager.look_back()
    for kind, home in homes.items():
        kept = set().union(*(read(home, number)[3] for number in (1, 2)))
        there = {path.name for path in (home.path / "checkpoints").iterdir()}
        if kind == "chaos":
            # What is damaged stays for its user to look at.
            there -= damager.recognised
        lost = damager.lost if kind == "chaos" else set()
        unreported = find_unreported(home)
        if not kept | lost <= there or not there <= kept | lost | unreported:
            faults.append(
                f"{kind}: missing: {sorted((kept | lost) - there)}, "
                f"not known: {sorted(there - kept - lost - unreported)}"
            )
    killed = sum(sum(count.values()) for (kind, _), (count, _) in counts.items() if kind == "chaos")
    damaged = sum((count for _, count in counts.values()), collections.Counter())
    shown = {"killed": killed, "damaged": damaged, "kept": len(damager.lost)}
    shown["recognised"] = len(damager.recognised)
    print(json.dumps({**shown, "best": str(best["chaos", "pbt"]), "faults": faults}))
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
