import contextlib
import math
import pathlib
import sys

import psycopg
import pytest

from quintain import errors
from quintain import store as stores
from quintain.records.rows import log, metric
from quintain.store import columns as columns_lib
from quintain.store import migrating, schema
from quintain.store.postgres import postgres_statements
from quintain.testing import store_case, store_suite


class TestPostgres(store_suite.StoreSuite):
    @pytest.fixture
    def url(self, postgres_url):
        return postgres_url


@pytest.fixture
def new_url(postgres_server):
    """Address of a database without tables."""
    with postgres_server.database() as url:
        yield url


def connect(url):
    return psycopg.connect(url.replace("+psycopg", ""))


def test_migrations_make_the_tables_of_the_schema(new_url):
    stores.open_store(new_url).close()
    with connect(new_url) as connection:
        found = connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'public' AND table_name != 'alembic_version'"
        ).fetchall()
    assert {(table, column) for table, column, _ in found} == {
        (name, column) for name, table in schema.list_tables().items() for column in table.columns
    }
    assert not {"integer", "character varying"} & {kind for *_, kind in found}


def test_rows_of_an_older_schema_stay_and_numbers_go_on(new_url, monkeypatch):
    with monkeypatch.context() as patch, connect(new_url) as connection:
        patch.setattr(columns_lib, "REVISION", "0005")
        runner = postgres_statements.PostgresRunner(connection)
        migrating.upgrade(runner, connection.execute, None, lambda _: None)
        columns = "state, config, original_config, model_dir, description, labels, progress, "
        columns += "start_time, is_archived, reason"
        values = "'ACTIVE', '{}', '', '', '', '[]', 0, 0, false, ''"
        for _ in range(3):
            connection.execute(f"INSERT INTO experiments ({columns}) VALUES ({values})")
        connection.execute("DELETE FROM experiments WHERE id = 3")

    with contextlib.closing(stores.open_store(new_url)) as store:
        with store.transaction() as session:
            assert session.add_experiment(store_case.new_experiment()).id == 4
        with store.reading() as session:
            assert [each.id for each in session.list_experiments()] == [1, 2, 4]


def test_a_database_of_a_newer_version_is_refused(new_url, postgres_server):
    stores.open_store(new_url).close()
    postgres_server.run("UPDATE alembic_version SET version_num = '9999'", new_url.split("/")[-1])

    with pytest.raises(errors.StoreError, match="newer version of this package"):
        stores.open_store(new_url)


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b", "\udcff", "\ud83d\ude00 ü"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_text_can_be_stored_and_looked_for(kind, text, tmp_path, request):
    database = (
        tmp_path / "quintain.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    )
    expected = text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass")
    expected = expected.decode("utf-16", "replace")
    with contextlib.closing(stores.open_store(database)) as store:
        with store.transaction() as session:
            record = store_case.new_experiment(
                labels=(text,), description=text, reason=text, config={text: [text]}
            )
            owner = session.add_experiment(record).id
            trial_id = session.add_trial(store_case.new_trial(owner, request_id=text)).id
            session.set_trial_note(trial_id, text)
            session.add_logs([log.LogRow(trial_id, 1.0, log.LogSource.STDOUT, text)])
            session.add_event(owner, {"kind": text})
            for total in (1, 2):
                session.add_metrics(store_case.new_rows(trial_id, [total], **{text: 1.0}))
        with store.reading() as session:
            found = session.get_experiment(owner)
            assert (found.description, found.reason) == (expected, expected)
            assert session.get_trial(trial_id).note == expected
            assert [row.text for row in session.list_logs(trial_id)] == [expected]
            assert len(session.list_logs(trial_id, log.LogFilter(contains=text))) == 1
            names = [(metric.MetricGroup.VALIDATION, text)]
            assert [each.num_points for each in session.list_curves(owner)] == [2]
            assert (
                session.list_curves(owner, names=names) == session.list_curves(owner)
                or "\0" in text
            )
            with pytest.raises(errors.NotFoundError):
                session.get_checkpoint(text)


def test_numbers_beyond_those_of_columns_are_refused_and_large_ones_kept(postgres_url):
    with contextlib.closing(stores.open_store(postgres_url)) as store:
        with store.reading() as session:
            with pytest.raises(errors.NotFoundError):
                session.get_trial(2**40)
            assert session.list_trials(ids=[2**70]) == []
        for number in (2**63, -(2**70)):
            with pytest.raises(errors.ConfigError, match="64 bits"), store.reading() as session:
                session.get_trial(number)
        with store.transaction() as session:
            owner = session.add_experiment(store_case.new_experiment(id=2**40)).id
            trial_id = session.add_trial(store_case.new_trial(owner, id=2**50)).id
            session.add_metrics(store_case.new_rows(trial_id, [2**60], loss=math.nan))
            assert session.list_curves(owner)[0].last_batches == 2**60


def test_what_one_trial_can_not_store_is_no_fault_of_the_database(postgres_url):
    with contextlib.closing(stores.open_store(postgres_url)) as store:
        with store.transaction() as session:
            owner = session.add_experiment(store_case.new_experiment()).id
            trial_id = session.add_trial(store_case.new_trial(owner)).id
        name = "".join(chr(0x4E00 + number) for number in range(9000))
        with (
            pytest.raises(errors.DataError, match="can't be stored"),
            store.transaction() as session,
        ):
            session.add_metrics(store_case.new_rows(trial_id, [1], **{name: 1.0}))
        with store.reading() as session:
            assert session.list_curves(owner) == []


def test_who_may_only_read_can_show_and_is_told_what_a_master_needs(postgres_server, new_url):
    stores.open_store(new_url).close()
    name = new_url.rpartition("/")[2]
    role = f"reader_{name[-8:]}"
    postgres_server.run(f"CREATE ROLE {role} LOGIN")
    postgres_server.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}", name)
    url = new_url.replace("postgres@", f"{role}@")

    with contextlib.closing(stores.open_store(url)) as store:
        with store.reading() as session:
            assert session.list_experiments() == []
        with pytest.raises(errors.StoreError, match=r"may not read and write the tables.*owner"):
            store.hold(pytest.fail)
        refused = pytest.raises(errors.StoreError, match=r"permission denied.*GRANT")
        with refused, store.transaction() as session:
            session.set_home_id("x")
    postgres_server.run(f"DROP OWNED BY {role}; DROP ROLE {role}", name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda url: url.rpartition("/")[0] + "/nobodys", "no such database.*createdb"),
        (lambda url: url.replace("postgres@", "nobody@"), "no such user.*createuser"),
        (lambda url: url.replace("postgres@", "postgres:wrong-secret@") + "?port=1", "not there"),
        (lambda url: url.replace("postgresql+psycopg", "mysql"), "begins with 'mysql://'"),
        (lambda url: "postgresql://me:wrong-secret@x@host/db", "%40"),
        (lambda url: "postgresql://me:wrong-secret?x@host/db", "%40"),
        (lambda url: url + "?nonsense=wrong-secret", "can't be understood"),
    ],
)
def test_an_address_that_leads_nowhere_says_so_without_its_password(postgres_url, change, message):
    with pytest.raises(errors.QuintainError, match=message) as raised:
        stores.open_store(change(postgres_url))
    assert "secret" not in str(raised.value)


def test_a_wrong_password_says_where_it_is_looked_for(postgres_server, new_url, monkeypatch):
    name = new_url.rpartition("/")[2]
    (path,) = postgres_server.run("SHOW hba_file")[0]
    rules = pathlib.Path(path)
    former = rules.read_text()
    rules.write_text(f"host {name} strict 127.0.0.1/32 scram-sha-256\n{former}")
    postgres_server.run("CREATE ROLE strict LOGIN PASSWORD 'right'; SELECT pg_reload_conf()")
    url = new_url.replace("postgres@", "strict:wr%6Fng-secret@")
    try:
        with pytest.raises(errors.StoreError, match=r"password is wrong.*PGPASSWORD") as raised:
            stores.open_store(url)
        assert "wrong-secret" not in str(raised.value)
        with pytest.raises(errors.StoreError, match=r"no password supplied.*PGPASSWORD"):
            stores.open_store(url.replace(":wr%6Fng-secret", ""))
        # What the first connection found opens the next ones, too.
        monkeypatch.setenv("PGPASSWORD", "right")
        postgres_server.run("GRANT ALL ON SCHEMA public TO strict", name)
        with contextlib.closing(
            stores.open_store(new_url.replace("postgres@", "strict@"))
        ) as store:
            monkeypatch.delenv("PGPASSWORD")
            with store.reading() as first, store.reading() as second:
                assert first.list_experiments() == second.list_experiments() == []
    finally:
        rules.write_text(former)
        postgres_server.run("SELECT pg_reload_conf()")
        postgres_server.run("DROP OWNED BY strict", name)
        postgres_server.run("DROP ROLE strict")


def test_a_database_that_does_not_take_all_characters_is_refused(postgres_server):
    options = "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    postgres_server.run(f"CREATE DATABASE narrow {options}")
    with pytest.raises(errors.StoreError, match="LATIN1, expected UTF8"):
        stores.open_store(postgres_server.build_url("narrow"))
    postgres_server.run("DROP DATABASE narrow WITH (FORCE)")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in [name for name in sys.modules if name.startswith("quintain.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("quintain.store.postgres.postgres_backend", raising=False)

    with pytest.raises(errors.ConfigError, match=r"pip install 'quintain\[postgresql\]'"):
        stores.open_store("postgresql+psycopg://me@host/db")


def test_writers_of_two_stores_follow_one_another(postgres_url):
    with contextlib.ExitStack() as opened:
        both = [stores.open_store(postgres_url, busy_secs=0.05) for _ in range(2)]
        for store in both:
            opened.callback(store.close)
        with both[0].transaction() as session:
            session.add_experiment(store_case.new_experiment())
            writing = pytest.raises(errors.StoreError, match=r"process \d+ on .* is writing")
            with writing, both[1].transaction():
                pass
        with both[1].transaction() as session:
            assert session.add_experiment(store_case.new_experiment()).id == 2


def test_a_connection_that_was_lost_while_nobody_read_is_made_anew(postgres_url, postgres_server):
    with contextlib.closing(stores.open_store(postgres_url)) as store:
        with store.reading() as first, store.reading() as second:
            assert first.list_experiments() == second.list_experiments() == []
        with store.transaction() as session:
            session.set_home_id("mine")
        postgres_server.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
        with store.reading() as session:
            assert session.get_home_id() == "mine"
        with store.transaction() as session:
            session.set_home_id("still mine")
