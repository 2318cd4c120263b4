"""Brings the schema of a database up to date, step by step."""

import pathlib
from typing import Final

import sqlalchemy as sa

from quintain import errors
from quintain.store import columns

_MIGRATIONS: Final = pathlib.Path(__file__).parent / "migrations"


def read_revision(connection: sa.Connection) -> str | None:
    """Returns the revision of the database's schema, or None if it has none yet."""
    table = sa.table("alembic_version", sa.column("version_num"))
    if not sa.inspect(connection).has_table(table.name):
        return None
    found = connection.scalar(sa.select(table.c.version_num))
    return None if found is None else str(found)


def check_known(current: str | None, place: str) -> None:
    """Refuses a database that this version does not know.

    Raises:
        StoreError: If a newer version made it.
    """
    # They take as long as everything else that shows an experiment, and are hardly ever needed.
    import alembic.script  # noqa: PLC0415

    script = alembic.script.ScriptDirectory(str(_MIGRATIONS))
    known = {revision.revision for revision in script.walk_revisions()}
    if current is not None and current not in known:
        raise errors.StoreError(
            f"{place}: a newer version of this package made this database (its schema is "
            f"{current}, the newest known one {columns.REVISION}). Upgrade the package, or use "
            "another database or home directory."
        )


def upgrade(connection: sa.Connection) -> None:
    """Makes or changes the tables, in the transaction of a connection."""
    import alembic.command  # noqa: PLC0415
    import alembic.config  # noqa: PLC0415

    config = alembic.config.Config()
    # `%` has a meaning in such a file.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    alembic.command.upgrade(config, columns.REVISION)
