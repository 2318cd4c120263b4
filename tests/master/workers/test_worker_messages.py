"""Trial processes that tell the master what can't be: it is refused, and nobody else notices."""

import dataclasses
import errno

import pytest

from quintain import errors
from quintain.master.workers import worker_messages
from quintain.records.rows import checkpoint, states, trial, workload
from quintain.records.rows import launch as launch_lib

Kind = workload.WorkloadKind
HUGE = 10**400


@pytest.fixture
def trials(make_master, make_workers, config_text, fake_launcher, tmp_path, store):
    """Returns two trials of one experiment that run, with what does their work."""
    (tmp_path / "home" / "checkpoints").mkdir(parents=True)
    master = make_master()
    searcher = {"name": "random", "max_trials": 2, "max_length": 3}
    text = config_text(searcher, min_checkpoint_period={"batches": 1})
    master.commands.create_experiment(text, None)
    workers = make_workers(master)
    master.tick()
    assert len(fake_launcher.alive) == 2
    return workers


def work_until(workers, launch_id, kind):
    """Lets a process work until it is asked for something; returns that."""
    launch = workers.launcher.alive[launch_id]
    workers.step(launch_id)
    while True:
        asked = workers.master.workers.next_workload(launch.trial_id, launch_id, 0.0)
        if asked.kind is kind:
            return launch.trial_id, asked
        workers.step(launch_id)


def require_well(workers):
    """Lets all work on, and checks that both trials end as they should."""
    workers.run()
    with workers.master.workers._shared.store.reading() as session:
        assert session.get_experiment(1).state is states.ExperimentState.COMPLETED
        ended = [each.state for each in session.list_trials(1)]
    assert ended == [states.TrialState.COMPLETED] * 2


@pytest.mark.parametrize(
    "change",
    [
        {"num_inputs": -1},
        {"num_inputs": HUGE},
        {"start_time": -1.0},
        {"end_time": 1e300},
        {"end_time": float("nan")},
        {"workload": {"num_batches": HUGE}},
        {"workload": {"num_batches": 2**63}},
        {"workload": {"num_batches": -5}},
        {"workload": {"total_batches": -(2**70)}},
        {"workload": {"number": HUGE}},
        {"workload": {"number": -1}},
        {"workload": {"trial_id": 2}},
        {"workload": {"trial_id": HUGE}},
        {"workload": {"experiment_id": 2}},
        {"workload": {"experiment_id": -HUGE}},
    ],
    ids=str,
)
def test_results_of_what_can_not_be_are_refused(trials, change):
    launch_id = next(iter(trials.launcher.alive))
    trial_id, asked = work_until(trials, launch_id, Kind.TRAIN)
    good = trials.answer(launch_id, asked)
    work = dataclasses.replace(asked, **change.get("workload", {}))
    bad = dataclasses.replace(good, **{**change, "workload": work})
    with pytest.raises(errors.MessageError, match=r"^(workload\.|num_inputs|start_time|end_time)"):
        trials.master.workers.report(trial_id, launch_id, bad)
    require_well(trials)


@pytest.mark.parametrize("field", ["metrics", "batch_metrics"])
@pytest.mark.parametrize("names", [[*map(str, range(10_001))], ["x" * 301]], ids=["many", "long"])
def test_metrics_that_would_hold_the_master_for_long_are_refused(trials, field, names):
    launch_id = next(iter(trials.launcher.alive))
    trial_id, asked = work_until(trials, launch_id, Kind.TRAIN)
    metrics = dict.fromkeys(names, 0.5)
    change = {field: [metrics] if field == "batch_metrics" else metrics}
    bad = dataclasses.replace(trials.answer(launch_id, asked), **change)
    with pytest.raises(errors.MessageError, match=r"^metrics: .* expected at most (10,000|300)"):
        trials.master.workers.report(trial_id, launch_id, bad)
    require_well(trials)


def test_a_checkpoint_of_somebody_else_is_none_of_a_trial(trials, tmp_path, write_manifest):
    first, second = trials.launcher.alive
    trial_id, asked = work_until(trials, first, Kind.CHECKPOINT)
    good = trials.answer(first, asked)
    trials.step(first)
    other_id, asked = work_until(trials, second, Kind.CHECKPOINT)
    mine = trials.answer(second, asked)
    root = tmp_path / "home" / "checkpoints"
    (root / "plain").mkdir()
    (root / "plain" / "secret").write_text("secret")
    write_manifest(root / "on-its-way", experiment_id=1, trial_id=trial_id)
    write_manifest(root / "of-another-experiment", experiment_id=2, trial_id=other_id)
    write_manifest(tmp_path / "elsewhere", experiment_id=1, trial_id=other_id)
    (root / "link").symlink_to(tmp_path / "elsewhere")

    for uuid, words in (
        (good.checkpoint.uuid, f"is a checkpoint of trial {trial_id}"),
        ("plain", "is no checkpoint of trial"),
        ("on-its-way", f"is a checkpoint of experiment 1, trial {trial_id}"),
        ("of-another-experiment", "is a checkpoint of experiment 2"),
        ("link", "is a link"),
        ("../elsewhere", "expected the name of a directory"),
        ("", "expected the name of a directory"),
        ("..", "expected the name of a directory"),
    ):
        named = dataclasses.replace(mine, checkpoint=workload.StoredCheckpoint(uuid, {"a": 1}))
        with pytest.raises(errors.MessageError, match=words):
            trials.master.workers.report(other_id, second, named)
    for files in ({"a": -1}, {"a": 2**64}, {"../a": 1}, {"/a": 1}, {"": 1}, {"a/./b": 1}):
        stored = dataclasses.replace(mine.checkpoint, files=files)
        with pytest.raises(errors.MessageError, match=r"checkpoint\.files"):
            trials.master.workers.report(
                other_id, second, dataclasses.replace(mine, checkpoint=stored)
            )
    assert trials.master.workers._shared.problem == ""
    require_well(trials)


def test_a_checkpoint_is_named_once(trials):
    launch_id = next(iter(trials.launcher.alive))
    trial_id, asked = work_until(trials, launch_id, Kind.CHECKPOINT)
    first = trials.answer(launch_id, asked)
    trials.master.workers.report(trial_id, launch_id, first)
    trials.master.workers.report(trial_id, launch_id, first)
    _, asked = work_until(trials, launch_id, Kind.CHECKPOINT)
    again = dataclasses.replace(first, workload=asked)
    with pytest.raises(errors.MessageError, match="is that of an earlier checkpoint"):
        trials.master.workers.report(trial_id, launch_id, again)
    require_well(trials)


@pytest.mark.parametrize("rank", [1, 10**6, 10**9, HUGE, -1, -HUGE])
def test_ranks_that_a_trial_has_not_end_nothing(trials, rank):
    launch_id = next(iter(trials.launcher.alive))
    trial_id = trials.launcher.alive[launch_id].trial_id
    # As a text of the network: Python writes out no such number.
    name = f"{launch_id}.r1" + "0" * 5000 if abs(rank) == HUGE else f"{launch_id}.r{rank}"
    calls = trials.master.workers
    with pytest.raises(errors.GoneError):
        calls.start_run(trial_id, trial.ProcessIdentity(1, 1.0, name))
    with pytest.raises(errors.GoneError):
        calls.next_workload(trial_id, name, 0.0)
    for size in (1, 2, HUGE, -1):
        with pytest.raises(errors.MessageError, match=r"^(size|rank)"):
            calls.meet(trial_id, launch_id, rank, size, trial.Peer("", "a", "a", 1))
    require_well(trials)


@pytest.mark.parametrize(
    "change",
    [
        {"pid": 0},
        {"pid": -1},
        {"pid": HUGE},
        {"start_time": float("inf")},
        {"start_time": -1.0},
        {"mark": "a" * 10_000},
        {"node": "a" * 10_000},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_process_is_like_that(trials, change):
    launch_id = next(iter(trials.launcher.alive))
    trial_id = trials.launcher.alive[launch_id].trial_id
    identity = dataclasses.replace(trial.ProcessIdentity(1, 1.0, launch_id), **change)
    with pytest.raises(errors.MessageError, match=next(iter(change))):
        trials.master.workers.start_run(trial_id, identity)
    require_well(trials)


def test_what_the_launcher_knows_of_a_process_is_not_taken_from_the_process():
    known = trial.ProcessIdentity(7, 1.0, "a", "mark")
    said = trial.ProcessIdentity(1, 2.0, "a", "another", "another-node")
    assert worker_messages.complete(launch_lib.Member("", (), known), said) == known
    assert worker_messages.complete(launch_lib.Member("", (), None), said).node == ""
    assert worker_messages.complete(launch_lib.Member("b", (), None), said).node == "b"


def test_a_checkpoint_of_another_trial_is_damaged_only_if_the_master_finds_it_so(
    make_master, make_workers, config_text, fake_launcher, tmp_path, store, write_manifest
):
    master = make_master()
    master.commands.create_experiment(config_text({"name": "single", "max_length": 2}), None)
    make_workers(master).run()
    with store.reading() as session:
        *_, source = session.list_checkpoints(states=[checkpoint.CheckpointState.COMPLETED])
    directory = tmp_path / "home" / "checkpoints" / source.uuid
    write_manifest(directory, experiment_id=1, trial_id=1)
    (directory / "state").write_bytes(bytes(10))
    searcher = {"name": "single", "max_length": 4, "source_trial_id": 1}
    master.commands.create_experiment(config_text(searcher), None)
    master.tick()
    (launch_id,) = fake_launcher.alive
    workers = make_workers(master, find_damage=lambda spec: True)

    with pytest.raises(errors.UnusableCheckpointError, match="finds nothing wrong with it"):
        workers.step(launch_id)
    with store.reading() as session:
        state = session.get_checkpoint(source.uuid).state
        assert state is checkpoint.CheckpointState.COMPLETED

    (directory / "state").write_bytes(bytes(9))
    with pytest.raises(errors.UnusableCheckpointError, match="is damaged: cut"):
        workers.step(launch_id)

    # What is known is not looked at again, which may take minutes.
    (directory / "state").write_bytes(bytes(10))
    with pytest.raises(errors.UnusableCheckpointError, match="is damaged: cut"):
        workers.step(launch_id)


def test_long_messages_are_cut(trials):
    launch_id = next(iter(trials.launcher.alive))
    trial_id = trials.launcher.alive[launch_id].trial_id
    text = "x" * 10**6
    trials.master.workers.report_exit(trial_id, launch_id, workload.ExitedReason.ERRORED, text)
    with trials.master.workers._shared.store.reading() as session:
        longest = max(len(row.text) for row in session.list_logs(trial_id))
    assert longest < worker_messages.MOST_TEXT + 200


def test_a_disk_that_can_not_be_read_is_no_mistake_of_the_trial(
    tmp_path, write_manifest, monkeypatch
):
    directory = tmp_path / "a"
    write_manifest(directory, experiment_id=1, trial_id=1)
    worker_messages.check_owner(directory, 1, 1)

    def fail(path):
        raise OSError(errno.EIO, "no", str(path))

    monkeypatch.setattr(type(directory), "read_bytes", fail)
    with pytest.raises(OSError, match="no"):
        worker_messages.check_owner(directory, 1, 1)


def test_a_directory_that_can_not_be_looked_at_is_not_taken_for_one_that_is_not_there(
    tmp_path, monkeypatch
):
    def refuse(path, **_):
        raise NotADirectoryError(errno.ENOTDIR, "a file", str(path))

    monkeypatch.setattr(worker_messages.os, "lstat", refuse)
    with pytest.raises(OSError, match="a file"):
        worker_messages.check_owner(tmp_path / "a", 1, 1)
