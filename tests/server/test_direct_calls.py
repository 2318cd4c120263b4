"""Users' calls over HTTP answer what the store answers."""

import dataclasses
import pathlib

import pytest

from quintain import errors
from quintain.records.rows import checkpoint, log, metric, states
from quintain.records.views import master_status
from quintain.server import direct_calls

UUID = "0b1c2d3e-0000-0000-0000-000000000001"


@pytest.mark.parametrize(
    "ask",
    [
        lambda calls: calls.get_status(),
        lambda calls: calls.list_experiments(),
        lambda calls: calls.list_experiments(
            state_names=[states.ExperimentState.PAUSED, states.ExperimentState.ERROR]
        ),
        lambda calls: calls.list_experiments(labels=["a"], include_archived=True),
        lambda calls: calls.get_experiment(1),
        lambda calls: calls.list_events(1),
        lambda calls: calls.list_events(1, after=1),
        lambda calls: [trial.id for trial in calls.list_trials()],
        lambda calls: calls.list_trials(1, state_names=[states.TrialState.ERROR]),
        lambda calls: calls.get_trial(1),
        lambda calls: calls.list_metrics(1),
        lambda calls: calls.list_metrics(1, group=metric.MetricGroup.TRAINING),
        lambda calls: calls.list_metrics(1, after_batches=100),
        lambda calls: calls.list_batch_metrics(1),
        lambda calls: calls.list_logs(1),
        lambda calls: calls.list_logs(1, log.LogFilter(after=2, limit=1)),
        lambda calls: calls.list_logs(1, log.LogFilter(last=2, contains="line")),
        lambda calls: calls.list_logs(1, log.LogFilter(source=log.LogSource.STDERR)),
        lambda calls: calls.list_checkpoints(),
        lambda calls: calls.list_checkpoints(
            trial_id=1, state_names=[checkpoint.CheckpointState.DELETED]
        ),
        lambda calls: calls.list_checkpoints(experiment_id=1),
        lambda calls: calls.get_checkpoint(UUID),
        lambda calls: calls.get_checkpoint(UUID[:8]),
        lambda calls: calls.list_orphans(),
    ],
)
def test_reads_are_the_same_over_http(over_http, calls, ask):
    assert ask(over_http) == ask(calls)


@pytest.mark.parametrize(
    "ask",
    [
        lambda calls: calls.get_experiment(7),
        lambda calls: calls.list_trials(7),
        lambda calls: calls.list_checkpoints(trial_id=7),
        lambda calls: calls.get_checkpoint("ffffffff"),
        lambda calls: calls.fetch_checkpoint("ffffffff", pathlib.Path("/tmp")),
    ],
)
def test_what_is_missing_is_the_same_error_over_http(over_http, calls, ask):
    with pytest.raises(errors.NotFoundError) as direct:
        ask(calls)
    with pytest.raises(errors.NotFoundError) as remote:
        ask(over_http)
    assert str(remote.value) == str(direct.value)


@pytest.mark.parametrize("is_remote", [True, False])
def test_files_are_copied_whole(over_http, calls, is_remote, tmp_path, home):
    chosen = over_http if is_remote else calls

    paths = chosen.fetch_checkpoint(UUID[:8], tmp_path / "checkpoint")
    assert paths == [str(tmp_path / "checkpoint" / "weights")]
    original = home.checkpoints / UUID / "weights"
    assert (tmp_path / "checkpoint" / "weights").read_bytes() == original.read_bytes()

    chosen.fetch_model_dir(1, tmp_path / "code")
    assert (tmp_path / "code" / "data" / "a b.txt").read_text() == "ä"
    assert (tmp_path / "code" / "model_def.py").exists()


@pytest.mark.slow
def test_a_deleted_checkpoint_can_not_be_copied(over_http, store, tmp_path):
    with store.transaction() as session_:
        session_.add_checkpoint(
            checkpoint.Checkpoint("gone", 1, 1, 5, checkpoint.CheckpointState.DELETED)
        )

    with pytest.raises(errors.CheckpointError, match="its files were deleted"):
        over_http.fetch_checkpoint("gone", tmp_path)


def test_commands_reach_the_master(over_http, master, tmp_path):
    created = over_http.create_experiment(
        "name: new", tmp_path, source="new.yaml", overrides=["a=1"], parent_id=1, activate=False
    )
    assert created.id == 2
    assert over_http.apply(1, "pause").state is states.ExperimentState.PAUSED
    over_http.update_experiment(1, {"labels": ["x"], "max_slots": 2})
    over_http.fork_experiment(1, None, ["b=2"])
    over_http.rewind_experiment(1, 2, "tpe", "lr: 1", ["b=2"])
    over_http.continue_experiment(1, ["c=3"])
    over_http.kill_trial(1)
    over_http.note_trial(1, "mine")
    over_http.rerun_trial(2)
    over_http.continue_trial(2, ["searcher.max_length=5"])
    over_http.delete_checkpoint(UUID[:8])
    assert over_http.adopt_orphan("a b").uuid == "a b"
    assert over_http.delete_orphan("a?b").path == "/c/a?b"
    over_http.delete_experiment(1)

    options = {
        "source": "new.yaml", "overrides": ["a=1"], "parent_id": 1, "activate": False,
        "origin": None,
    }  # fmt: skip
    assert master.calls == [
        ("create", "name: new", tmp_path, options),
        ("pause", 1),
        ("update", 1, {"labels": ["x"], "max_slots": 2}),
        ("fork", 1, None, ["b=2"]),
        ("forked", 1),
        ("rewind", 1, 2, "tpe", "lr: 1", ["b=2"]),
        ("rewound", 1),
        ("continue", 1, ("c=3",)),
        ("continued", 1),
        ("kill trial", 1),
        ("note trial", 1, "mine"),
        ("rerun trial", 2),
        ("rerun", 1),
        ("continue trial", 2, ("searcher.max_length=5",)),
        ("continued", 1),
        ("delete checkpoint", UUID),
        ("adopt", "a b"),
        ("delete orphan", "a?b"),
        ("delete", 1),
    ]


def test_errors_of_the_master_keep_their_class(over_http):
    with pytest.raises(errors.StateError, match="is ACTIVE"):
        over_http.apply(1, "archive")
    with pytest.raises(errors.NotFoundError, match="experiment 7"):
        over_http.apply(7, "pause")
    with pytest.raises(errors.ConfigError, match=r"a\.yaml:1: broken"):
        over_http.create_experiment("broken", None, source="a.yaml")


def test_the_master_is_asked_to_stop(over_http, stops):
    assert over_http.stop_master(drain=False).pid == 12
    assert over_http.stop_master().version == "1.2.3"
    assert stops == [False, True]


def test_without_a_master_the_store_is_read(store, home):
    calls = direct_calls.DirectCalls(store, home)

    assert calls.get_status().slots == ()
    assert calls.get_experiment(1).id == 1


def test_records_have_the_progress_that_only_the_master_knows(store, home):
    work = (master_status.TrialWork(1, "training 2/5", 0.4),)
    one = master_status.ExperimentStatus(1, states.ExperimentState.ACTIVE, 0.2, work=work)
    told = (
        master_status.MasterStatus(experiments=(one,)),
        master_status.MasterSummary(experiments=(one,)),
    )
    calls = direct_calls.DirectCalls(store, home, *(lambda each=each: each for each in told))
    assert calls.get_experiment(1).progress == calls.list_experiments()[0].progress == 0.2
    assert calls.get_trial(1).progress == 0.4
    assert [one.progress for one in calls.list_trials(1)] == [0.4, 0.0]


def test_who_follows_an_experiment_is_told_what_has_changed_of_its_trials(store, calls):
    with store.transaction() as session:
        owner = session.list_experiments()[0].id
        other = session.list_experiments()[-1].id
    first = calls.follow(owner)
    assert first.is_whole
    assert [one.id for one in first.trials] == [one.id for one in calls.list_trials(owner)]

    changed = dataclasses.replace(first.trials[0], note="new")
    with store.transaction() as session:
        session.update_trial(changed)
        session.update_experiment(calls.get_experiment(other))
    second = calls.follow(owner, first.cursor)
    assert not second.is_whole
    assert [each.id for each in second.trials] == [changed.id]

    assert calls.follow(owner, second.cursor).trials == []
    for unknown in ("", "x", "other-1", f"{second.cursor}000"):
        assert calls.follow(owner, unknown).is_whole
