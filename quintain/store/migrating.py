"""Brings the schema of a database up to date by numbered files of SQL."""

import pathlib
from collections.abc import Callable
from typing import Any, Final

from quintain import errors
from quintain.store import columns, statements

TABLE: Final = "alembic_version"
"""Holds one row: the revision of the schema. Alembic wrote the first ones."""

_CURVES: Final = "0003"
"""The revision that has curves, which are computed from the metrics that are there."""

Rebuild = Callable[[statements.Runner], None]
"""Computes the curves of all trials."""


def check_known(current: str | None, place: str) -> None:
    """Refuses a database that this version does not know.

    Raises:
        StoreError: If a newer version made it.
    """
    if current is not None and current not in _list_revisions():
        raise errors.StoreError(
            f"{place}: a newer version of this package made this database (its schema is "
            f"{current}, the newest known one {columns.REVISION}). Upgrade the package, or use "
            "another database or home directory."
        )


def upgrade(
    runner: statements.Runner,
    execute: Callable[[str], Any],
    current: str | None,
    rebuild: Rebuild,
) -> None:
    """Makes or changes the tables, in the transaction of a connection.

    Args:
        runner: Runs statements in the transaction.
        execute: Runs one without values in it.
        current: The revision of the schema; None if it has none yet.
        rebuild: Computes the curves of trials.
    """
    kind = "sqlite" if runner.is_sqlite else "postgres"
    directory = pathlib.Path(__file__).parent / kind / "migrations"
    for revision in _list_revisions():
        if current is not None and revision <= current:
            continue
        text = (directory / f"{revision}.sql").read_text(encoding="utf-8")
        for statement in text.split(";\n"):
            if statement.strip():
                execute(statement)
        if revision == _CURVES:
            rebuild(runner)
    execute(f"DELETE FROM {TABLE}")
    execute(f"INSERT INTO {TABLE} (version_num) VALUES ('{columns.REVISION}')")


def _list_revisions() -> list[str]:
    return [f"{number:04}" for number in range(1, int(columns.REVISION) + 1)]
