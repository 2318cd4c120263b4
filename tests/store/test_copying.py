import contextlib
import dataclasses
import math
import sqlite3

import pytest

from quintain import errors
from quintain import store as stores
from quintain.records import team
from quintain.records.rows import checkpoint, deletion, launch, log, metric, sent_metrics
from quintain.store import copying, schema
from quintain.testing import store_case


def fill(store):
    """Stores something in every table, and gives a number that nobody has any more."""
    with store.transaction() as session:
        owner = session.add_experiment(store_case.new_experiment(labels=("ä", "b"))).id
        trial_id = session.add_trial(
            store_case.new_trial(owner, latest_metric=math.nan, best_metric=math.inf)
        ).id
        session.set_home_id("home")
        session.add_event(owner, {"kind": "a", "at": math.nan})
        session.add_metrics(store_case.new_rows(trial_id, range(1, 40), loss="NaN"))
        session.add_batch_metrics(trial_id, 1, [{"loss": 1.0}])
        session.add_checkpoint(checkpoint.Checkpoint("c", trial_id, owner, 1, metric=math.nan))
        session.add_logs([log.LogRow(trial_id, 1.0, log.LogSource.STDOUT, "a\0b\ud800 ü")])
        session.save_launch(
            launch.Launch("x", trial_id, owner, (0,), launch.LaunchState.RUNNING, None, 1.0)
        )
        session.save_grant(team.Grant("anna", "", team.Role.EDITOR))
        session.add_audit(team.AuditEntry(0, 1.0, "anna", "", "kill_trial", owner))
        session.save_sent_metrics(sent_metrics.SentMetrics(trial_id, "l", {}, True))
        kind = deletion.DeletionKind.CHECKPOINT
        session.add_deletions([deletion.Deletion(0, kind, "checkpoints", "c", owner, 1.0)])
        gone = session.add_experiment(store_case.new_experiment()).id
        session.delete_experiment(gone)
    return owner, trial_id, gone


def read(store):
    """Returns all rows as texts, so that not-a-number equals itself."""
    tables = [each for each in schema.list_tables() if each != "holder"]
    with store.reading() as session:
        owner, trial_id = session.list_trials()[0].experiment_id, session.list_trials()[0].id
        return {
            "experiments": session.list_experiments(include_archived=True),
            "trials": str(session.list_trials()),
            "events": str(session.list_numbered_events(owner)),
            "metrics": str(session.list_metrics(trial_id)),
            "curves": str(session.list_curves(owner)),
            "batches": session.list_batch_metrics(trial_id),
            "checkpoints": str(session.list_checkpoints()),
            "logs": session.list_logs(trial_id),
            "runs": session.list_launches(),
            "spans": session.list_spans(),
            "audit": session.get_audit(),
            "grants": session.list_grants(),
            "sent": session.list_sent_metrics(owner),
            "changes": session.list_changes(0),
            "bounds": session.get_change_bounds(),
            "deletions": session.list_deletions(),
            "home": session.get_home_id(),
            "last": session.get_last_experiment_id(),
            "tables": len(tables),
        }


def test_a_store_goes_to_a_server_and_back_unchanged(tmp_path, postgres_url):
    with contextlib.ExitStack() as opened:
        databases = [tmp_path / "first.db", postgres_url, tmp_path / "back.db"]
        first, second, back = [stores.open_store(each) for each in databases]
        for store in (first, second, back):
            opened.callback(store.close)
        _, trial_id, gone = fill(first)
        told = []

        counts = copying.copy(first, second, lambda *each: told.append(each))
        copying.copy(second, back)

        assert read(first) == read(second) == read(back)
        assert counts["metrics"] == 39
        assert ("metrics", 39, 39) in told
        for store in (second, back):
            with store.transaction() as session:
                assert session.add_experiment(store_case.new_experiment()).id == gone + 1
                session.add_metrics(
                    [metric.MetricRow(trial_id, metric.MetricGroup.TRAINING, 50, {}, 1, 1.0)]
                )
            with pytest.raises(errors.StateError, match=r"got a database with .*2 experiments"):
                copying.copy(first, store)
            with store.reading() as session:
                assert len(session.list_experiments()) == 2


def test_a_copy_that_fails_leaves_the_target_empty(tmp_path, postgres_url):
    path = tmp_path / "first.db"
    with contextlib.ExitStack() as opened:
        first, second = stores.open_store(path), stores.open_store(postgres_url)
        opened.callback(first.close)
        opened.callback(second.close)
        fill(first)
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE metrics SET total_batches = 'x' WHERE id = 7")

        with pytest.raises((errors.QuintainError, ValueError)):
            copying.copy(first, second)

        with second.reading() as session:
            assert session.list_experiments() == []


def test_numbers_that_rows_bring_are_not_given_again(postgres_url, tmp_path):
    for database in (tmp_path / "own.db", postgres_url):
        with contextlib.closing(stores.open_store(database)) as store:
            with store.transaction() as session:
                large = session.add_experiment(store_case.new_experiment(id=2**40))
                assert session.add_experiment(store_case.new_experiment()).id == 2**40 + 1
                session.add_experiment(store_case.new_experiment(id=7))
                assert session.add_experiment(store_case.new_experiment()).id == 2**40 + 2
            with store.reading() as session:
                assert session.get_experiment(2**40) == large
                assert session.get_experiment(7) == dataclasses.replace(large, id=7)
