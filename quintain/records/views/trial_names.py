"""Names of trials' values in expressions, orders and lists of columns.

Every value has one full name:
    - columns: `id`, `state`, `total_batches`, ...;
    - hyperparameters: `hparams.` and the dotted path;
    - metrics: group, name and statistic, such as `validation/accuracy.best`.
"""

from collections.abc import Collection
from typing import Final

from quintain import errors

HPARAMS: Final = "hparams."
"""What the full names of hyperparameters begin with."""

STATISTICS: Final = ("best", "last", "min", "max")
"""What is known of a metric; the first one is meant where none is named."""

_ALIASES: Final = {"best": "best_metric", "latest": "latest_metric", "batches": "total_batches"}
"""Headings of tables, and the columns that they are of."""

_FORMS: Final = (
    "{}",
    "hparams.{}",
    "{}.best",
    "validation/{}.best",
    "validation/{}",
    "training/{}.best",
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
    return full if full or _ALIASES.get(name) not in known else _ALIASES[name]


def shorten(full: str) -> str:
    """Returns the shortest usual form of a full name.

    Example:
        >>> shorten("hparams.lr"), shorten("validation/loss.best"), shorten("training/loss.min")
        ('lr', 'loss', 'training/loss.min')
    """
    return full.removeprefix(HPARAMS).removeprefix("validation/").removesuffix(".best")


def describe_unknown(name: str, known: Collection[str]) -> str:
    """Returns the message about a name that `find` does not find."""
    names = sorted({shorten(full) for full in known})
    near = errors.suggest(name, names).strip()
    hint = "" if near else f" There are: {errors.enumerate_some(names)}."
    return (
        f"got {errors.show(name)}, expected a hyperparameter, metric or column."
        f"{hint}{near and ' ' + near}"
    )
