"""Compares searches that stop bad trainings early with those that train all to the end.

python benchmarks/search_curves.py [--learners] [--seeds=30] [--jobs=2] [--budgets=6,12,24,64]
    [--methods=...] [--output=FILE]

The table is our own: 512 small networks on scikit-learn's digits, with the validation error of each
of 30 epochs and three seeds (`search_quality/train_digits.py` makes it). A search sees one seed;
the other two judge the last epoch of what it chose. 0 is the table's best mean, 1 its median. A
budget counts full trainings: of 12 a method gets as many trials as it expects to train in 12 * 30
epochs. What it used is shown beside. It names the best of the trials that were trained longest.

With `--learners` the tables are those of LCDB, one for each of 31 data sets: 20 learners, with
errors by the number of rows that they see, in steps of 16. A search sees the validation of one
split, test rows of the others judge; regret is in points of a percentage above the best learner.

Ray's schedulers and Optuna's pruners are called directly: Ray's with four random trials at once,
Optuna's with one trial after the other from its TPE. New trials start until the budget is used.
"""

import argparse
import concurrent.futures
import functools
import json
import pathlib
import subprocess
import types
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import peer_environments
import search_quality

from quintain.records.config import experiment_spec, searcher_config
from quintain.search import search_factory, simulate

FILE: Final = search_quality.HERE / "digits.npz"
LEARNERS: Final = search_quality.TABLES / "learners"
NUM_VALIDATED: Final = 645
"""Images that an error in `digits.npz` counts."""

METHODS: Final[dict[str, dict[str, Any]]] = {
    "random": {"name": "random"},
    "tpe": {"name": "tpe"},
    "gp": {"name": "gp"},
    "async_halving": {"name": "async_halving"},
    "adaptive_asha": {"name": "adaptive_asha"},
    "adaptive_simple": {"name": "adaptive_simple"},
    "Ray's ASHA": {"ray": {}},
    "Optuna's Hyperband": {"optuna": "HyperbandPruner"},
    "Optuna's median rule": {"optuna": "MedianPruner"},
}
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "tpe, 3 rungs": {"name": "tpe", "num_rungs": 3},
    "async_halving, stop_once": {"name": "async_halving", "stop_once": True},
    "adaptive_asha, aggressive": {"name": "adaptive_asha", "mode": "aggressive"},
    "adaptive_asha, conservative": {"name": "adaptive_asha", "mode": "conservative"},
    **{
        f"{name}, {change}": {"name": name, **fields}
        for name in ("async_halving", "adaptive_asha", "adaptive_simple")
        for change, fields in {
            "divisor 2": {"divisor": 2},
            "divisor 3": {"divisor": 3},
            "extrapolated": {"seen": "extrapolated"},
            "smoothed": {"seen": "smoothed"},
        }.items()
    },
}
"""Changes that were tried: softer promotion (one of two or three goes on), and what a rung compares
(the error that a power law expects at the end, or the mean of the last three)."""


class Curves(search_quality.Table):
    """Errors of configurations by length of training, for several splits or seeds."""

    validation: np.ndarray
    """Errors that a search sees `[..., splits, lengths]`."""

    test: np.ndarray
    """Errors that judge, at full length `[..., splits]`."""

    groups: np.ndarray
    """Splits of the same group share test rows `[splits]`."""

    lengths: np.ndarray
    """Lengths of training `[lengths]`, rising."""

    unit: float
    """What a regret of 1 is, in errors."""

    @property
    def max_length(self) -> int:
        """Length of a full training."""
        return int(self.lengths[-1])

    def _measure_scale(self, *, by_median: bool) -> None:
        """Sets where regret is 0 and 1."""
        means = self.test.mean(-1)
        self.best, self.median = float(means.min()), float(np.median(means))
        self.losses = self.test
        self.unit = self.median - self.best if by_median else 0.01


class Digits(Curves):
    """Networks on scikit-learn's digits, by epochs."""

    def __init__(self) -> None:
        """Reads the table."""
        with np.load(FILE) as data:
            self.validation = data["errors"] / NUM_VALIDATED
            self.choices = json.loads(str(data["choices"]))
        num_splits, num_lengths = self.validation.shape[-2:]
        self.test = self.validation[..., -1]
        self.groups, self.lengths = np.arange(num_splits), np.arange(1, num_lengths + 1)
        self._measure_scale(by_median=True)


class Learners(Curves):
    """Learners of a data set, by the rows that they see."""

    def __init__(self, path: pathlib.Path) -> None:
        """Reads the table."""
        with np.load(path) as data:
            self.validation, self.test = data["errors"][..., 0], data["errors"][..., -1, 1]
            lengths = data["sizes"] // 16
            last = np.flatnonzero(np.append(np.diff(lengths), 1))
            self.validation, self.lengths = self.validation[..., last], lengths[last]
            self.groups = data["splits"][:, 0]
            self.choices = json.loads(str(data["choices"]))
        self._measure_scale(by_median=False)


@functools.cache
def read(name: str) -> Curves:
    """Returns a table, which is read once."""
    return Digits() if name == "digits" else Learners(LEARNERS / f"{name}.npz")


class Search:
    """One search: what it sees, what it used, and what it found."""

    def __init__(self, table: Curves, seed: int) -> None:
        """Draws the split that is searched."""
        self.table = table
        self.split = np.random.RandomState(seed).randint(len(table.groups))
        self.seen: list[tuple[int, float, search_quality.Point]] = []
        self.used = self.num_trials = 0

    def observe(self, hparams: dict[str, Any], length: int, how: str = "") -> float:
        """Returns the error of a configuration after a length, as a search sees it."""
        table, point = self.table, self.table.locate(hparams)
        place = int(np.searchsorted(table.lengths, length, "right")) - 1
        curve = table.validation[point][self.split][: max(place, 0) + 1]
        self.seen.append((-length, float(curve[-1]), point))
        if how == "smoothed":
            return float(curve[-3:].mean())
        if how == "extrapolated":
            return extrapolate(table.lengths[: len(curve)], curve, table.max_length)
        return float(curve[-1])

    def regret(self) -> float:
        """Returns how far the best of the longest trained is from the table's best."""
        judges = self.table.groups != self.table.groups[self.split]
        judged = self.table.test[min(self.seen)[-1]][judges].mean()
        return float((judged - self.table.best) / self.table.unit)


def extrapolate(lengths: np.ndarray, curve: np.ndarray, length: int) -> float:
    """Returns the error that the best fitting `a + b * length ** -c` has at a length."""
    if len(curve) < 4:
        return float(curve[-1])
    found = []
    for power in (0.25, 0.5, 1.0, 2.0):
        columns = np.stack([np.ones(len(curve)), lengths**-power], 1)
        fit, *_ = np.linalg.lstsq(columns, curve, rcond=None)
        expected = float(fit[0] + fit[1] * length**-power)
        found.append((float(np.square(columns @ fit - curve).sum()), expected))
    return float(np.clip(min(found)[1], 0.0, curve[-1]))


def build_config(
    table: Curves, fields: dict[str, Any], num_trials: int, seed: int
) -> experiment_spec.ExperimentSpec:
    """Returns the config of a search, as users write it."""
    return experiment_spec.parse(
        {
            "searcher": {
                "metric": "error",
                "max_length": {"batches": table.max_length},
                "max_trials": num_trials,
                **{name: value for name, value in fields.items() if name != "seen"},
            },
            "hyperparameters": table.space(),
            "reproducibility": {"experiment_seed": seed},
        }
    )


@functools.cache
def count_trials(name: str, method: str, budget: int) -> int:
    """Returns as many trials as a method expects to train within a budget."""
    table, fields = read(name), find_fields(method)
    num_units = budget * table.max_length
    low, high = 1, min(num_units, searcher_config.MAX_PROCESS_TRIALS)
    while low < high:
        middle = (low + high + 1) // 2
        search = search_factory.build_searcher(build_config(table, fields, middle, 0))
        low, high = (middle, high) if search.left(0) <= num_units else (low, middle - 1)
    return low


def find_fields(method: str) -> dict[str, Any]:
    """Returns the fields of a method or a variant."""
    return METHODS[method] if method in METHODS else VARIANTS[method]


def run_ours(search: Search, fields: dict[str, Any], num_trials: int, seed: int) -> None:
    """Searches by a method of the package."""
    done = simulate.Simulation()

    def measure(name: str, length: int) -> float:
        return search.observe(done.hparams[name], length, fields.get("seen", ""))

    config = build_config(search.table, fields, num_trials, seed)
    simulate.simulate(search_factory.build_searcher(config), measure, done)
    search.used, search.num_trials = done.total_length, len(done.lengths)


def run_optuna(search: Search, pruner: str, budget: int, seed: int) -> None:
    """Searches by Optuna's TPE and a pruner, one trial after the other."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    fields = {"max_resource": search.table.max_length} if pruner == "HyperbandPruner" else {}
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=getattr(optuna.pruners, pruner)(**fields),
    )
    while search.used < budget * search.table.max_length:
        trial, former = study.ask(), 0
        search.num_trials += 1
        hparams = search_quality.suggest(trial, search.table.space())
        for length in map(int, search.table.lengths):
            error = search.observe(hparams, length)
            search.used, former = search.used + length - former, length
            trial.report(error, length)
            if trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            study.tell(trial, error)


def run_ray(search: Search, budget: int, seed: int) -> None:
    """Searches by Ray's ASHA, four random trials at once."""
    from ray.tune import schedulers

    random, table = np.random.RandomState(seed), search.table
    scheduler = schedulers.ASHAScheduler("length", "error", "min", max_t=table.max_length)
    running: list[tuple[Any, dict[str, Any], int]] = []
    while running or search.used < budget * table.max_length:
        if len(running) < 4 and search.used < budget * table.max_length:
            trial = types.SimpleNamespace(trial_id=str(search.num_trials))
            search.num_trials += 1
            scheduler.on_trial_add(None, trial)
            hparams = {
                name: random.choice(part["vals"])
                if "vals" in part
                else int(random.randint(part["minval"], part["maxval"] + 1))
                for name, part in table.space().items()
            }
            running.append((trial, hparams, 0))
            continue
        trial, hparams, place = running.pop(0)
        length = int(table.lengths[place])
        search.used += length - (int(table.lengths[place - 1]) if place else 0)
        result = {"length": length, "error": search.observe(hparams, length)}
        if scheduler.on_trial_result(None, trial, result) == schedulers.TrialScheduler.CONTINUE:
            running.append((trial, hparams, place + 1))


def search_once(name: str, method: str, budget: int, seed: int) -> tuple[float, float, int]:
    """Returns the regret of a search, the full trainings that it used, and its trials."""
    search, fields = Search(read(name), seed), find_fields(method)
    if "optuna" in fields:
        run_optuna(search, fields["optuna"], budget, seed)
    elif "ray" in fields:
        run_ray(search, budget, seed)
    else:
        run_ours(search, fields, count_trials(name, method, budget), seed)
    return search.regret(), search.used / search.table.max_length, search.num_trials


def run(case: tuple[str, int], tables: Sequence[str], seeds: Sequence[int]) -> np.ndarray:
    """Returns regrets, used budgets and trials `[3, tables, seeds]` of a method."""
    found = [[search_once(name, *case, seed) for seed in seeds] for name in tables]
    return np.moveaxis(np.array(found), -1, 0)


def report(found: dict[tuple[str, int], np.ndarray], reference: tuple[str, int]) -> str:
    """Returns the table of results in Markdown."""
    lines = [
        f"| method | budget | trials | used | regret | less than random with {reference[1]} |",
        "|---|---|---|---|---|---|",
    ]
    for (method, budget), (regrets, used, trials) in found.items():
        differences = found[reference][0] - regrets
        low, high = search_quality.interval(differences)
        lines.append(
            f"| {method} | {budget} | {trials.mean():.0f} | {used.mean():.1f} "
            f"| {regrets.mean():.3f} | {differences.mean():.3f} [{low:.3f}, {high:.3f}] |"
        )
    return "\n".join(lines)


def prepare_learners() -> list[str]:
    """Converts LCDB's curves where they are missing, and returns the tables' names."""
    complete = LEARNERS / "complete"
    if not complete.exists():
        LEARNERS.mkdir(parents=True, exist_ok=True)
        python = peer_environments.find_python("search-learners")
        script = search_quality.HERE / "convert_learners.py"
        subprocess.run([python, script, LEARNERS], check=True)
        complete.touch()
    return sorted(path.stem for path in LEARNERS.glob("*.npz"))


def main() -> None:
    """Prints the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--learners", action="store_true", help="LCDB's tables, not the digits")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budgets", help="in full trainings")
    parser.add_argument("--methods", help="by semicolons; also of the variants")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--output", type=pathlib.Path, help="file for all regrets, as JSON")
    flags = parser.parse_args()
    tables = prepare_learners() if flags.learners else ["digits"]
    budgets = flags.budgets or ("2,4,8" if flags.learners else "6,12,24,64")
    reference = ("random", 8 if flags.learners else 64)
    methods = flags.methods.split(";") if flags.methods else list(METHODS)
    cases = [(method, budget) for budget in map(int, budgets.split(",")) for method in methods]
    cases = list(dict.fromkeys([reference, *cases]))
    seeds = range(flags.first_seed, flags.first_seed + flags.seeds)
    work = functools.partial(run, tables=tables, seeds=seeds)
    with concurrent.futures.ProcessPoolExecutor(flags.jobs) as pool:
        found = dict(zip(cases, pool.map(work, cases), strict=True))
    print(report(found, reference))
    if flags.output:
        plain = {f"{method} {budget}": rows.tolist() for (method, budget), rows in found.items()}
        flags.output.write_text(json.dumps(plain))


if __name__ == "__main__":
    main()
