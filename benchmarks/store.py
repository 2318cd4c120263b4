"""Times the store: rows of metrics a second, and one transaction a trial's event.

python benchmarks/store.py [ROWS]

The peer is what SQLite itself does with the same rows in the same transactions.
"""

import json
import pathlib
import sqlite3
import sys
import tempfile
import time

from quintain import store as stores
from quintain.records import experiment, metric, states, trial

BATCH = 1000


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


def time_store(directory: str, num_rows: int) -> float:
    """Returns the seconds that the store takes for the rows."""
    store = stores.open_store(pathlib.Path(directory) / "ours.db")
    with store.transaction() as session:
        owner = session.add_experiment(
            experiment.Experiment(0, states.ExperimentState.ACTIVE, {}, "", "")
        )
        trial_id = session.add_trial(
            trial.TrialRecord(0, owner.id, "0", states.TrialState.ACTIVE, {}, 0)
        ).id
    secs = 0.0
    for start in range(0, num_rows, BATCH):
        rows = build_rows(trial_id, start)
        begin = time.perf_counter()
        with store.transaction() as session:
            session.add_metrics(rows)
        secs += time.perf_counter() - begin
    store.close()
    return secs


def time_sqlite(directory: str, num_rows: int) -> float:
    """Returns the seconds that SQLite takes for the same rows as JSON texts."""
    connection = sqlite3.connect(pathlib.Path(directory) / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE metrics (id INTEGER PRIMARY KEY, trial_id, grp, total, metrics, inputs, time)"
    )
    connection.execute("CREATE INDEX by_trial ON metrics (trial_id, total)")
    secs = 0.0
    for start in range(0, num_rows, BATCH):
        rows = build_rows(1, start)
        begin = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO metrics (trial_id, grp, total, metrics, inputs, time) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [
                (r.trial_id, r.group, r.total_batches, json.dumps(r.metrics), r.num_inputs, r.time)
                for r in rows
            ],
        )
        connection.execute("COMMIT")
        secs += time.perf_counter() - begin
    connection.close()
    return secs


def main() -> None:
    """Prints rows a second and the ratio."""
    num_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as directory:
        ours = time_store(directory, num_rows)
        bare = time_sqlite(directory, num_rows)
    print(f"store   {num_rows / ours:10,.0f} rows/s")
    print(f"sqlite3 {num_rows / bare:10,.0f} rows/s   ratio {bare / ours:.2f}")


if __name__ == "__main__":
    main()
