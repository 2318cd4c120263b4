"""Compares searches that stop bad trainings early with those that train all to the end.

python benchmarks/search_curves.py [--seeds=30] [--jobs=2] [--budgets=6,12,24,64] [--methods=...]
    [--output=FILE]

The table is our own: 512 small networks on scikit-learn's digits, with the validation error of each
of 30 epochs and three seeds (`search_quality/train_digits.py` makes it). A search sees one seed;
the other two judge the last epoch of what it chose. 0 is the table's best mean, 1 its median. A
budget counts full trainings: of 12 a method gets as many trials as it expects to train in 12 * 30
epochs. What it used is shown beside. It names the best of the trials that were trained longest.
"""

import argparse
import concurrent.futures
import functools
import json
import pathlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import search_quality

from quintain.records.config import experiment_spec
from quintain.search import search_factory, simulate

FILE: Final = search_quality.HERE / "digits.npz"
REFERENCE: Final = ("random", 64)

METHODS: Final[dict[str, dict[str, Any]]] = {
    "random": {"name": "random"},
    "tpe": {"name": "tpe"},
    "gp": {"name": "gp"},
    "tpe, 3 rungs": {"name": "tpe", "num_rungs": 3},
    "async_halving": {"name": "async_halving"},
    "async_halving, stop_once": {"name": "async_halving", "stop_once": True},
    "adaptive_asha": {"name": "adaptive_asha"},
    "adaptive_asha, aggressive": {"name": "adaptive_asha", "mode": "aggressive"},
    "adaptive_asha, conservative": {"name": "adaptive_asha", "mode": "conservative"},
    "adaptive_simple": {"name": "adaptive_simple"},
}


class CurveTable(search_quality.Table):
    """Errors of all configurations, seeds and epochs."""

    def __init__(self) -> None:
        """Reads the table."""
        with np.load(FILE) as data:
            self.curves = data["errors"] / 645.0
            self.choices = json.loads(str(data["choices"]))
        self.losses = self.curves[..., -1]
        means = self.losses.mean(-1)
        self.best, self.median = float(means.min()), float(np.median(means))


@functools.cache
def read() -> CurveTable:
    """Returns the table, which is read once."""
    return CurveTable()


def build_config(
    fields: dict[str, Any], num_trials: int, seed: int
) -> experiment_spec.ExperimentSpec:
    """Returns the config of a search, as users write it."""
    length = read().curves.shape[-1]
    return experiment_spec.parse(
        {
            "searcher": {
                "metric": "error",
                "max_length": {"batches": length},
                "max_trials": num_trials,
                **fields,
            },
            "hyperparameters": read().space(),
            "reproducibility": {"experiment_seed": seed},
        }
    )


@functools.cache
def count_trials(method: str, budget: int) -> int:
    """Returns as many trials as a method expects to train within a budget."""
    num_units = budget * read().curves.shape[-1]
    low, high = 1, num_units
    while low < high:
        middle = (low + high + 1) // 2
        search = search_factory.build_searcher(build_config(METHODS[method], middle, 0))
        low, high = (middle, high) if search.left(0) <= num_units else (low, middle - 1)
    return low


def search_once(method: str, budget: int, seed: int) -> tuple[float, float]:
    """Returns the regret of a search, and the full trainings that it used."""
    table, done = read(), simulate.Simulation()
    searched, *judges = np.random.RandomState(seed).permutation(table.curves.shape[-2])
    seen: list[tuple[int, float, search_quality.Point]] = []

    def measure(name: str, length: int) -> float:
        point = table.locate(done.hparams[name])
        error = float(table.curves[point][searched][length - 1])
        seen.append((-length, error, point))
        return error

    config = build_config(METHODS[method], count_trials(method, budget), seed)
    simulate.simulate(search_factory.build_searcher(config), measure, done)
    judged = table.losses[min(seen)[-1]][judges].mean()
    regret = (judged - table.best) / (table.median - table.best)
    return float(regret), done.total_length / table.curves.shape[-1]


def run(case: tuple[str, int], seeds: Sequence[int]) -> np.ndarray:
    """Returns regrets and used budgets `[2, seeds]`."""
    return np.array([search_once(*case, seed) for seed in seeds]).T


def report(found: dict[tuple[str, int], np.ndarray]) -> str:
    """Returns the table of results in Markdown."""
    lines = [
        "| method | budget | trials | used | regret | less than random with 64 |",
        "|---|---|---|---|---|---|",
    ]
    for (method, budget), (regrets, used) in found.items():
        differences = found[REFERENCE][0] - regrets
        low, high = search_quality.interval(differences[None])
        lines.append(
            f"| {method} | {budget} | {count_trials(method, budget)} | {used.mean():.1f} "
            f"| {regrets.mean():.3f} | {differences.mean():.3f} [{low:.3f}, {high:.3f}] |"
        )
    return "\n".join(lines)


def main() -> None:
    """Prints the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budgets", default="6,12,24,64", help="in full trainings")
    parser.add_argument("--methods", help="by semicolons")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path, help="file for all regrets, as JSON")
    flags = parser.parse_args()
    methods = flags.methods.split(";") if flags.methods else list(METHODS)
    budgets = map(int, flags.budgets.split(","))
    cases = [(method, budget) for budget in budgets for method in methods]
    cases = list(dict.fromkeys([REFERENCE, *cases]))
    seeds = range(flags.first_seed, flags.first_seed + flags.seeds)
    with concurrent.futures.ProcessPoolExecutor(flags.jobs) as pool:
        results = list(pool.map(functools.partial(run, seeds=seeds), cases))
    found = dict(zip(cases, results, strict=True))
    print(report(found))
    if flags.output:
        plain = {f"{method} {budget}": rows.tolist() for (method, budget), rows in found.items()}
        flags.output.write_text(json.dumps(plain))


if __name__ == "__main__":
    main()
