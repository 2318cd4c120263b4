import contextlib
import sqlite3
import subprocess
import sys
import threading

import pytest

from quintain import errors
from quintain import store as stores
from quintain.records.rows import curve, launch
from quintain.store import schema
from quintain.store import store as store_lib
from quintain.store.sqlite import sqlite_backend, sqlite_waits
from quintain.testing import store_case, store_suite


class TestSqlite(store_suite.StoreSuite):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/home/quintain.db"


def test_migrations_make_the_tables_of_the_schema(tmp_path):
    stores.open_store(tmp_path / "quintain.db").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "quintain.db")) as connection:
        tables = dict(
            connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        )
        assert tables.keys() - {"alembic_version", "sqlite_sequence"} == schema.list_tables().keys()
        for name, table in schema.list_tables().items():
            found = connection.execute(
                f"SELECT name, pk FROM pragma_table_info('{name}')"
            ).fetchall()
            assert {column for column, _ in found} == table.columns.keys()
            assert {column for column, key in found if key} == set(table.keys)
            assert table.is_autoincrement == ("AUTOINCREMENT" in tables[name])


def test_a_database_of_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "quintain.db"
    stores.open_store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(errors.StoreError, match="newer version of this package"):
        stores.open_store(path)


def make_older(path):
    """Takes back what the newest migration made, as a version before it left the database."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "DROP TABLE spans; DROP TABLE curves; DROP TABLE changes;"
            "ALTER TABLE trials DROP COLUMN note; DROP TABLE sent_metrics; DROP TABLE nodes;"
            "ALTER TABLE runs DROP COLUMN node; ALTER TABLE runs DROP COLUMN others;"
            "DROP TABLE last_ids; DROP TABLE holder;"
            "DROP TABLE model_aliases; DROP TABLE model_versions;"
            "DROP TABLE audit; DROP TABLE grants;"
            "DROP INDEX ix_trials_experiment_id_state_id_best_metric;"
            "UPDATE alembic_version SET version_num = '0002'"
        )


def test_a_database_from_before_there_were_curves_gets_those_of_its_metrics(tmp_path, caplog):
    path = tmp_path / "quintain.db"
    store = stores.open_store(path)
    with store.transaction() as session:
        owner = session.add_experiment(store_case.new_experiment()).id
        trials = [session.add_trial(store_case.new_trial(owner)).id for _ in range(3)]
        session.add_metrics(store_case.new_rows(trials[0], range(1, 300)))
        session.add_metrics(store_case.new_rows(trials[1], [1, 2, 3], loss="NaN"))
        session.save_launch(
            launch.Launch("x", trials[0], owner, (1,), launch.LaunchState.RUNNING, None, 1.0)
        )
        expected = session.list_curves(owner)
    store.close()
    make_older(path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE metrics SET metrics = '{' WHERE id = 301")
        connection.execute("UPDATE metrics SET trial_id = ? WHERE id = 302", [trials[2]])
        connection.execute("UPDATE metrics SET metrics = CAST(x'ff' AS TEXT) WHERE id = 302")

    with store_lib.open_to_read(path).reading() as reader:
        found = reader.list_curves(owner)
        assert found[0] == expected[0]
        assert (found[1].num_points, curve.unpack(found[1].points)[0]) == (1, [1])
        assert len(found) == 2
        assert reader.list_spans() == [launch.Span("x", trials[0], owner, (1,), 1.0)]
        assert reader.get_change_bounds() == (0, 0)
    assert f"Metrics of trial {trials[1]} are damaged" in caplog.text
    assert f"Metrics of trial {trials[2]} are damaged" in caplog.text


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
        session.add_experiment(store_case.new_experiment())
    store.close()


@pytest.mark.parametrize("name", ["a?b", "a%41", "a#b", "a b", "[1]", "ü", "x=%(here)s", "a://b"])
def test_every_path_is_that_of_the_file(tmp_path, name):
    path = tmp_path / name / "quintain.db"
    store = stores.open_store(path)
    with store.transaction() as session:
        session.set_home_id("this")
    store.close()
    assert sorted(tmp_path.rglob("*.db*")) == [path]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT home_id FROM home").fetchall() == [("this",)]


def lock(path):
    """Locks a database in another process; returns what ends it."""
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('BEGIN EXCLUSIVE'); print('locked', flush=True); sys.stdin.read(); c.rollback()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "locked\n"
    return process


@pytest.mark.slow
def test_who_waits_for_another_process_says_for_which_and_goes_on(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(sqlite_waits, "_SILENT_SECS", 0.0)
    path = tmp_path / "a ü [1]" / "quintain.db"
    store = stores.open_store(path)
    other = lock(path)
    told = []

    def write():
        with store.transaction() as session:
            session.set_home_id("kept")

    writing = threading.Thread(target=write)
    writing.start()
    while not caplog.text:
        told.append(store.describe_wait())
    told.append(store.describe_wait())
    with store.reading() as session:
        assert session.get_home_id() is None
    with other:
        other.stdin.close()
    writing.join()
    with store.reading() as session:
        assert session.get_home_id() == "kept"
    assert told[0] == "" or f"process {other.pid}" in told[0]
    assert f"{path}: the database is locked by process {other.pid}" in told[-1]
    assert told[-1].rpartition(";")[0] in caplog.text
    assert (store.describe_wait(), "free again" in caplog.text) == ("", True)
    store.close()


@pytest.mark.slow
def test_a_lock_that_lasts_is_an_error_that_names_its_process(tmp_path):
    path = tmp_path / "quintain.db"
    store = stores.open_store(path, busy_secs=0.05)
    with lock(path) as other:
        with (
            pytest.raises(errors.StoreError, match=rf"process {other.pid} \(\w+"),
            store.transaction(),
        ):
            pass
        other.stdin.close()
    store.close()


def test_a_damaged_database_comes_with_advice_that_loses_nothing(tmp_path):
    path = tmp_path / "quintain.db"
    path.write_text("some notes " * 100)
    with pytest.raises(errors.StoreError) as raised:
        stores.open_store(path)
    for part in (f"{path}-wal", "--new-database", "no checkpoint is deleted", "checkpoint orphans"):
        assert part in str(raised.value)


def test_a_full_disk_is_an_error_and_nothing_is_half_written(tmp_path):
    path = tmp_path / "quintain.db"
    store = stores.open_store(path)
    with store.transaction() as session:
        first = session.add_experiment(store_case.new_experiment())

    def fill(limit):
        with store.transaction() as session:
            session._run(f"PRAGMA max_page_count = {limit}")
            session.add_event(first.id, {"kind": "kept?"})
            session.add_experiment(store_case.new_experiment(original_config="x" * 10**6))

    with pytest.raises(errors.StoreError, match="disk is full"):
        fill(1)
    with store.reading() as session:
        assert session.list_experiments() == [first]
        assert session.list_events(first.id) == []
    fill(10**6)
    store.close()


class TestReadingTheFile(store_suite.StoreSuite):
    """All that is written can be read by what only reads as well."""

    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/quintain.db"

    @pytest.fixture
    def store(self, url, tmp_path):
        opened = stores.open_store(url)
        file = store_lib.open_to_read(tmp_path / "quintain.db")
        opened.reading = file.reading
        yield opened
        opened.close()


def test_a_database_that_is_not_there_is_read_as_an_empty_one_and_not_made(tmp_path):
    path = tmp_path / "home" / "quintain.db"
    with contextlib.closing(store_lib.open_to_read(path)) as store, store.reading() as reader:
        assert reader.list_experiments() == []
        assert reader.get_last_experiment_id() == 0

    assert list(tmp_path.iterdir()) == []


def test_a_damaged_database_is_explained_to_those_who_read(tmp_path):
    path = tmp_path / "quintain.db"
    path.write_bytes(b"no database" * 1000)

    with pytest.raises(errors.StoreError, match=r"not a database.*start without"):
        store_lib.open_to_read(path)


def test_a_number_too_large_to_look_for_is_refused_by_those_who_read(tmp_path):
    stores.open_store(tmp_path / "quintain.db").close()
    store = store_lib.open_to_read(tmp_path / "quintain.db")

    with pytest.raises(errors.ConfigError, match="more than 64 bits"), store.reading() as reader:
        reader.get_trial(2**64)


def test_a_database_on_a_read_only_disk_is_read_if_its_writer_has_ended(tmp_path, monkeypatch):
    path = tmp_path / "a home?#%41" / "quintain.db"
    store = stores.open_store(path)
    with store.transaction() as session:
        session.add_experiment(store_case.new_experiment())
    store.close()
    names = [each.name for each in path.parent.iterdir()]
    connected, connect = [], sqlite3.connect

    def refuse(where, **kwargs):
        # What a read-only disk does to SQLite, which root may write to otherwise.
        if "immutable=1" not in str(where):
            raise sqlite3.OperationalError("unable to open database file")
        connected.append(where)
        return connect(where, **kwargs)

    monkeypatch.setattr(sqlite_backend.os, "access", lambda *_: False)
    monkeypatch.setattr(sqlite_backend.sqlite3, "connect", refuse)
    with store_lib.open_to_read(path).reading() as reader:
        assert len(reader.list_experiments()) == 1
    assert connected
    assert [each.name for each in path.parent.iterdir()] == names
    # What a killed writer left holds newer changes, which must not be missed.
    path.with_name("quintain.db-wal").write_bytes(b"changes")
    with (
        pytest.raises(errors.StoreError, match="copy the home directory to another disk first"),
        store_lib.open_to_read(path).reading(),
    ):
        pass
