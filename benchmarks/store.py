"""Times the store: rows of metrics a second, and one transaction a trial's event.

python benchmarks/store.py [ROWS] [--postgresql [URL]]

The peer is what the database itself does with the same rows in the same transactions, through its
driver: SQLite, and with `--postgresql` the server at an address, or one of its own. Each pair is
timed in turns, batch by batch, so that what else the machine does meets both.
"""

import argparse
import contextlib
import json
import pathlib
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from quintain import store as stores
from quintain.records.rows import experiment, metric, states, trial

BATCH = 1000
_COLUMNS = "trial_id, grp, total, metrics, inputs, time"

Write = Callable[[Sequence[metric.MetricRow]], None]
"""Stores rows in one transaction."""


def build_rows(trial_id: int, start: int) -> list[metric.MetricRow]:
    """Returns the metrics of so many workloads of a trial."""
    return [
        metric.MetricRow(
            trial_id=trial_id,
            group=metric.MetricGroup.TRAINING,
            total_batches=start + number,
            metrics={"loss": 1 / (start + number + 1), "accuracy": 0.5},
            num_inputs=32,
            time=1.0,
        )
        for number in range(BATCH)
    ]


def to_tuples(rows: Sequence[metric.MetricRow]) -> list[tuple[Any, ...]]:
    """Returns rows as a driver takes them."""
    return [
        (
            row.trial_id,
            row.group.value,
            row.total_batches,
            json.dumps(row.metrics),
            row.num_inputs,
            row.time,
        )
        for row in rows
    ]


@contextlib.contextmanager
def open_ours(database: str | pathlib.Path) -> Iterator[tuple[Write, Callable[[], None]]]:
    """Gives what stores rows, and what stores an event, by the store."""
    with contextlib.closing(stores.open_store(database)) as store:
        with store.transaction() as session:
            owner = session.add_experiment(
                experiment.Experiment(0, states.ExperimentState.ACTIVE, {}, "", "")
            ).id
            session.add_trial(trial.TrialRecord(0, owner, "0", states.TrialState.ACTIVE, {}, 0))

        def write(rows: Sequence[metric.MetricRow]) -> None:
            with store.transaction() as session:
                session.add_metrics(rows)

        def add_event() -> None:
            with store.transaction() as session:
                session.add_event(owner, {"kind": "result", "number": 7})

        yield write, add_event


@contextlib.contextmanager
def open_sqlite(path: pathlib.Path) -> Iterator[Write]:
    """Gives what stores rows by the driver of SQLite."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"CREATE TABLE bare (id INTEGER PRIMARY KEY, {_COLUMNS})")
        connection.execute("CREATE INDEX by_trial ON bare (trial_id, total)")

        def write(rows: Sequence[metric.MetricRow]) -> None:
            connection.execute("BEGIN IMMEDIATE")
            query = f"INSERT INTO bare ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"
            connection.executemany(query, to_tuples(rows))
            connection.execute("COMMIT")

        yield write


@contextlib.contextmanager
def open_postgresql(url: str) -> Iterator[Write]:
    """Gives what stores rows by the driver of PostgreSQL, in the way that its manual advises."""
    import psycopg

    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute(
            "CREATE TABLE bare (id BIGSERIAL PRIMARY KEY, trial_id BIGINT, grp TEXT, total BIGINT, "
            "metrics TEXT, inputs BIGINT, time DOUBLE PRECISION)"
        )
        connection.execute("CREATE INDEX by_trial ON bare (trial_id, total)")
        connection.commit()

        def write(rows: Sequence[metric.MetricRow]) -> None:
            with connection.cursor() as cursor:
                query = f"INSERT INTO bare ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s)"
                cursor.executemany(query, to_tuples(rows))
            connection.commit()

        yield write


def compare(name: str, num_rows: int, ours: Write, peer: Write) -> None:
    """Prints rows a second of both, and the ratio."""
    secs = {"store": 0.0, name: 0.0}
    for start in range(0, num_rows, BATCH):
        rows = build_rows(1, start)
        for who, write in (("store", ours), (name, peer)):
            begin = time.perf_counter()
            write(rows)
            secs[who] += time.perf_counter() - begin
    for who, taken in secs.items():
        print(f"{who:8s} {num_rows / taken:10,.0f} rows/s")
    print(f"{'':8s} ratio {secs[name] / secs['store']:.2f}")


def time_events(add_event: Callable[[], None], num_events: int = 1000) -> None:
    """Prints how long the transaction of an event takes."""
    begin = time.perf_counter()
    for _ in range(num_events):
        add_event()
    print(f"{'event':8s} {(time.perf_counter() - begin) / num_events * 1e3:10.2f} ms")


@contextlib.contextmanager
def open_server(url: str) -> Iterator[str]:
    """Gives the address of a database: the given one, or one of a server of its own."""
    if url:
        yield url
        return
    from quintain.testing import postgres_server

    programs = postgres_server.find_programs()
    if programs is None:
        raise SystemExit("There is no PostgreSQL server to start; give the address of one.")
    server = postgres_server.PostgresServer(programs, is_durable=True)
    with server, server.database() as made:
        yield made


def main() -> None:
    """Compares the store with the drivers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--postgresql", nargs="?", const="", metavar="URL")
    given = parser.parse_args()
    with contextlib.ExitStack() as opened:
        directory = pathlib.Path(opened.enter_context(tempfile.TemporaryDirectory()))
        ours, add_event = opened.enter_context(open_ours(directory / "ours.db"))
        peer = opened.enter_context(open_sqlite(directory / "bare.db"))
        compare("sqlite3", given.rows, ours, peer)
        time_events(add_event)
        if given.postgresql is not None:
            url = opened.enter_context(open_server(given.postgresql))
            ours, add_event = opened.enter_context(open_ours(url))
            peer = opened.enter_context(open_postgresql(url))
            compare("psycopg", given.rows, ours, peer)
            time_events(add_event)


if __name__ == "__main__":
    main()
