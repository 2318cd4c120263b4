import sqlite3

import alembic.autogenerate
import alembic.migration
import pytest
import sqlalchemy as sa

from quintain import errors
from quintain import store as stores
from quintain.store import schema
from quintain.testing import store_suite


class TestSqlite(store_suite.StoreSuite):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/home/quintain.db"


def test_migrations_make_the_tables_of_the_schema(tmp_path):
    stores.open_store(tmp_path / "quintain.db").close()
    engine = sa.create_engine(f"sqlite:///{tmp_path}/quintain.db")
    with engine.connect() as connection:
        context = alembic.migration.MigrationContext.configure(connection)
        assert alembic.autogenerate.compare_metadata(context, schema.METADATA) == []
    engine.dispose()


def test_a_database_of_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "quintain.db"
    stores.open_store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(errors.StoreError, match="newer version of this package"):
        stores.open_store(path)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "quintain.db"
    path.write_text("some notes " * 100)
    with pytest.raises(errors.StoreError, match="no database of this package"):
        stores.open_store(path)


def test_another_program_that_writes_for_long_is_an_error_that_says_so(tmp_path):
    path = tmp_path / "quintain.db"
    store = stores.open_store(path, busy_secs=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with (
        pytest.raises(errors.StoreError, match="another program is writing") as raised,
        store.transaction(),
    ):
        pass
    assert str(path) in str(raised.value)
    with store.reading() as session:
        assert session.list_experiments() == []
    other.execute("COMMIT")
    other.close()
    with store.transaction() as session:
        session.add_experiment(store_suite.new_experiment())
    store.close()


def test_a_full_disk_is_an_error_and_nothing_is_half_written(tmp_path):
    path = tmp_path / "quintain.db"
    store = stores.open_store(path)
    with store.transaction() as session:
        first = session.add_experiment(store_suite.new_experiment())

    def fill(limit):
        with store.transaction() as session:
            session._connection.exec_driver_sql(f"PRAGMA max_page_count = {limit}")
            session.add_event(first.id, {"kind": "kept?"})
            session.add_experiment(store_suite.new_experiment(original_config="x" * 10**6))

    with pytest.raises(errors.StoreError, match="disk is full"):
        fill(1)
    with store.reading() as session:
        assert session.list_experiments() == [first]
        assert session.list_events(first.id) == []
    fill(10**6)
    store.close()
