"""Conformance suite of stores; subclass `StoreSuite` and give it a store.

class TestMyStore(store_suite.StoreSuite):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/quintain.db"
"""

import dataclasses
import functools
import math
import threading

import pytest

from quintain import errors
from quintain import store as stores
from quintain.records import team
from quintain.records.rows import checkpoint, launch, log, metric, registered_model, states, trial
from quintain.testing import store_case, store_change_suite, store_curve_suite


class StoreSuite(store_change_suite.ChangeSuite, store_curve_suite.CurveSuite):
    """Tests of a store; a subclass gives the fixture `url`."""

    def test_experiments_come_back_as_they_were_stored(self, store: stores.Store) -> None:
        """All fields survive; ids are given in order."""
        record = store_case.new_experiment(
            labels=("a", "b"), config={"x": [1, 2.5, None, {"y": "z"}]}
        )
        with store.transaction() as session:
            first = session.add_experiment(record)
            second = session.add_experiment(store_case.new_experiment())
        assert first == dataclasses.replace(record, id=first.id)
        assert second.id > first.id
        with store.reading() as session:
            assert session.get_experiment(first.id) == first
            assert session.list_experiments() == [first, second]

    def test_experiments_can_be_changed(self, store: stores.Store) -> None:
        """The whole record is replaced."""
        with store.transaction() as session:
            record = session.add_experiment(store_case.new_experiment())
            changed = dataclasses.replace(
                record, state=states.ExperimentState.COMPLETED, end_time=3.0, progress=1.0
            )
            session.update_experiment(changed)
        with store.reading() as session:
            assert session.get_experiment(record.id) == changed

    def test_lists_of_experiments_can_be_narrowed(self, store: stores.Store) -> None:
        """By state, by labels, and archived ones are left out."""
        with store.transaction() as session:
            active = session.add_experiment(store_case.new_experiment(labels=("a", "b")))
            paused = session.add_experiment(
                store_case.new_experiment(labels=("b",), state=states.ExperimentState.PAUSED)
            )
            archived = session.add_experiment(store_case.new_experiment(is_archived=True))
        with store.reading() as session:
            assert session.list_experiments() == [active, paused]
            assert session.list_experiments(include_archived=True) == [active, paused, archived]
            assert session.list_experiments(projects=["default"]) == [active, paused]
            assert session.list_experiments(projects=["speech"]) == []
            assert session.list_experiments(labels=["b"]) == [active, paused]
            assert session.list_experiments(labels=["b", "a"]) == [active]
            assert session.list_experiments(states=[states.ExperimentState.PAUSED]) == [paused]

    def test_what_is_not_there_is_an_error_that_names_what_is(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """Reading and changing it both fail."""
        with store.transaction() as session:
            with pytest.raises(errors.NotFoundError, match=f"newest is {trial_id}"):
                session.get_trial(trial_id + 1)
            with pytest.raises(errors.NotFoundError, match="no experiment 77"):
                session.get_experiment(77)
            with pytest.raises(errors.NotFoundError, match="no experiment 77"):
                session.delete_experiment(77)
            with pytest.raises(errors.NotFoundError, match="no experiment 78"):
                session.update_experiment(store_case.new_experiment(id=78))
            owner = session.get_trial(trial_id).experiment_id
            session.add_checkpoint(checkpoint.Checkpoint("abcd-1", trial_id, owner, 1))
            with pytest.raises(errors.NotFoundError, match="similar ones: abcd-1"):
                session.get_checkpoint("abcd-2")

    def test_trials_come_back_as_they_were_stored(self, store: stores.Store, trial_id: int) -> None:
        """Metrics that are not finite included."""
        with store.transaction() as session:
            record = dataclasses.replace(
                session.get_trial(trial_id),
                best_metric=math.inf,
                latest_metric=math.nan,
                latest_checkpoint="abc",
                total_batches=2**40,
            )
            session.update_trial(record)
        with store.reading() as session:
            found = session.get_trial(trial_id)
            assert len(session.list_trials(record.experiment_id)) == 1
            assert len(session.list_trials()) == 1
            assert session.list_trials(record.experiment_id + 1) == []
            assert session.list_trials(states=[states.TrialState.ERROR]) == []
        assert found.latest_metric is not None
        assert math.isnan(found.latest_metric)
        assert dataclasses.replace(found, latest_metric=0) == dataclasses.replace(
            record, latest_metric=0
        )

    def test_lists_of_trials_can_be_paged(self, store: stores.Store, trial_id: int) -> None:
        """A page has those that come next in the order of ids, of those in the given states."""
        with store.transaction() as session:
            first = session.get_trial(trial_id)
            owner, ended = first.experiment_id, states.TrialState.COMPLETED
            for number in range(4):
                another = dataclasses.replace(first, id=0, request_id=f"r{number}")
                session.add_trial(dataclasses.replace(another, state=ended) if number else another)
        with store.reading() as session:
            ids = [one.id for one in session.list_trials(owner)]
            page = session.list_trials(owner, limit=2, offset=1)
            rest = session.list_trials(owner, offset=3)
            done = session.list_trials(owner, states=[ended], limit=5, offset=1)
            assert session.count_own(owner) == 5
            assert session.count_own(owner, [ended]) == 3
            assert session.count_own(owner + 1) == 0
        assert [one.id for one in page] == ids[1:3]
        assert [one.id for one in rest] == ids[3:]
        assert [one.id for one in done] == ids[3:]

    def test_notes_of_trials_are_the_users(self, store: stores.Store, trial_id: int) -> None:
        """The platform's updates of a trial leave its note."""
        with store.reading() as session:
            former = session.get_trial(trial_id)
        with store.transaction() as session:
            assert session.set_trial_note(trial_id, "mine").note == "mine"
        with store.transaction() as session:
            session.update_trial(dataclasses.replace(former, restarts=3))
        with store.reading() as session:
            found = session.get_trial(trial_id)
        assert found == dataclasses.replace(former, restarts=3, note="mine")
        with pytest.raises(errors.NotFoundError), store.transaction() as session:
            session.set_trial_note(999, "nobody's")

    def test_events_keep_their_order(self, store: stores.Store, trial_id: int) -> None:
        """Later ones can be asked for."""
        del trial_id
        with store.transaction() as session:
            owner = session.list_experiments()[0].id
            numbers = [session.add_event(owner, {"kind": kind}) for kind in ("a", "b", "c")]
        assert numbers == sorted(set(numbers))
        with store.reading() as session:
            assert session.list_events(owner) == [{"kind": "a"}, {"kind": "b"}, {"kind": "c"}]
            assert session.list_events(owner, after=numbers[1]) == [{"kind": "c"}]

    def test_metrics_are_rolled_back(self, store: stores.Store, trial_id: int) -> None:
        """Those of more batches than given are deleted, of this trial alone."""
        rows = [
            metric.MetricRow(trial_id, group, total, {"loss": 1 / total}, 32, 1.5)
            for total in (10, 20, 30)
            for group in (metric.MetricGroup.TRAINING, metric.MetricGroup.VALIDATION)
        ]
        with store.transaction() as session:
            owner = session.get_trial(trial_id).experiment_id
            other = session.add_trial(store_case.new_trial(owner)).id
            session.add_metrics(rows)
            session.add_metrics([dataclasses.replace(row, trial_id=other) for row in rows])
            for total in (10, 20, 30):
                session.add_batch_metrics(trial_id, total, [{"loss": 2.0}, {"loss": 1.0}])
            session.delete_metrics_after(trial_id, 20)
        with store.reading() as session:
            assert session.list_metrics(trial_id) == rows[:4]
            assert len(session.list_metrics(other)) == len(rows)
            assert session.list_metrics(
                trial_id, group=metric.MetricGroup.VALIDATION, after_batches=10
            ) == [rows[3]]
            batches = session.list_batch_metrics(trial_id, after_batches=10)
            assert batches == [(20, [{"loss": 2.0}, {"loss": 1.0}])]

    def test_metrics_that_are_not_finite_are_texts(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """As JSON has no such numbers."""
        values = {"loss": math.nan, "top": [1.0, math.inf]}
        row = metric.MetricRow(trial_id, metric.MetricGroup.TRAINING, 1, values)
        with store.transaction() as session:
            session.add_metrics([row])
            (found,) = session.list_metrics(trial_id)
        assert found.metrics == {"loss": "NaN", "top": [1.0, "Infinity"]}

    def test_checkpoints_come_back_as_they_were_stored(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """In the order of batches."""
        with store.transaction() as session:
            owner = session.get_trial(trial_id).experiment_id
            late = checkpoint.Checkpoint("b", trial_id, owner, 20, metric=math.nan)
            early = checkpoint.Checkpoint("a", trial_id, owner, 10, files={"x/": 0, "x/y": 7})
            session.add_checkpoint(late)
            assert session.add_checkpoint(early) == early
            session.update_checkpoint(
                dataclasses.replace(late, state=checkpoint.CheckpointState.DELETED, metric=0.5)
            )
        with store.reading() as session:
            found = session.list_checkpoints(trial_id=trial_id)
            assert [record.uuid for record in found] == ["a", "b"]
            assert found[0].num_bytes == 7
            kept = [checkpoint.CheckpointState.COMPLETED]
            assert session.list_checkpoints(experiment_id=owner, states=kept) == [early]
            assert session.list_checkpoints(experiment_id=owner + 1) == []

    def test_a_name_that_is_taken_is_no_fault_of_the_store(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """Others can still store theirs."""
        record = checkpoint.Checkpoint("u1", trial_id, 1, 100)
        with store.transaction() as session:
            session.add_checkpoint(record)

        with pytest.raises(errors.DataError), store.transaction() as session:
            session.add_checkpoint(record)

        with store.reading() as session:
            assert session.list_checkpoints(trial_id=trial_id) == [record]

    def test_rows_are_counted_by_state(self, store: stores.Store, trial_id: int) -> None:
        """With restarts of trials, and bytes of checkpoints that are there."""
        deleted = checkpoint.CheckpointState.DELETED
        with store.transaction() as session:
            trial = session.get_trial(trial_id)
            session.update_trial(dataclasses.replace(trial, restarts=2))
            owner = trial.experiment_id
            files = {"a/": 0, "a/b": 3 * 2**40, "c": 5}
            for uuid, state in (("x", deleted), ("y", checkpoint.CheckpointState.COMPLETED)):
                saved = checkpoint.Checkpoint(uuid, trial_id, owner, 1, state, files)
                session.add_checkpoint(saved)
        with store.reading() as session:
            owner_state = session.get_experiment(owner).state
            assert sorted(session.count_states()) == [
                ("checkpoints", "COMPLETED", 1, 3 * 2**40 + 5),
                ("checkpoints", "DELETED", 1, 0),
                ("experiments", owner_state, 1, 0),
                ("trials", trial.state, 1, 2),
            ]

    def test_logs_can_be_followed_and_searched(self, store: stores.Store, trial_id: int) -> None:
        """By number, source, text, and the newest ones."""
        sources = [log.LogSource.STDOUT, log.LogSource.STDERR, log.LogSource.MASTER]
        rows = [
            log.LogRow(trial_id, float(number), sources[number % 3], f"line {number} 100%_é")
            for number in range(9)
        ]
        with store.transaction() as session:
            session.add_logs(rows)
        with store.reading() as session:
            found = session.list_logs(trial_id)
            assert [dataclasses.replace(row, id=0) for row in found] == rows
            ids = [row.id for row in found]
            assert ids == sorted(set(ids))
            assert session.list_logs(trial_id, log.LogFilter(after=ids[3], limit=2)) == found[4:6]
            assert session.list_logs(trial_id, log.LogFilter(last=2)) == found[-2:]
            of_errors = log.LogFilter(source=log.LogSource.STDERR)
            assert session.list_logs(trial_id, of_errors) == found[1::3]
            assert session.list_logs(trial_id, log.LogFilter(contains="e 4 100%_")) == [found[4]]
            assert session.list_logs(trial_id, log.LogFilter(contains="%")) == found
            assert session.list_logs(trial_id + 1) == []

    def test_logs_can_be_paged_backwards_and_read_for_a_whole_experiment(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """Lines of several trials come in the order in which they were stored."""
        with store.transaction() as session:
            owner = session.get_trial(trial_id).experiment_id
            second = session.add_trial(store_case.new_trial(owner)).id
            other = session.add_trial(
                store_case.new_trial(session.add_experiment(store_case.new_experiment()).id)
            ).id
            trials = [other, trial_id, second, trial_id, other, second, trial_id, other]
            session.add_logs(
                [
                    log.LogRow(each, 0.0, log.LogSource.STDOUT, f"line {number}")
                    for number, each in enumerate(trials)
                ]
            )
        which = log.LogFilter
        with store.reading() as session:
            own = session.list_logs(trial_id)
            assert session.list_logs(trial_id, which(before=own[2].id)) == own[:2]
            assert session.list_logs(trial_id, which(before=own[2].id, limit=1)) == own[1:2]
            read = functools.partial(session.list_experiment_logs, owner)
            rows = read()
            assert [row.text[-1] for row in rows] == ["1", "2", "3", "5", "6"]
            assert read(which(after=rows[0].id, limit=2)) == rows[1:3]
            assert read(which(before=rows[3].id, limit=2)) == rows[1:3]
            assert read(which(last=1)) == rows[4:]
            assert read(which(contains="5")) == [rows[3]]
            assert read(which(source=log.LogSource.MASTER)) == []
            assert session.list_experiment_logs(owner + 7) == []

    def test_processes_are_replaced_by_their_launch(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """They can be forgotten twice."""
        with store.transaction() as session:
            owner = session.get_trial(trial_id).experiment_id
            record = launch.Launch(
                "x", trial_id, owner, (0, 1), launch.LaunchState.LAUNCHING, None, 1.0
            )
            session.save_launch(record)
            identity = trial.ProcessIdentity(pid=4, start_time=1.25, launch_id="x")
            started = dataclasses.replace(
                record, state=launch.LaunchState.RUNNING, identity=identity
            )
            session.save_launch(started)
            assert session.list_launches() == session.list_launches(trial_id=trial_id) == [started]
            session.delete_launch("x")
            session.delete_launch("x")
            assert session.list_launches() == []

    def test_when_processes_held_their_slots_outlives_them(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """Spans can be asked for by experiment and time."""
        with store.transaction() as session:
            owner = session.get_trial(trial_id).experiment_id
            record = launch.Launch(
                "x", trial_id, owner, (0, 1), launch.LaunchState.LAUNCHING, None, 1.0
            )
            session.save_launch(record)
            session.save_launch(dataclasses.replace(record, state=launch.LaunchState.RUNNING))
            going = launch.Span("x", trial_id, owner, (0, 1), 1.0)
            assert session.list_spans(owner) == session.list_spans(since=9e9) == [going]
            assert session.get_trial(trial_id).find_duration(4.0) == 3.0
            session.delete_launch("x")
        with store.reading() as session:
            (ended,) = session.list_spans()
            assert ended.end_time is not None
            assert dataclasses.replace(ended, end_time=None) == going
            assert session.get_trial(trial_id).find_duration(0.0) == ended.end_time - 1.0
            held = session.read_trial_columns(owner, ["held_secs", "held_since"])
            assert held == {"held_secs": [ended.end_time - 1.0], "held_since": [None]}
            assert session.list_spans(owner + 1) == []
            assert session.list_spans(since=ended.end_time) == []
            assert session.list_spans(owner, since=ended.end_time - 1) == [ended]

    def test_the_audit_log_only_grows(self, store: stores.Store) -> None:
        """Entries are found by experiment, user and time, and nothing takes one back."""
        with store.transaction() as session:
            entries = [
                session.add_audit(
                    team.AuditEntry(
                        0, float(number), user, "", "kill_trial", number, {"trial_id": 1}
                    )
                )
                for number, user in enumerate(("anna", "bob", "anna"))
            ]
        with store.reading() as session:
            assert session.get_audit() == entries
            assert session.get_audit(user_name="anna", limit=1) == entries[2:]
            assert session.get_audit(experiment_id=1) == entries[1:2]
            assert session.get_audit(since=1.0) == entries[1:]
        for query in ("DELETE FROM audit", "UPDATE audit SET user_name = 'bob'"):
            with (
                pytest.raises((errors.StoreError, errors.DataError), match="never"),
                store.database.writing() as runner,
            ):
                runner.run(query, {})
        with store.reading() as session:
            assert session.get_audit() == entries

    def test_roles_are_replaced_and_deleted(self, store: stores.Store) -> None:
        """A user has one role over each project."""
        viewer, editor = team.Role.VIEWER, team.Role.EDITOR
        with store.transaction() as session:
            for project, role in (("", viewer), ("a", viewer), ("a", editor), ("b", viewer)):
                session.save_grant(team.Grant("anna", project, role))
            session.delete_grants("anna", ["b"])
        with store.reading() as session:
            assert session.list_grants() == [
                team.Grant("anna", "", viewer),
                team.Grant("anna", "a", editor),
            ]

    def test_deleting_an_experiment_deletes_all_that_belongs_to_it(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """Its id is not given again."""
        with store.transaction() as session:
            owner = session.get_trial(trial_id).experiment_id
            session.add_event(owner, {"kind": "a"})
            session.add_logs([log.LogRow(trial_id, 1.0, log.LogSource.STDOUT, "x")])
            session.add_metrics(store_case.new_rows(trial_id, [1]))
            session.save_launch(
                launch.Launch("x", trial_id, owner, (), launch.LaunchState.RUNNING, None, 1.0)
            )
            session.add_checkpoint(checkpoint.Checkpoint("a", trial_id, owner, 1))
            session.delete_experiment(owner)
        with store.transaction() as session:
            assert session.list_trials() == []
            assert session.list_events(owner) == []
            assert session.list_logs(trial_id) == []
            assert session.list_metrics(trial_id) == []
            assert session.list_curves(owner) == []
            assert session.list_spans() == []
            assert session.list_checkpoints() == []
            assert session.add_experiment(store_case.new_experiment()).id > owner

    def test_models_come_back_with_their_versions_and_aliases(self, store: stores.Store) -> None:
        """Numbers count for each model; lists leave out what is long."""
        record = store_case.new_model_version()
        with store.transaction() as session:
            first = session.add_model_version(record)
            second = session.add_model_version(dataclasses.replace(record, trial_id=7))
            other = session.add_model_version(dataclasses.replace(record, name="a"))
            move = registered_model.AliasMove(0, "m", "best", 2, "", 1.0)
            session.add_alias_move(dataclasses.replace(move, version=1))
            session.add_alias_move(move)
        assert first == dataclasses.replace(record, id=first.id, version=1)
        assert (second.version, other.version) == (2, 1)
        with store.transaction() as session:
            session.update_model_version(dataclasses.replace(first, is_deleted=True))
        with store.reading() as session:
            model = session.get_model("m")
            assert model.versions == (dataclasses.replace(first, is_deleted=True), second)
            assert model.aliases == {"best": 2}
            assert [each.version for each in model.history] == [1, 2]
            listed = session.list_models()
            assert [each.name for each in listed] == ["a", "m"]
            short = dataclasses.replace(second, files={}, config={}, origin={})
            assert listed[1].versions[1] == short
            assert session.find_registered() == {"c": "m@2"}
            with pytest.raises(errors.NotFoundError, match="there are a, m"):
                session.get_model("other")

    def test_a_transaction_that_fails_leaves_nothing(self, store: stores.Store) -> None:
        """All its writes are undone."""

        def fail() -> None:
            with store.transaction() as session:
                session.add_experiment(store_case.new_experiment())
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with store.reading() as session:
            assert session.list_experiments() == []

    def test_writing_transactions_are_timed(self, store: stores.Store) -> None:
        """Also those that fail; reading ones are not."""
        found: list[float] = []
        store.add_timer(found.append)
        with store.transaction() as session:
            session.add_experiment(store_case.new_experiment())
        with pytest.raises(errors.NotFoundError), store.transaction() as session:
            session.delete_experiment(99)
        with store.reading() as session:
            session.list_experiments()
        assert len(found) == 2
        assert min(found) > 0.0

    def test_writers_in_threads_follow_one_another(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """No update is lost, while others read."""

        def count() -> None:
            for _ in range(20):
                with store.transaction() as session:
                    record = session.get_trial(trial_id)
                    session.update_trial(dataclasses.replace(record, restarts=record.restarts + 1))
                with store.reading() as session:
                    session.list_trials()

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with store.reading() as session:
            assert session.get_trial(trial_id).restarts == 80

    def test_a_reader_sees_what_was_there_at_its_beginning(
        self, store: stores.Store, trial_id: int
    ) -> None:
        """A transaction that ends meanwhile does not change it."""
        with store.reading() as reader:
            before = reader.get_trial(trial_id)
            with store.transaction() as writer:
                writer.update_trial(dataclasses.replace(before, restarts=9))
            assert reader.get_trial(trial_id) == before
        with store.reading() as reader:
            assert reader.get_trial(trial_id).restarts == 9

    def test_a_store_that_is_opened_again_has_everything(
        self, store: stores.Store, url: str, trial_id: int
    ) -> None:
        """As a restarted master needs it."""
        with store.reading() as session:
            before = session.get_trial(trial_id)
        store.close()
        again = stores.open_store(url)
        with again.reading() as session:
            assert session.get_trial(trial_id) == before
        again.close()
