"""Compares search methods on the 24 functions of BBOB, which are smooth, without noise and cheap.

python benchmarks/search_functions.py [--seeds=10] [--trials=64] [--jobs=2] [--methods=random,tpe]
    [--dimension=5] [--output=FILE]

The functions are those of `ioh` (instance 1), between -5 and 5. Counted are decades: how much
smaller than after a random search of as many trials the distance to the optimum is, as a power of
ten, in the mean over functions and searches. Intervals are 95 %, as in `search_quality.py`.
"""

import argparse
import concurrent.futures
import functools
import json
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import search_quality

from quintain.records.config import experiment_spec
from quintain.search import search_factory, simulate

METHODS: Final = search_quality.PLAIN
NEAREST: Final = 1e-8
"""Distance to the optimum that counts as none."""

GROUPS: Final = {
    "separable (1-5)": range(5),
    "moderate (6-9)": range(5, 9),
    "ill-conditioned (10-14)": range(9, 14),
    "many optima (15-19)": range(14, 19),
    "weak structure (20-24)": range(19, 24),
}

Function = Callable[[list[float]], float]


def load(number: int, dimension: int) -> Function:
    """Returns the distance of a function to its optimum."""
    search_quality.add_peers()
    import ioh

    problem = ioh.get_problem(number, 1, dimension, ioh.ProblemClass.BBOB)
    return lambda point: float(problem(point)) - problem.optimum.y


def run_ours(
    function: Function, dimension: int, fields: dict[str, Any], num_trials: int, seed: int
) -> float:
    """Returns the least distance that a method of the package finds."""
    axis = {"type": "double", "minval": -5.0, "maxval": 5.0}
    config = experiment_spec.parse(
        {
            "searcher": {
                "metric": "distance",
                "max_length": {"batches": 1},
                "max_trials": num_trials,
                **fields,
            },
            "hyperparameters": {f"x{index}": axis for index in range(dimension)},
            "reproducibility": {"experiment_seed": seed},
        }
    )
    done, found = simulate.Simulation(), []

    def measure(name: str, _: int) -> float:
        point: Any = done.hparams[name]
        found.append(function([point[f"x{index}"] for index in range(dimension)]))
        return found[-1]

    simulate.simulate(search_factory.build_searcher(config), measure, done)
    return min(found)


def run_optuna(
    function: Function, dimension: int, sampler: str, num_trials: int, seed: int
) -> float:
    """Returns the least distance that a sampler of Optuna finds, one trial after the other."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed))

    def measure(trial: Any) -> float:
        return function([trial.suggest_float(f"x{index}", -5, 5) for index in range(dimension)])

    study.optimize(measure, n_trials=num_trials)
    return float(study.best_value)


def run(case: tuple[str, int], *, dimension: int, num_trials: int, seeds: Sequence[int]) -> Any:
    """Returns the decades of a method's distances from the optimum of a function."""
    method, number = case
    function, fields = load(number, dimension), METHODS[method]
    distances = [
        run_optuna(function, dimension, fields["optuna"], num_trials, seed)
        if "optuna" in fields
        else run_ours(function, dimension, fields, num_trials, seed)
        for seed in seeds
    ]
    return [math.log10(max(distance, NEAREST)) for distance in distances]


def report(decades: dict[str, np.ndarray]) -> str:
    """Returns the table of results in Markdown."""
    lines = [
        f"| method | decades nearer than random | {' | '.join(GROUPS)} |",
        "|---|---|" + "---|" * len(GROUPS),
    ]
    for method, found in decades.items():
        nearer = decades["random"] - found
        low, high = search_quality.interval(nearer)
        parts = " | ".join(f"{nearer[list(part)].mean():.2f}" for part in GROUPS.values())
        lines.append(f"| {method} | {nearer.mean():.2f} [{low:.2f}, {high:.2f}] | {parts} |")
    return "\n".join(lines)


def main() -> None:
    """Prints the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--dimension", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--methods", help="by commas")
    parser.add_argument("--output", type=pathlib.Path, help="file for all decades, as JSON")
    flags = parser.parse_args()
    methods = flags.methods.split(",") if flags.methods else list(METHODS)
    methods = list(dict.fromkeys(["random", *methods]))
    search_quality.add_peers()
    work = functools.partial(
        run, dimension=flags.dimension, num_trials=flags.trials, seeds=range(flags.seeds)
    )
    with concurrent.futures.ProcessPoolExecutor(flags.jobs) as pool:
        decades = {
            method: np.array(list(pool.map(work, [(method, number) for number in range(1, 25)])))
            for method in methods
        }
    print(report(decades))
    if flags.output:
        plain = {method: found.tolist() for method, found in decades.items()}
        flags.output.write_text(json.dumps(plain))


if __name__ == "__main__":
    main()
