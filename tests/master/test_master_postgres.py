"""Searches whose database is a server that goes away and comes back."""

import contextlib
import random
import threading

import pytest

from quintain import errors
from quintain.store import store as store_lib

SEARCH = {
    "name": "random",
    "max_length": 6,
    "max_trials": 30,
    "max_concurrent_trials": 8,
    "replicate": "none",
}


@pytest.fixture
def store(postgres_url):
    with contextlib.closing(store_lib.open_store(postgres_url)) as opened:
        yield opened


def create(master, config_text):
    fields = {"min_validation_period": {"batches": 2}, "checkpoint_policy": "all"}
    return master.commands.create_experiment(config_text(SEARCH, **fields), None).id


@pytest.fixture
def make_patient(make_workers, monkeypatch):
    """Makes workers that ask again, as processes do, when the master can't store their answers."""

    def make(master):
        workers = make_workers(master)
        step = workers.step

        def try_step(launch_id):
            try:
                return step(launch_id)
            except errors.StoreError as error:
                workers.refusals.append(str(error))
                return None

        workers.refusals = []
        workers.step = try_step
        return workers

    return make


@pytest.mark.slow
def test_a_server_that_is_killed_in_a_search_costs_and_doubles_nothing(
    make_master, make_patient, config_text, describe, postgres_server, store
):
    losses, told, killed = [], [], []
    store.hold(losses.append)
    master = make_master(num_slots=8)
    undisturbed = create(master, config_text)
    make_patient(master).run()
    disturbed = create(master, config_text)
    workers = make_patient(master)
    source, answer = random.Random(7), workers.answer

    def answer_and_kill(launch_id, work):
        if not killed and len(told) < 6 and source.random() < 0.2:
            # Before the answer is written, or some time later, in whatever is written then.
            delay = source.choice([0.0, source.uniform(0.0, 0.05)])
            killed.append(threading.Timer(delay, postgres_server.kill))
            killed[0].start()
            if not delay:
                killed[0].join()
        return answer(launch_id, work)

    workers.answer = answer_and_kill
    while len(told) < 6:
        workers.run_round()
        if killed:
            killed[0].join()
            for _ in range(source.randrange(4)):
                workers.run_round()
            told.append(master.status().problem)
            postgres_server.start()
            killed.clear()
    workers.run()

    expected, shown = describe(undisturbed), describe(disturbed)
    for each in shown["trials"]:
        each["parent"] = each["parent"] and each["parent"] - 30
    assert len(expected["trials"]) == 30
    assert shown == expected
    assert losses == []
    assert workers.refusals
    assert any("the server is not there" in text for text in told)
    with store.reading() as session:
        assert [each.id for each in session.list_trials()] == list(range(1, 61))


def test_a_database_has_one_master(postgres_url, postgres_server, store):
    losses = []
    store.hold(losses.append)
    with contextlib.closing(store_lib.open_store(postgres_url, busy_secs=0.0)) as other:
        with pytest.raises(errors.StoreError, match=r"a master already uses.*process \d+ on"):
            other.hold(losses.append)
        # Its connection drops, and it is the only one who wants the database.
        postgres_server.run(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        )
        with store.transaction() as session:
            session.set_home_id("mine")
        assert losses == []
        with pytest.raises(errors.StoreError, match="a master already uses"):
            other.hold(losses.append)


def test_a_master_whose_place_was_taken_writes_nothing_any_more(
    postgres_url, postgres_server, store
):
    losses = []
    store.hold(losses.append)
    with store.transaction() as session:
        session.set_home_id("mine")
    with contextlib.closing(store_lib.open_store(postgres_url)) as other:
        # What a network that is cut does: the server gives up the first one's connection.
        name = postgres_url.rpartition("/")[2]
        postgres_server.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        postgres_server.run(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        with pytest.raises(errors.StoreError), store.transaction():
            pass
        postgres_server.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        other.hold(losses.append)
        while not losses:
            with pytest.raises(errors.StoreError), store.transaction() as session:
                session.set_home_id("not mine")
        assert len(losses) == 1
        with other.reading() as session:
            assert session.get_home_id() == "mine"
    with pytest.raises(errors.StoreError, match="a master already uses"), store.transaction():
        pass


def test_a_master_that_comes_after_another_one_ends(postgres_url, postgres_server, store):
    losses = []
    store.hold(losses.append)
    name = postgres_url.rpartition("/")[2]
    postgres_server.run("DELETE FROM holder; INSERT INTO holder VALUES ('another')", name)
    postgres_server.run(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    )
    lost = pytest.raises(errors.StoreError, match="another master had the database")
    with lost, store.transaction():
        pass
    assert len(losses) == 1


def test_masters_of_one_schema_each_may_share_a_database(postgres_server):
    with postgres_server.database() as url, contextlib.ExitStack() as opened:
        for schema in ("first", "second"):
            postgres_server.run(f"CREATE SCHEMA {schema}", url.rpartition("/")[2])
            one = store_lib.open_store(f"{url}?options=-csearch_path%3D{schema}")
            opened.callback(one.close)
            one.hold(pytest.fail)
            with one.reading() as session:
                assert session.get_home_id() is None
            with one.transaction() as session:
                session.set_home_id(schema)
