"""Table of all trials of an experiment: selection, order and export of its rows."""

import dataclasses
import io
import itertools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from quintain import errors
from quintain.config import provenance
from quintain.files import csv_files
from quintain.records.rows import codec, trial
from quintain.records.views import trial_filter, trial_names

COLUMNS: Final = (
    "id",
    "request_id",
    "state",
    "total_batches",
    "progress",
    "restarts",
    "seed",
    "parent_trial_id",
    "best_metric",
    "latest_metric",
    "start_time",
    "end_time",
    "reason",
    "note",
    "latest_checkpoint",
    "held_secs",
    "held_since",
)
"""Columns of a trial in the store, besides its hyperparameters."""

DURATION: Final = "duration"
"""A column that stands for the last two: seconds for which it held slots, until now."""

_NUM_TEXTS: Final = 1000


T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Selection:
    """Selection of an experiment's trials: expression, order and range."""

    where: str = ""
    """An expression that chooses them; see `trial_filter`. Empty for all."""

    sort: str = ""
    """Names, divided by commas, to order them by; those after a `-` sort backwards."""

    limit: int | None = None
    """Most trials."""

    offset: int = 0
    """How many are left out first."""

    def cut(self, rows: Sequence[T]) -> Sequence[T]:
        """Returns what is left of rows after `offset` and `limit`."""
        end = None if self.limit is None else self.offset + self.limit
        return rows[self.offset : end]


@dataclasses.dataclass(frozen=True)
class MetricColumns:
    """One metric of all trials."""

    best_is: str
    """Which of the columns is the best value: `min`, `max`, or empty if that is not known."""

    last: Sequence[Any]
    """Newest values; None where a trial has none."""

    min: Sequence[Any]
    max: Sequence[Any]


@dataclasses.dataclass(frozen=True)
class TrialTable:
    """All trials of an experiment, in the order of their ids."""

    cursor: str
    """The change up to which this is true, as the page's feed names it; empty without a master."""

    num_trials: int
    """Length of all columns."""

    columns: dict[str, list[Any]]
    """The columns of `COLUMNS`."""

    hparams: dict[str, list[Any]]
    """Hyperparameters by dotted name; None where a trial has none."""

    metrics: dict[str, MetricColumns]
    """Metrics by group and name, such as `validation/accuracy`."""

    def name_all(self) -> dict[str, Sequence[Any]]:
        """Returns all columns by their full names; see `trial_names`."""
        named: dict[str, Sequence[Any]] = dict(self.columns)
        now = time.time()
        held = zip(named.pop("held_secs"), named.pop("held_since"), strict=True)
        named[DURATION] = [trial.find_duration(secs, since, now) for secs, since in held]
        named |= {f"{trial_names.HPARAMS}{name}": values for name, values in self.hparams.items()}
        for name, found in self.metrics.items():
            for statistic in trial_names.STATISTICS:
                if chosen := found.best_is if statistic == "best" else statistic:
                    named[f"{name}.{statistic}"] = getattr(found, chosen)
        return named

    def select(self, where: str = "", sort: str = "") -> list[int]:
        """Returns the numbers of the rows that an expression chooses, in order.

        Args:
            where: An expression; see `trial_filter`. Empty for all.
            sort: Names, divided by commas; those after a `-` sort backwards. Texts come after
                numbers, then what is not a number, then what is missing, also backwards.

        Raises:
            ConfigError: If there is a mistake in it.
        """
        named = self.name_all()
        chosen = trial_filter.parse(where, named).test(named, self.num_trials)
        rows = [row for row, is_chosen in enumerate(chosen) if is_chosen]
        for name in reversed([part.strip() for part in sort.split(",") if part.strip()]):
            full = find(name.removeprefix("-"), named, "sort")
            rows = _sort(rows, named[full], is_reversed=name.startswith("-"))
        return rows

    def list_names(self) -> list[str]:
        """Returns the full names of columns that files have: all but `min` and `max`."""
        left_out = {f"{name}.{statistic}" for name in self.metrics for statistic in ("min", "max")}
        return [name for name in self.name_all() if name not in left_out]

    def write_csv(self, rows: Iterable[int]) -> str:
        """Returns rows as CSV: the columns, all hyperparameters, last and best of all metrics."""
        named, names = self.name_all(), self.list_names()
        file = io.StringIO()
        columns = [named[name] for name in names]
        csv_files.write(file, names, ([column[row] for column in columns] for row in rows))
        return file.getvalue()


def find(name: str, known: Iterable[str], where: str) -> str:
    """Returns the full name that a user's name stands for.

    Args:
        name: The name; it may stand in backquotes.
        known: The full names.
        where: The option, for the message.

    Raises:
        ConfigError: If there is none.
    """
    names = known if isinstance(known, Mapping) else set(known)
    bare = name.removeprefix("`").removesuffix("`")
    full = trial_names.find(bare, names)
    if full is None:
        raise errors.ConfigError(f"{where}: {trial_names.describe_unknown(bare, names)}")
    return full


def find_best_statistic(name: str, searcher: Mapping[str, Any]) -> str:
    """Returns whether the smallest or the largest value of a metric is the best.

    Args:
        name: The metric, with or without its group.
        searcher: The section of this name of the experiment's config.

    Returns:
        `min` or `max`; empty if nobody has said it.
    """
    bare = name.rpartition("/")[2]
    unprefixed = bare.removeprefix("val_")  # As Keras calls what validations measure.
    for objective in (searcher, *searcher.get("further_objectives", ())):
        if bare == objective.get("metric"):
            return "min" if objective.get("smaller_is_better", True) else "max"
    declared: Mapping[str, str] = {"loss": "min", **(searcher.get("directions") or {})}
    return declared.get(bare, declared.get(unprefixed, ""))


def to_hparam_columns(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Returns the hyperparameters of trials by dotted name.

    Args:
        texts: Those of each trial, as JSON.

    Example:
        >>> to_hparam_columns(['{"a": {"b": 1}, "c": 2}', '{"c": 3}'])
        {'a.b': [1, None], 'c': [2, 3]}
    """
    import pydantic_core  # noqa: PLC0415 - commands that show no table need not wait for it

    columns: dict[str, list[Any]] = {}
    # Some at a time, so that few mappings live at once: the garbage collector looks at all of them.
    for start in range(0, len(texts), _NUM_TEXTS):
        rows = pydantic_core.from_json(f"[{','.join(texts[start : start + _NUM_TEXTS])}]")
        if any(type(value) is dict for row in rows for value in row.values()):
            leaves = [provenance.flatten(row) for row in rows]
            rows = [{name: part for name, part in row.items() if part != {}} for row in leaves]
        for name in dict.fromkeys(itertools.chain.from_iterable(rows)):
            columns.setdefault(name, [None] * start)
        for name, column in columns.items():
            column += [row.get(name) for row in rows]
    return columns


def _sort(rows: Sequence[int], values: Sequence[Any], *, is_reversed: bool) -> list[int]:
    keys: dict[int, tuple[int, Any]] = {row: _to_key(values[row]) for row in rows}
    ordered: list[int] = []
    for kind in range(4):
        part = [row for row in rows if keys[row][0] == kind]
        get: Callable[[int], Any] = lambda row: keys[row][1]  # noqa: E731
        ordered += sorted(part, key=get, reverse=is_reversed)
    return ordered


def _to_key(value: Any) -> tuple[int, Any]:
    """Returns what kind of value it is, in the order of kinds, and what orders it among those."""
    if value is None:
        return 3, 0
    if isinstance(value, str):
        value = codec.NOT_FINITE.get(value, value)
    if isinstance(value, int | float):
        return (2, 0) if value != value else (0, value)
    return 1, value.lower() if isinstance(value, str) else json.dumps(value)
