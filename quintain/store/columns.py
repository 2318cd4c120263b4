"""Conversion between records and columns: one column for each field, of the same name.

Numbers, texts and bytes are kept as they are, members of enumerations as their texts, and all else
as compact JSON. What no database takes as text is replaced; see `to_text`. This needs no library of
databases, so that what only reads need not import one.
"""

import dataclasses
import enum
import functools
import json
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from quintain.records.rows import codec

TABLES: Final[dict[str, str]] = {
    "Experiment": "experiments",
    "TrialRecord": "trials",
    "MetricRow": "metrics",
    "Curve": "curves",
    "Checkpoint": "checkpoints",
    "LogRow": "logs",
    "Launch": "runs",
    "Span": "spans",
    "Change": "changes",
    "Deletion": "deletions",
    "SentMetrics": "sent_metrics",
    "KnownNode": "nodes",
    "ModelVersion": "model_versions",
    "AliasMove": "model_aliases",
    "AuditEntry": "audit",
    "Grant": "grants",
}
"""The table of each kind of record, by its name: most commands read few kinds."""

_HELD: Final = "FROM spans WHERE spans.trial_id = trials.id AND spans.end_time"
DERIVED: Final[dict[str, dict[str, str]]] = {
    "TrialRecord": {
        "held_secs": f"(SELECT COALESCE(SUM(end_time - start_time), 0.0) {_HELD} IS NOT NULL)",
        "held_since": f"(SELECT MIN(start_time) {_HELD} IS NULL)",
    }
}
"""Last fields of records that have no column: what is read in their place."""

REVISION: Final = "0010"
"""The newest of the migrations, which makes the tables."""

_ENCODER: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"), ensure_ascii=False)
_PLAIN: Final = frozenset({int, str, bytes})
_KEPT: Final = frozenset({int, float, bytes, bool, type(None)})
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

R = TypeVar("R")


def to_json(value: Any) -> str:
    """Returns a value as compact JSON; numbers that are not finite become texts."""
    try:
        return to_text(_ENCODER.encode(value))
    except (TypeError, ValueError):
        return to_text(_ENCODER.encode(codec.to_plain(value)))


def to_text(text: str) -> str:
    r"""Returns a text that every database takes.

    PostgreSQL takes no NUL, and UTF-8 has no lone half of a surrogate pair, which JSON and names of
    files can bring. U+FFFD stands for them; two halves that fit become their character.

    Example:
        >>> ascii(to_text("a\0b\ud83d"))
        "'a\\ufffdb\\ufffd'"
    """
    if "\0" in text:
        text = text.replace("\0", _REPLACEMENT)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def to_row(record: Any) -> dict[str, Any]:
    """Returns the columns of a record; an `id` of 0 is left to the database."""
    row = {name: to_column(getattr(record, name)) for name in list_names(type(record))}
    if not row.get("id", 1):
        del row["id"]
    return row


def to_column(value: Any) -> Any:
    """Returns what a column holds of the value of a field."""
    kind = type(value)
    if kind in _KEPT:
        return value
    if kind is str:
        return to_text(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str):
        return to_text(value)
    if isinstance(value, int | float | bytes):
        return value
    return to_json(value)


def to_record(kind: Callable[..., R], row: Sequence[Any]) -> R:
    """Returns the record of its fields in their order, as the database has them.

    Raises:
        ValueError: If what a column holds is damaged; so are other errors of values.
    """
    values = list(row)
    for index, read in _find_readers(kind):
        if values[index] is not None:
            values[index] = read(values[index])
    return kind(*values)


def list_names(kind: Any) -> tuple[str, ...]:
    """Returns the names of the columns of a kind of record."""
    return _list_fields(kind)


@functools.cache
def _list_fields(kind: Any) -> tuple[str, ...]:
    derived = DERIVED.get(kind.__name__, {})
    return tuple(field.name for field in dataclasses.fields(kind) if field.name not in derived)


def select(kind: Any, names: Iterable[str], instead: Mapping[str, str] | None = None) -> str:
    """Returns the columns of a query for fields of records; `instead` has others for some."""
    # `group` is a word of SQL.
    others = {**DERIVED.get(kind.__name__, {}), **(instead or {})}
    return ", ".join(others.get(name, f'"{name}"') for name in names)


@functools.cache
def _find_readers(kind: Any) -> list[tuple[int, Callable[[Any], Any]]]:
    """Returns what makes the values of those columns that are not kept as they are."""
    hints = typing.get_type_hints(kind)
    readers = [(index, _find_reader(hints[name])) for index, name in enumerate(list_names(kind))]
    return [(index, read) for index, read in readers if read is not None]


def _find_reader(hint: Any) -> Callable[[Any], Any] | None:
    options = {option for option in typing.get_args(hint) if option is not type(None)}
    single = options.pop() if type(None) in typing.get_args(hint) else hint
    if single in _PLAIN:
        return None
    if single in (bool, float) or (isinstance(single, type) and issubclass(single, enum.Enum)):
        # SQLite knows no truth, and takes not-a-number for NULL, so that it is kept as a text.
        reader: Callable[[Any], Any] = single
        return reader
    return functools.partial(_read_json, single)


def _read_json(kind: Any, text: str) -> Any:
    plain = json.loads(text)
    if plain is None:
        raise ValueError("there is no value in its text")
    return codec.from_plain(kind, plain)
