"""Conformance suite for the changes that a store records."""

from collections.abc import Callable

import pytest

from quintain import store as stores
from quintain.records.rows import checkpoint, launch, log, states
from quintain.store import session as session_lib
from quintain.testing import store_case


def list_changes(store: stores.Store) -> list[tuple[str, int, int | None, str | None]]:
    """Returns kind, experiment, trial and reference of all changes."""
    with store.reading() as session:
        return [
            (each.kind.value, each.experiment_id, each.trial_id, each.ref)
            for each in session.list_changes(0)
        ]


class ChangeSuite(store_case.StoreCase):
    """Tests of changes; a subclass gives the fixture `url`."""

    def test_each_write_leaves_its_change(self, store: stores.Store, trial_id: int) -> None:
        """Listeners are called once for each transaction that left any."""
        calls: list[int] = []
        with store.reading() as session:
            owner = session.get_trial(trial_id).experiment_id
            _, before = session.get_change_bounds()
        store.add_listener(lambda: calls.append(len(list_changes(store))))
        record = launch.Launch("x", trial_id, owner, (), launch.LaunchState.RUNNING, None, 1.0)
        saved = checkpoint.Checkpoint("abc", trial_id, owner, 1)
        line = log.LogRow(trial_id, 1.0, log.LogSource.STDOUT, "x")
        ended = states.TrialState.CANCELED
        first_two, third = [store_case.new_rows(trial_id, each) for each in ([1, 2], [3])]
        writes: list[tuple[Callable[[session_lib.Session], object], list[tuple[object, ...]]]] = [
            (lambda s: s.update_experiment(s.get_experiment(owner)), [("experiment", None, None)]),
            (lambda s: s.update_trial(s.get_trial(trial_id)), [("trial", trial_id, None)]),
            (lambda s: s.set_trial_note(trial_id, "new"), [("trial", trial_id, None)]),
            (
                lambda s: s.add_metrics(first_two),
                [("metrics", trial_id, "1")],
            ),
            (
                lambda s: s.add_metrics(third),
                [("metrics", trial_id, "3")],
            ),
            (lambda s: s.delete_metrics_after(trial_id, 2), [("cut", trial_id, "2")]),
            (lambda s: s.delete_metrics_after(trial_id, 2), []),
            (lambda s: s.add_logs([line, line]), [("logs", trial_id, "1")]),
            (lambda s: s.add_logs([line]), [("logs", trial_id, "3")]),
            (lambda s: s.add_checkpoint(saved), [("checkpoint", trial_id, "abc")]),
            (lambda s: s.update_checkpoint(saved), [("checkpoint", trial_id, "abc")]),
            (lambda s: s.save_launch(record), [("run", trial_id, None)]),
            (lambda s: s.delete_launch("x"), [("run", trial_id, None)]),
            (lambda s: s.delete_launch("x"), []),
            (lambda s: s.end_trials(owner, ended, "", 2.0), [("trial", trial_id, None)]),
            (lambda s: s.end_trials(owner, ended, "", 2.0), []),
            (lambda s: s.add_event(owner, {}), []),
            (lambda s: s.delete_experiment(owner), [("experiment_deleted", None, None)]),
        ]
        for write, _ in writes:
            with store.transaction() as session:
                write(session)
        expected = [(kind, owner, *rest) for _, kinds in writes for kind, *rest in kinds]
        assert list_changes(store)[2:] == expected
        with store.reading() as session:
            found = session.list_changes(before, limit=2)
            assert [each.id for each in found] == [before + 1, before + 2]
            assert session.get_change_bounds() == (0, before + len(expected))
        assert calls == list(range(before + 1, before + len(expected) + 1))

    def test_a_transaction_leaves_one_change_of_each_thing(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """A change refers to the first new item; a failed transaction leaves none."""
        calls: list[str] = []
        store.add_listener(lambda: calls.append("called"))
        former = list_changes(store)

        def fail() -> None:
            with store.transaction() as session:
                session.add_metrics(store_case.new_rows(trial_id, [1]))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert (list_changes(store), calls) == (former, [])
        with store.transaction() as session:
            owner = session.get_trial(trial_id).experiment_id
            session.add_metrics(store_case.new_rows(trial_id, range(1, 6)))
            session.add_metrics(store_case.new_rows(trial_id, [6]))
            for total in (4, 2, 3):
                session.delete_metrics_after(trial_id, total)
            session.update_trial(session.get_trial(trial_id))
            session.update_trial(session.get_trial(trial_id))
        assert list_changes(store)[len(former) :] == [
            ("metrics", owner, trial_id, "1"),
            ("cut", owner, trial_id, "2"),
            ("trial", owner, trial_id, None),
        ]
        assert calls == ["called"]

    def test_only_the_newest_changes_are_kept(
        self, store: stores.Store, trial_id: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The bounds of kept changes are known, also when none is left."""
        monkeypatch.setattr(session_lib, "NUM_KEPT_CHANGES", 10)
        monkeypatch.setattr(session_lib, "_PRUNING_STEP", 5)
        for _ in range(22):  # After the two that made the trial.
            with store.transaction() as session:
                session.update_trial(session.get_trial(trial_id))
        with store.reading() as session:
            assert session.get_change_bounds() == (10, 24)
            assert [each.id for each in session.list_changes(0)] == list(range(11, 25))
        with store.transaction() as session:
            session._run("DELETE FROM changes")
        with store.reading() as session:
            assert session.get_change_bounds() == (24, 24)
