"""Names of trials' values in expressions, orders and lists of columns.

Every value has one full name:
    - columns: `id`, `state`, `total_batches`, ...;
    - hyperparameters: `hparams.` and the dotted path; an end that no other path has is enough;
    - metrics: group, name and statistic, such as `validation/accuracy.best`.
"""

import collections
import itertools
from collections.abc import Collection, Iterable
from typing import Final

from quintain import errors

HPARAMS: Final = "hparams."
"""Prefix of the full names of hyperparameters."""

STATISTICS: Final = ("best", "last", "min", "max")
"""Aggregations of a metric, by preference: a bare name means the first that there is."""

_ALIASES: Final = {"best": "best_metric", "latest": "latest_metric", "batches": "total_batches"}
"""Headings of tables, and the columns that they are of."""

_FORMS: Final = (
    "{}",
    "hparams.{}",
    "{}.best",
    "{}.last",
    "validation/{}.best",
    "validation/{}.last",
    "validation/{}",
    "training/{}.best",
    "training/{}.last",
    "training/{}",
)
"""What a name may stand for; the first that there is counts."""


def find(name: str, known: Collection[str]) -> str | None:
    """Returns the full name that a name stands for, or None if there is none.

    Example:
        >>> find("accuracy", ["hparams.lr", "validation/accuracy.best"])
        'validation/accuracy.best'
    """
    full = next((one for form in _FORMS if (one := form.format(name)) in known), None)
    if full or _ALIASES.get(name) in known:
        return full or _ALIASES[name]
    ends = [one for one in known if one.startswith(HPARAMS) and one.endswith(f".{name}")]
    return ends[0] if len(ends) == 1 else None


def shorten(full: str) -> str:
    """Returns the shortest usual form of a full name.

    Example:
        >>> shorten("hparams.lr"), shorten("validation/loss.best"), shorten("training/loss.min")
        ('lr', 'loss', 'training/loss.min')
    """
    return full.removeprefix(HPARAMS).removeprefix("validation/").removesuffix(".best")


def shorten_paths(paths: Iterable[str], taken: Collection[str] = ()) -> dict[str, str]:
    """Returns for each dotted path its shortest end that is no end of another one, and not taken.

    Example:
        >>> shorten_paths(["task.model.units", "task.rate", "trainer.rate"])
        {'task.model.units': 'units', 'task.rate': 'task.rate', 'trainer.rate': 'trainer.rate'}
    """
    ends = {
        path: list(
            itertools.accumulate(reversed(path.split(".")), lambda end, part: f"{part}.{end}")
        )
        for path in paths
    }
    counts = collections.Counter(itertools.chain.from_iterable(ends.values()))
    return {
        path: next((end for end in ends[path] if counts[end] == 1 and end not in taken), path)
        for path in ends
    }


def describe_unknown(name: str, known: Collection[str]) -> str:
    """Returns the message about a name that `find` does not find."""
    names = sorted({shorten(full) for full in known})
    near = errors.suggest(name, names).strip()
    hint = "" if near else f" There are: {errors.enumerate_some(names)}."
    return (
        f"got {errors.show(name)}, expected a hyperparameter, metric or column."
        f"{hint}{near and ' ' + near}"
    )
