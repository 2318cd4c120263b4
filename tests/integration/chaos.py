"""Kills masters and trial processes at random during searches, and compares what came out.

python tests/integration/chaos.py --kills=50 --damage=20 --seed=1 --workdir=DIR
python tests/integration/chaos.py --cluster --postgresql --s3 --kills=50 --seed=1 --workdir=DIR

With `--cluster`, the searches that are killed run on the nodes of a Ray cluster, by
`--postgresql` with such a database and by `--s3` with checkpoints in S3; nodes, agents, the
database and connections are killed as well: cluster_home.py. The undisturbed ones run as ever, so
that both give the same on one machine and on many.

With `--damage`, checkpoints, files and databases are damaged as well, and clocks set: damage.py.
`--trials`, `--population`, `--searches`, and `--nodes` and `--node_timeout` of the cluster make it
shorter.

An ASHA search of 30 trials, a PBT search of 8, a random search with finalists, and one that is
rewound to its fourth trial, of Keras models on the digits of scikit-learn, run on two slots: once
undisturbed, once while processes are killed by SIGKILL. Both masters share nothing.
Then

- every search is COMPLETED, and has the same trials: names, hyperparameters, seeds, parents;
- every training and validation of every trial gave the same metrics, to the bit (of ASHA, whose
  trials run as far as the order of results says, as far as both went);
- the PBT searches end with the same best checkpoint;
- no workload's metrics are there twice, none are missing;
- the checkpoints on the disk are those in the store, those that an older copy of the database does
  not know, those whose process was killed before it reported them, and those whose deletion is
  noted; no process is left.
"""

import argparse
import collections
import contextlib
import json
import pathlib
import random
import sys
import time

from quintain.records.rows import checkpoint, metric

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cluster_home
import damage
import homes

MAX_SECS = 900
SAFE_SHARE = 0.7
"""Part of the work of a search in which all kills and damages come."""


def search(home, name, number, kills, choice, *, damages=0, damager=None, num_batches=0):
    """Runs one search to its end; returns how often what was killed, and how often damaged.

    All of it has to come before that end, however quick the machine is: `num_batches` are those of
    an undisturbed search, of which each kill and each damage has a share.
    """
    killed, damaged = collections.Counter(), collections.Counter()
    if damages:
        damager.begin(name)
    deadline = time.monotonic() + MAX_SECS
    while not home.state(number).is_terminal:
        if time.monotonic() > deadline:
            raise SystemExit(f"{name}: not at its end after {MAX_SECS} s; see {home.path}")
        left = max(kills - killed.total(), 0), max(damages - damaged.total(), 0)
        if not any(left):
            time.sleep(0.2)
            continue
        num_done = killed.total() + damaged.total()
        share = SAFE_SHARE * (num_done + 1) / (kills + damages + 1)
        home.rest(number, choice.uniform(0.1, 2.0), num_batches=share * num_batches)
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
    faults, trials = [], {}
    with home.reading() as session:
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
    there = home.list_stored()
    faults += [f"checkpoint {one.uuid} is not there" for one in kept if one.uuid not in there]
    best = min(
        ((one.metric, names[one.trial_id], one.total_batches) for one in kept if one.metric),
        default=None,
    )
    return trials, best, faults, {one.uuid for one in kept}


def compare(name, calm, chaos):
    """Returns the differences of two searches, and how many workloads both have done."""
    faults, num_common = [], 0
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
        num_common += len(common)
        if name == "pbt" and left["metrics"].keys() != right["metrics"].keys():
            faults.append(f"{name} {request_id}: other workloads")
        faults += [
            f"{name} {request_id} at {key}: {left['metrics'][key]} and {right['metrics'][key]}"
            for key in sorted(common)
            if left["metrics"][key] != right["metrics"][key]
        ]
    return faults, num_common


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--searches", nargs="+", default=[*homes.SEARCHES], choices=homes.SEARCHES)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--population", type=int, default=8)
    parser.add_argument("--damage", type=int, default=0)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--node_timeout", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workdir", required=True)
    options = parser.parse_args()
    choice = random.Random(options.seed)
    workdir = pathlib.Path(options.workdir).absolute()
    counts = {}
    start = time.monotonic()
    with contextlib.ExitStack() as parts:
        both = {"calm": homes.Home(workdir / "calm")}
        both["chaos"] = (
            parts.enter_context(cluster_home.build(workdir / "chaos", options))
            if options.cluster
            else homes.Home(workdir / "chaos")
        )
        for home in both.values():
            parts.callback(home.end)
        damager = damage.Damage(both["chaos"], choice)
        faults = run(both, options, choice, damager, counts, start)
    report(counts, damager, faults)


def run(both, options, choice, damager, counts, start):
    """Runs all searches in both homes, and returns what is wrong."""
    num_batches = {}
    for kind, home in both.items():
        home.start_master()
        home.wait_for_master()
        for number, name in enumerate(options.searches, start=1):
            kills, damages = (
                (count + number - 1) // len(options.searches) if kind == "chaos" else 0
                for count in (options.kills, options.damage)
            )
            home.create(name, options.trials, options.population)
            counts[kind, name] = search(
                home,
                name,
                number,
                kills,
                choice,
                damages=damages,
                damager=damager,
                num_batches=num_batches.get(name, 0),
            )
            num_batches.setdefault(name, home.count_batches(number))
            killed, damaged = counts[kind, name]
            print(
                f"{time.monotonic() - start:6.1f} s  {kind} {name}: {dict(killed)} {dict(damaged)}",
                flush=True,
            )
    faults = damager.faults
    left = {kind: home.stop() for kind, home in both.items()}
    faults += [f"{kind}: processes are left: {pids}" for kind, pids in left.items() if pids]
    best = {}
    for number, name in enumerate(options.searches, start=1):
        results = {}
        for kind, home in both.items():
            trials, best[kind, name], found, _ = read(home, number)
            results[kind] = trials
            faults += [f"{kind}: {fault}" for fault in found]
        different, num_common = compare(name, results["calm"], results["chaos"])
        faults += different
        places = " and ".join(home.place for home in both.values())
        print(
            f"{name}: {len(results['calm'])} trials on {places}: {len(different)} differences in "
            "names, hyperparameters, seeds and parents, and in the metrics (to the bit) of "
            f"{num_common} workloads"
        )
        if name == "pbt" and best["calm", name] != best["chaos", name]:
            faults.append(f"pbt: best {best['calm', name]} and {best['chaos', name]}")
    damager.look_back()
    numbers = range(1, len(options.searches) + 1)
    for kind, home in both.items():
        kept = set().union(*(read(home, number)[3] for number in numbers))
        there = home.list_stored()
        if kind == "chaos":
            # What is damaged stays for its user to look at.
            there -= damager.recognised
        lost = damager.lost if kind == "chaos" else set()
        unreported, noted = home.find_unreported(), home.find_noted()
        if not kept | lost <= there or not there <= kept | lost | unreported | noted:
            faults.append(
                f"{kind}: missing: {sorted((kept | lost) - there)}, "
                f"not known: {sorted(there - kept - lost - unreported - noted)}"
            )
    print(f"best: {best['chaos', options.searches[-1]]}")
    return faults


def report(counts, damager, faults):
    """Prints what was done and what is wrong, and ends."""
    killed = sum((count for count, _ in counts.values()), collections.Counter())
    damaged = sum((count for _, count in counts.values()), collections.Counter())
    shown = {"killed": killed.total(), "kinds": killed, "damaged": damaged}
    shown |= {"kept": len(damager.lost), "recognised": len(damager.recognised)}
    print(json.dumps({**shown, "faults": faults}))
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
