"""Importance of hyperparameters for a metric, by Optuna's evaluators.

A hyperparameter that only some trials have (`when:`) is measured among these, together with those
that all of them have, and counts as much as they are of all trials.

Source:
    fANOVA: Hutter et al., 2014 (https://proceedings.mlr.press/v32/hutter14.html).
    PED-ANOVA: Watanabe et al., 2023 (https://arxiv.org/abs/2304.10255).
"""

import importlib.util
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.records.views import importance
from quintain.search import hyperparameters
from quintain.search import space as space_lib

MIN_TRIALS: Final = 5
"""Trials with a metric below which nothing is said."""

MAX_FANOVA_TRIALS: Final = 500
"""Most trials of fANOVA, which takes seconds of them; its time grows with their square."""

_AUTO_FANOVA_TRIALS: Final = 200
"""Trials above which `auto` takes PED-ANOVA."""

_SEED: Final = 0
"""So that the same trials always give the same answer."""


def evaluate(
    hparams: Mapping[str, Sequence[Any]],
    metrics: Sequence[float | None],
    space: space_lib.Space,
    *,
    evaluator: importance.Evaluator = importance.Evaluator.AUTO,
    smaller_is_better: bool = True,
) -> importance.Importances:
    """Measures how much hyperparameters decide about a metric.

    Trials without a finite metric are not looked at.

    Args:
        hparams: Values of all trials by dotted name; None where a trial has none.
        metrics: The metric of each trial.
        space: The ranges.
        evaluator: How to measure.
        smaller_is_better: Whether smaller metrics are better.

    Raises:
        ConfigError: If the evaluator needs scikit-learn, which is not installed.
    """
    rows = [row for row, value in enumerate(metrics) if value is not None and math.isfinite(value)]
    evaluator = _choose(evaluator, len(rows))

    def give_up(problem: str) -> importance.Importances:
        return importance.Importances(evaluator, len(rows), problem=problem)

    if len(rows) < MIN_TRIALS:
        return give_up(f"{len(rows)} trials have a finite value; at least {MIN_TRIALS} are needed.")
    if evaluator is importance.Evaluator.FANOVA and len(rows) > MAX_FANOVA_TRIALS:
        return give_up(
            f"fANOVA of {len(rows):,} trials takes too long; it is for {MAX_FANOVA_TRIALS} at "
            "most. Use 'ped_anova' or 'mdi'."
        )
    values = [float(metrics[row] or 0.0) for row in rows]
    if min(values) == max(values):
        return give_up(f"All {len(rows)} trials have the same value.")
    chosen = {name: [column[row] for row in rows] for name, column in hparams.items()}
    varied = {name: column for name, column in chosen.items() if _is_varied(column)}
    if not varied:
        return give_up(f"No hyperparameter has different values in the {len(rows)} trials.")
    signed = values if smaller_is_better else [-value for value in values]
    shares = _measure_all(varied, signed, space, evaluator)
    total = sum(shares.values())
    if not total:
        return give_up(f"The {len(rows)} trials show no influence of any hyperparameter.")
    ranked = sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))
    found = tuple((name, share / total) for name, share in ranked)
    return importance.Importances(evaluator, len(rows), found)


def _is_varied(column: Sequence[Any]) -> bool:
    return len({_to_key(value) for value in column if value is not None}) > 1


def _choose(evaluator: importance.Evaluator, num_trials: int) -> importance.Evaluator:
    """Returns the evaluator to use.

    Raises:
        ConfigError: If it can't be used.
    """
    has_forests = importlib.util.find_spec("sklearn") is not None
    if evaluator is importance.Evaluator.AUTO:
        is_fast = has_forests and num_trials <= _AUTO_FANOVA_TRIALS
        return importance.Evaluator.FANOVA if is_fast else importance.Evaluator.PED_ANOVA
    if not has_forests and evaluator is not importance.Evaluator.PED_ANOVA:
        raise errors.ConfigError(
            f"evaluator: got {evaluator.value!r}, which needs scikit-learn, and that is not "
            "installed; `pip install scikit-learn`, or use 'ped_anova'."
        )
    return evaluator


def _measure_all(
    columns: Mapping[str, Sequence[Any]],
    values: Sequence[float],
    space: space_lib.Space,
    evaluator: importance.Evaluator,
) -> dict[str, float]:
    """Returns shares of all hyperparameters, those that only some trials have included."""
    names_by_rows: dict[tuple[int, ...], list[str]] = {}
    everywhere = tuple(range(len(values)))
    for name, column in columns.items():
        rows = tuple(row for row in everywhere if column[row] is not None)
        names_by_rows.setdefault(rows, []).append(name)
    shared = names_by_rows.pop(everywhere, [])
    ranges = {dimension.name: dimension.hyperparameter for dimension in space.dimensions}

    def measure(names: Sequence[str], rows: Sequence[int]) -> dict[str, float]:
        picked = {name: [columns[name][row] for row in rows] for name in names}
        return _measure(picked, [values[row] for row in rows], ranges, evaluator)

    shares = measure(shared, everywhere) if shared else {}
    for rows, names in names_by_rows.items():
        found = measure([*shared, *names], rows) if len(rows) >= MIN_TRIALS else {}
        for name in names:
            shares[name] = found.get(name, 0.0) * len(rows) / len(values)
    return shares


def _measure(
    columns: Mapping[str, Sequence[Any]],
    values: Sequence[float],
    ranges: Mapping[str, hyperparameters.Hyperparameter],
    evaluator: importance.Evaluator,
) -> dict[str, float]:
    """Returns shares that add up to 1; all trials have all hyperparameters."""
    import optuna  # noqa: PLC0415 - takes a second, which other requests need not pay

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    encoded, distributions = {}, {}
    for name, column in columns.items():
        if _is_varied(column):
            encoded[name], distributions[name] = _encode(optuna, column, ranges.get(name))
    if not encoded or min(values) == max(values):
        return {}
    study = optuna.create_study(direction="minimize")
    study.add_trials(
        [
            optuna.trial.create_trial(
                params={name: column[row] for name, column in encoded.items()},
                distributions=distributions,
                value=value,
            )
            for row, value in enumerate(values)
        ]
    )
    match evaluator:
        case importance.Evaluator.FANOVA:
            measure: Any = optuna.importance.FanovaImportanceEvaluator(seed=_SEED)
        case importance.Evaluator.MDI:
            measure = optuna.importance.MeanDecreaseImpurityImportanceEvaluator(seed=_SEED)
        case _:
            measure = optuna.importance.PedAnovaImportanceEvaluator()
    found = measure.evaluate(study)
    total = sum(found.values())
    return {name: float(share / total) for name, share in found.items()} if total else {}


def _encode(
    optuna: Any, column: Sequence[Any], kind: hyperparameters.Hyperparameter | None
) -> tuple[list[Any], Any]:
    """Returns values as Optuna takes them, and their range."""
    distributions = optuna.distributions
    is_number = all(
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        for value in column
    )
    if isinstance(kind, hyperparameters.Categorical) or not is_number:
        keys = sorted({_to_key(value) for value in column})
        return [_to_key(value) for value in column], distributions.CategoricalDistribution(keys)
    low, high = min(column), max(column)
    if isinstance(kind, hyperparameters.Int | hyperparameters.Double):
        # What was perturbed, or comes from another config, may be outside.
        low, high = min(low, kind.minval), max(high, kind.maxval)
    if all(isinstance(value, int) for value in (*column, low, high)):
        return list(column), distributions.IntDistribution(low, high)
    numbers = [float(value) for value in column]
    if isinstance(kind, hyperparameters.Log) and low > 0:
        # Not left to Optuna, whose forests don't take the logarithm.
        numbers = [math.log(value, kind.base) for value in numbers]
        low, high = min(kind.minval, *numbers), max(kind.maxval, *numbers)
    return numbers, distributions.FloatDistribution(float(low), float(high))


def _to_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
