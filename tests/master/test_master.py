"""Whole experiments with simulated workers over a real store."""

import dataclasses
import errno
import itertools
import os
import pathlib
import random
import sqlite3
import threading
import time
import types

import pytest

from quintain import errors
from quintain.master import master as master_lib
from quintain.master import scheduling, shared_state, slot_assignment
from quintain.master.placing import slots
from quintain.master.processes import launch_tokens
from quintain.records.config import provenance
from quintain.records.rows import checkpoint, exit_codes, states, trial, workload

SEARCHES = {
    "single": {"name": "single", "max_length": 10},
    "random": {"name": "random", "max_length": 6, "max_trials": 5, "max_concurrent_trials": 3},
    "replicated": {
        "name": "random",
        "max_length": 6,
        "max_trials": 12,
        "max_concurrent_trials": 3,
        "replicate": {"top": 3},
    },
    "adaptive_simple": {"name": "adaptive_simple", "max_length": 16, "max_trials": 8},
    "pbt": {
        "name": "pbt",
        "population_size": 5,
        "num_rounds": 3,
        "length_per_round": 5,
        "replace_function": {"truncate_fraction": 0.4},
    },
}


def create(master, config_text, searcher="random", **fields):
    chosen = SEARCHES[searcher] if isinstance(searcher, str) else searcher
    return master.commands.create_experiment(config_text(chosen, **fields), None).id


def get(store, experiment_id):
    with store.reading() as session:
        return session.get_experiment(experiment_id)


def list_trials(store, experiment_id):
    with store.reading() as session:
        return session.list_trials(experiment_id)


@pytest.mark.long("Further cases of a test of which some run every time", but=["pbt"])
@pytest.mark.slow
@pytest.mark.parametrize("searcher", SEARCHES)
def test_the_order_in_which_trials_finish_does_not_matter(
    make_master, make_workers, config_text, describe, searcher
):
    master = make_master(num_slots=3)
    shown = []
    for seed in range(4):
        experiment_id = create(master, config_text, searcher, min_validation_period={"batches": 3})
        make_workers(master, order=random.Random(seed)).run()
        shown.append(describe(experiment_id))
        assert shown[-1]["state"] == "COMPLETED"
    first = {each["request_id"]: each["parent"] for each in shown[0]["trials"]}
    for other in shown[1:]:
        offset = len(first) * shown.index(other)
        for each in other["trials"]:
            each["parent"] = each["parent"] and each["parent"] - offset
        assert other == shown[0]


@pytest.mark.long("Further seeds", but=["0-adaptive_simple", "0-pbt", "0-replicated"])
@pytest.mark.slow
@pytest.mark.parametrize("searcher", SEARCHES)
@pytest.mark.parametrize("seed", range(4))
def test_killed_workers_and_restarted_masters_change_no_result(
    make_master, make_workers, config_text, describe, fake_launcher, searcher, seed
):
    fields = {
        "min_validation_period": {"batches": 3},
        "max_restarts": 1000,
        "checkpoint_policy": "all",
    }
    master = make_master(num_slots=3)
    undisturbed = create(master, config_text, searcher, **fields)
    make_workers(master).run()
    disturbed = create(master, config_text, searcher, **fields)
    source = random.Random(seed)
    workers = make_workers(master, order=source)
    num_killed = 0

    def disturb(number):
        nonlocal num_killed
        chance = source.random()
        if (chance < 0.15 or number == 2) and fake_launcher.alive:
            fake_launcher.end(source.choice(list(fake_launcher.alive)), exit_code=1)
            num_killed += 1
        elif chance < 0.25:
            workers.master = make_master(num_slots=3)
        elif chance < 0.3 and fake_launcher.alive:
            del fake_launcher.alive[source.choice(list(fake_launcher.alive))]
            workers.master = make_master(num_slots=3)

    workers.run(on_round=disturb)
    expected, shown = describe(undisturbed), describe(disturbed)
    offset = len(expected["trials"])
    for each in shown["trials"]:
        each["parent"] = each["parent"] and each["parent"] - offset
    assert num_killed
    assert len(shown["trials"]) == len(expected["trials"])
    for one, other in zip(shown["trials"], expected["trials"], strict=True):
        assert one == other
    assert shown == expected


@pytest.mark.long("Further cases of a test of which some run every time", but=["pbt"])
@pytest.mark.slow
@pytest.mark.parametrize("searcher", SEARCHES)
def test_damaged_checkpoints_change_no_result(
    make_master, make_workers, config_text, describe, fake_launcher, store, searcher
):
    fields = {
        "min_validation_period": {"batches": 3},
        "max_restarts": 1000,
        "min_checkpoint_period": {"batches": 1},
    }
    master = make_master(num_slots=3)
    undisturbed = create(master, config_text, searcher, **fields)
    make_workers(master).run()
    disturbed = create(master, config_text, searcher, **fields)
    source = random.Random(1)
    num_damaged, begun_anew = 0, set()

    def find_damage(spec):
        nonlocal num_damaged
        with store.reading() as session:
            there = session.list_checkpoints(
                trial_id=spec.trial_id, states=[checkpoint.CheckpointState.COMPLETED]
            )
        # A clone can't do without the checkpoint that it begins from. Each trial begins anew once.
        is_spared = spec.is_warm_start or (len(there) == 1 and spec.trial_id in begun_anew)
        is_damaged = not is_spared and source.random() < 0.8
        if is_damaged and len(there) == 1:
            begun_anew.add(spec.trial_id)
        num_damaged += is_damaged
        return is_damaged

    workers = make_workers(master, order=source, find_damage=find_damage)

    def disturb(number):
        if number % 4 == 3 and fake_launcher.alive:
            fake_launcher.end(source.choice(list(fake_launcher.alive)), exit_code=1)
        elif source.random() < 0.1:
            workers.master = make_master(num_slots=3)

    workers.run(on_round=disturb)
    expected, shown = describe(undisturbed), describe(disturbed)
    offset = len(expected["trials"])
    for each in shown["trials"]:
        each["parent"] = each["parent"] and each["parent"] - offset
    assert num_damaged > len(begun_anew) > 0
    assert shown == expected


def test_a_damaged_checkpoint_is_marked_and_the_trial_says_what_it_goes_on_from(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master()
    experiment_id = create(master, config_text, "single", min_checkpoint_period={"batches": 4})
    workers = make_workers(master, find_damage=lambda spec: spec.checkpoint == newest)
    newest = "-"
    master.tick()
    (launch_id,) = fake_launcher.alive
    for _ in range(5):  # train 4, save, train 4, save, train 2
        workers.step(launch_id)
    (before,) = list_trials(store, experiment_id)
    newest = before.latest_checkpoint
    fake_launcher.end(launch_id, exit_code=1)
    master.tick()
    (launch_id,) = fake_launcher.alive
    work = workers.step(launch_id)
    (after,) = list_trials(store, experiment_id)
    with store.reading() as session:
        marked = session.get_checkpoint(newest)
        texts = [row.text for row in session.list_logs(after.id)]
    assert (work.total_batches, after.total_batches) == (4, 8)
    assert workers.specs[launch_id].checkpoint != newest
    assert (marked.state, marked.metadata) == (
        checkpoint.CheckpointState.DAMAGED,
        {"damage": "cut"},
    )
    assert f"Checkpoint {newest} (batch 8) is damaged: cut." in after.reason
    assert after.reason in texts


def test_a_trial_whose_only_checkpoint_is_damaged_begins_anew(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master()
    create(master, config_text, "single", min_checkpoint_period={"batches": 4})
    workers = make_workers(master)
    master.tick()
    (launch_id,) = fake_launcher.alive
    for _ in range(2):
        workers.step(launch_id)
    fake_launcher.end(launch_id, exit_code=1)
    master.tick()
    workers.find_damage = lambda spec: True
    (launch_id,) = fake_launcher.alive
    work = workers.step(launch_id)
    (after,) = list_trials(store, 1)
    assert (work.total_batches, after.total_batches) == (0, 4)
    assert "no older one of the trial, which begins anew" in after.reason
    workers.run()
    assert get(store, 1).state == "COMPLETED"


def test_a_damaged_source_of_a_warm_start_is_an_error(
    make_master, make_workers, config_text, fake_launcher, tmp_path
):
    (tmp_path / "home" / "checkpoints").mkdir(parents=True)
    master = make_master()
    create(master, config_text, "single")
    make_workers(master).run()
    create(master, config_text, {"name": "single", "max_length": 4, "source_trial_id": 1})
    master.tick()
    (launch_id,) = fake_launcher.alive
    workers = make_workers(master, find_damage=lambda spec: True)
    with pytest.raises(errors.CheckpointError, match="damaged: cut"):
        workers.step(launch_id)


def test_a_running_trial_keeps_its_best_checkpoint_and_its_newest_two(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master()
    fields = {"min_checkpoint_period": {"batches": 1}, "min_validation_period": {"batches": 1}}
    create(master, config_text, "single", **fields)
    # The first validation is the best.
    workers = make_workers(master, metric=lambda hparams, seed, batches: float(batches))
    master.tick()
    (launch_id,) = fake_launcher.alive
    counts = []
    while launch_id in fake_launcher.alive:
        workers.step(launch_id)
        master.tick()
        with store.reading() as session:
            there = session.list_checkpoints(states=[checkpoint.CheckpointState.COMPLETED])
        counts.append([each.total_batches for each in there])
    assert max(map(len, counts)) == 3
    assert [1, 6, 7] in counts
    assert counts[-1] == [1, 10]


def test_the_status_says_what_running_trials_wait_for(
    make_master, make_workers, config_text, fake_launcher
):
    master = make_master(num_slots=2)
    create(master, config_text)
    workers = make_workers(master)
    master.tick()
    launches = {each.trial_id: launch_id for launch_id, each in fake_launcher.alive.items()}
    for trial_id, launch_id in launches.items():
        workers.step(launch_id)
        master.workers.note_wait(trial_id, launch_id, f"s3://b: denied {trial_id}")

    first, second = launches
    told = f"Trial {first} (as do 1 more) waits for s3://b: denied {first}"
    assert master.status().experiments[0].waits_for == told
    assert master.summary().experiments[0].waits_for == told
    master.workers.note_wait(second, launches[second], "")
    master.workers.start_run(first, trial.ProcessIdentity(1, 1.0, launches[first]))
    assert master.status().experiments[0].waits_for == ""
    with pytest.raises(errors.GoneError):
        master.workers.note_wait(first, "another", "b")


def test_notes_within_a_workload_move_what_is_shown_and_nothing_that_is_stored(
    make_master, make_workers, config_text, fake_launcher, store, clock
):
    master = make_master(num_slots=1)
    create(master, config_text, {"name": "random", "max_length": 8, "max_trials": 3})
    master.tick()
    (launch_id,) = fake_launcher.alive
    assert [one.doing for one in master.describe(1).work] == ["starting"]
    master.workers.start_run(1, trial.ProcessIdentity(1, 1.0, launch_id))
    work = master.workers.next_workload(1, launch_id, 0.0)
    machine = master._shared.entries[1].machine
    before, stored = machine.describe(), get(store, 1)

    master.workers.note_steps(1, launch_id, 1, 1)
    clock.offset += 1.0
    for number, batches in (
        (1, 3),
        (1, 2),
        (2, 4),
    ):  # Older than what is known, and of no workload.
        master.workers.note_steps(1, launch_id, number, batches)

    found = master.describe(1)
    assert [(one.doing, one.progress) for one in found.work] == [("training 3/8", 3 / 8)]
    assert found.progress == master.summary().experiments[0].progress == pytest.approx(0.9 * 3 / 24)
    assert found.eta_secs == pytest.approx(24 * 0.5 - 1.0, abs=0.2)
    assert (machine.describe(), get(store, 1)) == (before, stored)
    master.workers.note_steps(1, launch_id, 1, 10**9)
    assert master.describe(1).work[0].doing == "training 4/8"
    workers = make_workers(master)
    workers.specs[launch_id] = types.SimpleNamespace(hparams={"lr": 1.0, "units": 1}, seed=1)
    master.workers.report(1, launch_id, workers.answer(launch_id, work))
    assert master.describe(1).progress == machine.progress
    with pytest.raises(errors.GoneError):
        master.workers.note_steps(1, "another", 1, 1)


def test_the_status_says_what_running_trials_do(
    make_master, make_workers, config_text, fake_launcher
):
    master = make_master(num_slots=1, idle_secs=60.0)
    create(master, config_text, {"name": "single", "max_length": 8})
    master.tick()
    (launch_id,) = fake_launcher.alive
    workers, seen = make_workers(master), []
    while launch_id in fake_launcher.alive:
        master.workers.next_workload(1, launch_id, 0.0)
        seen += [one.doing for status in [master.describe(1)] if status for one in status.work]
        workers.step(launch_id)
    assert seen == ["training 0/8", "training 4/8", "evaluating", "saving", "ending"]


def test_a_master_that_takes_over_learns_from_notes_what_trials_do(
    make_master, make_workers, config_text, fake_launcher
):
    master = make_master(num_slots=1)
    create(master, config_text, {"name": "single", "max_length": 8})
    master.tick()
    (launch_id,) = fake_launcher.alive
    make_workers(master).step(launch_id)
    second = make_master(num_slots=1)
    assert second.describe(1).work[0].doing == "running"
    second.workers.note_steps(1, launch_id, 2, 1)
    assert second.describe(1).work[0].doing == "training 5/8"


def test_a_result_that_is_sent_twice_counts_once(
    make_master, make_workers, config_text, fake_launcher
):
    master = make_master()
    create(master, config_text, "single")
    master.tick()
    (launch_id,) = fake_launcher.alive
    workers = make_workers(master)
    work = workers.step(launch_id)
    answer = workers.answer(launch_id, work)
    master.workers.report(work.trial_id, launch_id, answer)
    make_master().workers.report(work.trial_id, launch_id, answer)
    following = master.workers.next_workload(work.trial_id, launch_id, 0.0)
    assert (following.number, following.total_batches) == (2, 4)


def test_a_result_of_a_run_that_is_not_wanted_is_refused(
    make_master, make_workers, config_text, fake_launcher
):
    master = make_master()
    create(master, config_text, "single")
    master.tick()
    (launch_id,) = fake_launcher.alive
    workers = make_workers(master)
    work = workers.step(launch_id)
    fake_launcher.end(launch_id, exit_code=1)
    master.tick()
    with pytest.raises(errors.GoneError, match=launch_id):
        master.workers.report(work.trial_id, launch_id, workers.answer(launch_id, work))


def test_a_trial_goes_back_to_its_checkpoint_and_forgets_what_came_later(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master()
    experiment_id = create(master, config_text, "single", min_checkpoint_period={"batches": 4})
    workers = make_workers(master)
    master.tick()
    (launch_id,) = fake_launcher.alive
    for _ in range(3):  # train 4, save, train 4
        workers.step(launch_id)
    (before,) = list_trials(store, experiment_id)
    fake_launcher.end(launch_id, exit_code=1, last_lines=["boom"])
    master.tick()
    (after,) = list_trials(store, experiment_id)
    assert (before.total_batches, after.total_batches, after.restarts) == (8, 4, 1)
    assert "boom" in after.reason
    with store.reading() as session:
        assert [row.total_batches for row in session.list_metrics(after.id)] == [4]
        assert [at for at, _ in session.list_batch_metrics(after.id)] == [4]
    (launch_id,) = fake_launcher.alive
    workers.step(launch_id)
    spec = workers.specs[launch_id]
    assert spec.checkpoint == after.latest_checkpoint
    assert not spec.is_warm_start


def test_a_trial_that_fails_too_often_does_not_end_the_search(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master()
    experiment_id = create(master, config_text, "random", max_restarts=2)
    bad = list_trials(store, experiment_id)[1].id

    def crash(number):
        for launch_id, launch in list(fake_launcher.alive.items()):
            if launch.trial_id == bad:
                fake_launcher.end(launch_id, exit_code=1, last_lines=["ValueError: bad"])

    make_workers(master).run(on_round=crash)
    trials = {each.id: each for each in list_trials(store, experiment_id)}
    assert get(store, experiment_id).state is states.ExperimentState.COMPLETED
    assert trials[bad].state is states.TrialState.ERROR
    assert (trials[bad].restarts, "ValueError: bad" in trials[bad].reason) == (2, True)
    assert sum(each.state is states.TrialState.COMPLETED for each in trials.values()) == 4


def test_an_experiment_whose_trials_all_fail_says_why(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master()
    experiment_id = create(master, config_text, "random", max_restarts=0)

    def crash(number):
        for launch_id in list(fake_launcher.alive):
            fake_launcher.end(launch_id, exit_code=1, last_lines=["ValueError: bad"])

    make_workers(master).run(on_round=crash)
    record = get(store, experiment_id)
    assert record.state is states.ExperimentState.ERROR
    assert "No trial completed" in record.reason
    assert "ValueError: bad" in record.reason


def test_invalid_hyperparameters_are_not_tried_again(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master()
    experiment_id = create(master, config_text, "random")
    bad = list_trials(store, experiment_id)[0].id

    def refuse(number):
        for launch_id, launch in list(fake_launcher.alive.items()):
            if launch.trial_id == bad:
                fake_launcher.end(launch_id, exit_code=exit_codes.ExitCode.INVALID_HPARAMS)

    make_workers(master).run(on_round=refuse)
    trials = list_trials(store, experiment_id)
    assert len(trials) == 6  # another point was drawn for it
    assert (trials[0].state, trials[0].restarts) == (states.TrialState.ERROR, 0)
    assert "Invalid hyperparameters" in trials[0].reason


def test_a_lost_process_uses_up_no_restart_but_not_for_ever(
    make_master, config_text, fake_launcher, store, monkeypatch
):
    monkeypatch.setattr(scheduling, "LAUNCH_PAUSE_SECS", 0.0)
    master = make_master()
    experiment_id = create(master, config_text, "single", max_restarts=0)
    for _ in range(5):
        master.tick()
        fake_launcher.alive.clear()
        master = make_master()
        (record,) = list_trials(store, experiment_id)
        assert (record.state, record.restarts) == (states.TrialState.ACTIVE, 0)
    master.tick()
    fake_launcher.alive.clear()
    make_master()
    assert list_trials(store, experiment_id)[0].state is states.TrialState.ERROR


def test_a_missing_metric_ends_the_trial_and_names_the_nearest(
    make_master, make_workers, config_text, store
):
    master = make_master()
    searcher = {**SEARCHES["single"], "metric": "los"}
    experiment_id = create(master, config_text, searcher)
    make_workers(master).run()
    record = get(store, experiment_id)
    assert record.state is states.ExperimentState.ERROR
    assert "got 'los', but the validation gave loss. Did you mean 'loss'?" in record.reason


@pytest.mark.slow
def test_a_metric_that_is_no_number_is_shown_and_counts_as_the_worst(
    make_master, make_workers, config_text, store
):
    master = make_master()
    experiment_id = create(master, config_text, "pbt")
    bad = list_trials(store, experiment_id)[0].hparams

    def metric(hparams, seed, batches):
        return float("nan") if hparams == bad else hparams["lr"]

    make_workers(master, metric=metric).run()
    first = list_trials(store, experiment_id)[0]
    assert first.state is states.TrialState.COMPLETED
    assert first.total_batches == 5  # closed after the first round
    assert first.latest_metric != first.latest_metric
    with store.reading() as session:
        assert session.list_metrics(first.id)[-1].metrics == {"loss": "NaN"}


def test_clones_start_from_their_parents_checkpoint(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master()
    experiment_id = create(master, config_text, "pbt")
    workers = make_workers(master)
    workers.run()
    clones = [each for each in list_trials(store, experiment_id) if each.parent_trial_id]
    assert len(clones) == 4
    by_trial = {}
    for spec in workers.specs.values():
        by_trial.setdefault(spec.trial_id, spec)
    for clone in clones:
        spec = by_trial[clone.id]
        assert spec.is_warm_start
        assert f"c-{clone.parent_trial_id}-" in spec.checkpoint


def test_a_paused_experiment_saves_its_trials_and_goes_on_later(
    make_master, make_workers, config_text, fake_launcher, store, describe
):
    master = make_master()
    undisturbed = create(master, config_text, "random")
    make_workers(master).run()
    experiment_id = create(master, config_text, "random")
    workers = make_workers(master)
    master.tick()
    for launch_id in list(fake_launcher.alive):
        workers.step(launch_id)
    assert master.commands.apply(experiment_id, "pause").state is states.ExperimentState.PAUSED
    for _ in range(4):
        master.tick()
        for launch_id in list(fake_launcher.alive):
            workers.step(launch_id)
    assert not fake_launcher.alive
    running = [each for each in list_trials(store, experiment_id) if each.total_batches]
    assert [each.total_batches for each in running] == [4, 4]
    assert all(each.latest_checkpoint for each in running)
    master.commands.apply(experiment_id, "activate")
    workers.run()
    expected = describe(undisturbed)
    assert describe(experiment_id)["trials"] == expected["trials"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["cancel", "kill"])
def test_an_ended_experiment_can_be_continued_where_it_was(
    make_master, make_workers, config_text, fake_launcher, store, describe, command
):
    master = make_master()
    undisturbed = create(master, config_text, "adaptive_simple")
    make_workers(master).run()
    experiment_id = create(master, config_text, "adaptive_simple")
    workers = make_workers(master)
    for _ in range(6):
        master.tick()
        for launch_id in list(fake_launcher.alive):
            workers.step(launch_id)
    master.commands.apply(experiment_id, command)
    workers.run()
    record = get(store, experiment_id)
    assert record.state is states.ExperimentState.CANCELED
    assert record.end_time is not None
    assert all(each.state.is_terminal for each in list_trials(store, experiment_id))
    if command == "cancel":
        assert not fake_launcher.killed
    assert master.commands.apply(experiment_id, command).state is states.ExperimentState.CANCELED
    master.commands.continue_experiment(experiment_id, [])
    workers.master = make_master()
    workers.run()
    assert describe(experiment_id)["trials"] == describe(undisturbed)["trials"]


def test_a_single_trial_can_be_trained_longer(make_master, make_workers, config_text, store):
    master = make_master()
    experiment_id = create(master, config_text, "single")
    make_workers(master).run()
    with pytest.raises(errors.StateError, match=r"Raise searcher\.max_length"):
        master.commands.continue_experiment(experiment_id, [])
    master.commands.continue_experiment(experiment_id, ["searcher.max_length=20"])
    workers = make_workers(make_master())
    workers.run()
    (record,) = list_trials(store, experiment_id)
    assert (record.total_batches, record.state) == (20, states.TrialState.COMPLETED)
    assert sum(work.num_batches for work in workers.done) == 10


@pytest.mark.parametrize("when", ["running", "ended"])
def test_a_search_can_be_given_more_trials(make_master, make_workers, config_text, store, when):
    master = make_master()
    experiment_id = create(master, config_text, "random")
    if when == "ended":
        make_workers(master).run()
    with pytest.raises(errors.StateError, match="more than the present 5"):
        master.commands.update_experiment(experiment_id, {"max_trials": 5})
    master.commands.update_experiment(experiment_id, {"max_trials": 9})
    make_workers(make_master()).run()
    trials = list_trials(store, experiment_id)
    assert len(trials) == 9
    assert {each.state for each in trials} == {states.TrialState.COMPLETED}
    assert get(store, experiment_id).config["searcher"]["max_trials"] == 9
    pbt = create(master, config_text, "pbt")
    with pytest.raises(errors.StateError, match="fork"):
        master.commands.update_experiment(pbt, {"max_trials": 9})


def test_what_an_experiment_may_be_asked_depends_on_its_state(
    make_master, make_workers, config_text
):
    master = make_master()
    experiment_id = create(master, config_text, "single")
    for command in ("archive", "unarchive"):
        with pytest.raises(errors.StateError, match="only an ended one"):
            master.commands.apply(experiment_id, command)
    with pytest.raises(errors.StateError, match="only an ended one"):
        master.commands.delete_experiment(experiment_id)
    with pytest.raises(errors.StateError, match="only an ended one"):
        master.commands.continue_experiment(experiment_id, [])
    with pytest.raises(errors.NotFoundError, match="Choose one of pause, activate, cancel"):
        master.commands.apply(experiment_id, "stop")
    make_workers(master).run()
    for command in ("pause", "activate", "cancel", "kill"):
        with pytest.raises(errors.StateError, match="may be archived, deleted, forked"):
            master.commands.apply(experiment_id, command)
    assert master.commands.apply(experiment_id, "archive").is_archived
    assert not master.commands.apply(experiment_id, "unarchive").is_archived
    master.commands.delete_experiment(experiment_id)
    with pytest.raises(errors.NotFoundError):
        master.commands.apply(experiment_id, "pause")


def test_a_killed_trial_ends_and_the_search_goes_on(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master()
    experiment_id = create(master, config_text, "random")
    master.tick()
    victim = next(iter(fake_launcher.alive.values())).trial_id
    assert master.commands.kill_trial(victim).state is states.TrialState.CANCELED
    assert len(fake_launcher.killed) == 1
    make_workers(master).run()
    ended = [each.state.value for each in list_trials(store, experiment_id)]
    assert sorted(ended) == ["CANCELED", *["COMPLETED"] * 4]


def test_a_trial_is_run_again_with_its_hyperparameters_and_seed(
    make_master, make_workers, config_text, store
):
    master = make_master()
    experiment_id = create(master, config_text, "random")
    make_workers(master).run()
    former = list_trials(store, experiment_id)[3]
    again = master.commands.rerun_trial(former.id)
    make_workers(master).run()
    (record,) = list_trials(store, again.id)
    assert (record.hparams, record.seed) == (former.hparams, former.seed)
    assert (record.total_batches, record.best_metric) == (6, former.best_metric)
    assert again.parent_id == experiment_id


def test_a_trial_is_continued_from_its_newest_checkpoint(
    make_master, make_workers, config_text, store
):
    master = make_master()
    experiment_id = create(master, config_text, "random")
    make_workers(master).run()
    former = list_trials(store, experiment_id)[3]

    again = master.commands.continue_trial(former.id, ["searcher.max_length=4", "name=longer"])
    workers = make_workers(master)
    workers.run()

    (record,) = list_trials(store, again.id)
    assert (record.hparams, record.seed, record.total_batches) == (former.hparams, former.seed, 4)
    (spec,) = workers.specs.values()
    assert spec.checkpoint == former.latest_checkpoint
    assert (again.config["name"], again.parent_id) == ("longer", experiment_id)


def test_a_trial_without_a_checkpoint_can_not_be_continued(make_master, config_text):
    master = make_master()
    create(master, config_text, "single")
    with pytest.raises(errors.ConfigError, match="trial 1 has no checkpoint"):
        master.commands.continue_trial(1, [])


def test_where_an_experiment_comes_from_is_kept_and_inherited(make_master, config_text, tmp_path):
    master = make_master()
    origin = provenance.Provenance(
        1.0, ("quintain",), "/", "3.12", "Linux", "host", "cpu", 2, None, {"keras": "3.15"},
        provenance.GitState("c0ffee", "main", is_dirty=False),
    )  # fmt: skip

    first = master.commands.create_experiment(config_text(SEARCHES["single"]), None, origin=origin)
    fork = master.commands.fork_experiment(first.id, None, [])
    rerun = master.commands.rerun_trial(1)
    unknown = create(master, config_text, "single")

    assert provenance.load(first.model_dir) == origin
    assert provenance.load(fork.model_dir) == dataclasses.replace(origin, forked_from=first.id)
    assert provenance.load(rerun.model_dir) == provenance.load(fork.model_dir)
    assert provenance.load(str(tmp_path / "home" / "experiments" / str(unknown) / "x")) is None


def test_all_trials_start_from_another_experiments_trial(
    make_master, make_workers, config_text, store
):
    master = make_master()
    first = create(master, config_text, "single")
    make_workers(master).run()
    (source,) = list_trials(store, first)
    searcher = {**SEARCHES["random"], "source_trial_id": source.id}
    create(master, config_text, searcher)
    with pytest.raises(errors.StateError, match="start from its checkpoints"):
        master.commands.delete_experiment(first)
    with pytest.raises(errors.StateError, match="goes on from it"):
        master.commands.delete_checkpoint(source.latest_checkpoint)
    workers = make_workers(master)
    workers.run()
    assert all(
        spec.checkpoint == source.latest_checkpoint and spec.is_warm_start
        for spec in workers.specs.values()
    )


def test_only_the_checkpoints_that_were_asked_for_are_kept(
    make_master, make_workers, config_text, store
):
    master = make_master()
    experiment_id = create(master, config_text, "single", min_checkpoint_period={"batches": 2})
    make_workers(master).run()

    def count():
        with store.reading() as session:
            kept = session.list_checkpoints(
                experiment_id=experiment_id, states=[checkpoint.CheckpointState.COMPLETED]
            )
        return [each.total_batches for each in kept]

    assert count() == [10]
    master.commands.update_experiment(experiment_id, {"checkpoint_storage": {"save_trial_best": 0}})
    assert count() == [10]
    master.commands.update_experiment(
        experiment_id, {"checkpoint_storage": {"save_trial_latest": 0}}
    )
    assert count() == []
    with pytest.raises(errors.ConfigError, match="Did you mean 'save_trial_best'"):
        master.commands.update_experiment(
            experiment_id, {"checkpoint_storage": {"save_trail_best": 0}}
        )


def test_a_trial_that_asks_to_stop_is_saved_and_completes(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master()
    experiment_id = create(master, config_text, "single")
    workers = make_workers(master)
    plain = workers.answer

    def answer(launch_id, work):
        result = plain(launch_id, work)
        if work.number == 2:
            reason = workload.ExitedReason.USER_CANCELED
            return workload.WorkloadResult(**{**vars(result), "exited_reason": reason})
        return result

    workers.answer = answer
    workers.run()
    kinds = [work.kind.value for work in workers.done]
    assert kinds == ["TRAIN", "TRAIN", "CHECKPOINT"]
    (record,) = list_trials(store, experiment_id)
    assert record.state is states.TrialState.COMPLETED
    assert "asked to stop" in record.reason
    assert get(store, experiment_id).state is states.ExperimentState.COMPLETED


def test_a_workload_that_takes_too_long_is_a_failure(
    make_master, make_workers, config_text, fake_launcher, store, monkeypatch
):
    master = make_master()
    experiment_id = create(master, config_text, "single", workload_timeout=0.001, max_restarts=0)
    master.tick()
    (launch_id,) = fake_launcher.alive
    workers = make_workers(master)
    workers.specs[launch_id] = None
    identity = trial.ProcessIdentity(1, 1.0, launch_id)
    trial_id = fake_launcher.alive[launch_id].trial_id
    master.workers.start_run(trial_id, identity)
    master.workers.next_workload(trial_id, launch_id, 0.0)
    time.sleep(0.01)
    for _ in range(3):
        master.tick()
    assert fake_launcher.killed == [launch_id]
    record = get(store, experiment_id)
    assert "workload_timeout: the trial took more than 0.001 s to do workload 1" in record.reason


class Clock:
    """The time of the master, which may be set forward."""

    def __init__(self, monkeypatch):
        now = time.monotonic
        self.offset = 0.0
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(scheduling.time, "monotonic", lambda: now() + self.offset)

    def count_stops(self):
        """Counts the time in which the master was stopped as well."""
        self._monkeypatch.setattr(scheduling, "_STOPPED_SECS", 1e9)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def begin_waiting(make_master, make_workers, config_text, fake_launcher, clock):
    """Returns a function that starts a trial with a limit of a minute, which waits for a disk."""

    def begin(**fields):
        clock.count_stops()
        master = make_master()
        create(master, config_text, "single", workload_timeout=60.0, **fields)
        master.tick()
        (launch_id,) = fake_launcher.alive
        trial_id = fake_launcher.alive[launch_id].trial_id
        make_workers(master).step(launch_id)
        master.workers.note_wait(trial_id, launch_id, "ckpt/a: No space left on device")
        return master, trial_id, launch_id

    return begin


def test_the_time_in_which_the_master_was_stopped_is_not_counted_against_trials(
    make_master, config_text, fake_launcher, clock
):
    master = make_master()
    create(master, config_text, "single", workload_timeout=60.0, max_restarts=0)
    master.tick()

    clock.offset = 3600.0
    master.tick()
    assert fake_launcher.killed == []

    clock.count_stops()
    clock.offset += 61.0
    master.tick()
    assert len(fake_launcher.killed) == 1


def test_the_time_in_which_a_trial_waits_is_not_counted_against_it(
    begin_waiting, fake_launcher, clock
):
    master, trial_id, launch_id = begin_waiting(max_restarts=0)
    clock.offset = 3600.0
    master.tick()
    master.workers.note_wait(trial_id, launch_id, "")
    master.tick()
    assert fake_launcher.killed == []
    clock.offset += 61.0
    master.tick()
    assert fake_launcher.killed == [launch_id]


def test_what_an_ended_process_waited_for_excuses_no_later_one(begin_waiting, fake_launcher, clock):
    master, _, launch_id = begin_waiting(max_restarts=1)
    fake_launcher.end(launch_id, exit_code=1)
    master.tick()
    master.tick()
    assert master.status().experiments[0].waits_for == ""
    (second,) = fake_launcher.alive

    clock.offset = 61.0
    master.tick()
    assert fake_launcher.killed == [second]


def test_a_full_disk_of_a_trials_machine_uses_up_no_restart(
    make_master, make_workers, config_text, fake_launcher, store, monkeypatch, caplog
):
    monkeypatch.setattr(scheduling, "LAUNCH_PAUSE_SECS", 0.0)
    master = make_master()
    experiment_id = create(master, config_text, "single", max_restarts=0)
    master.tick()
    (launch_id,) = fake_launcher.alive
    make_workers(master).step(launch_id)
    no_room = exit_codes.ExitCode.NO_ROOM
    fake_launcher.end(
        launch_id, exit_code=no_room, last_lines=["A disk can't be used: cache/a", "end"]
    )
    master.tick()
    reason = list_trials(store, experiment_id)[0].reason
    assert reason.startswith("A disk of its machine can't be used: cache/a\n")
    assert "trial 1 starts again: A disk of its machine can't be used: cache/a" in caplog.text
    make_workers(master).run()
    assert get(store, experiment_id).state is states.ExperimentState.COMPLETED
    assert list_trials(store, experiment_id)[0].restarts == 0


def test_no_work_is_handed_out_while_the_store_cannot_be_written(
    make_master, make_workers, config_text, fake_launcher, store, monkeypatch, describe
):
    master = make_master()
    undisturbed = create(master, config_text, "random")
    make_workers(master).run()
    experiment_id = create(master, config_text, "random")
    workers = make_workers(master)
    master.tick()
    launch_ids = list(fake_launcher.alive)
    work = workers.step(launch_ids[0])
    plain = store.transaction
    monkeypatch.setattr(shared_state, "_CHECK_SECS", 0.0)
    monkeypatch.setattr(store, "transaction", _raise_full)
    following = master.workers.next_workload(work.trial_id, launch_ids[0], 0.0)
    with pytest.raises(errors.StoreError, match="disk is full"):
        master.workers.report(
            work.trial_id, launch_ids[0], workers.answer(launch_ids[0], following)
        )
    master.tick()
    assert "disk is full" in master.status().problem
    assert master.workers.next_workload(work.trial_id, launch_ids[0], 0.0) is None
    monkeypatch.setattr(store, "transaction", plain)
    master.tick()
    assert master.status().problem == ""
    workers.run()
    assert describe(experiment_id)["trials"] == describe(undisturbed)["trials"]


def _raise_full():
    raise errors.StoreError("The disk is full.")


@pytest.mark.parametrize(
    ("code", "words"),
    [(errno.EIO, "broken or gone"), (errno.EROFS, "read-only"), (errno.ENOSPC, "Make room")],
)
def test_a_lost_disk_of_the_home_ends_no_experiment(
    make_master, make_workers, config_text, monkeypatch, describe, caplog, tmp_path, code, words
):
    master = make_master()
    undisturbed = create(master, config_text, "random")
    make_workers(master).run()
    experiment_id = create(master, config_text, "random")
    workers = make_workers(master)
    workers.run_round()

    def refuse(*_):
        raise OSError(code, os.strerror(code), str(tmp_path / "home" / "scratch" / "x"))

    monkeypatch.setattr(shared_state, "_CHECK_SECS", 0.0)
    with monkeypatch.context() as patch:
        # What handles one experiment meets the disk, and so does who looks whether it is back.
        patch.setattr(scheduling.Scheduling, "_end_run", refuse)
        patch.setattr(shared_state.disk_errors, "check_disk", refuse)
        for _ in range(3):
            master.tick()
            assert words in master.status().problem
    assert caplog.text.count("No work is handed out") == 1

    workers.run()
    assert "Work is handed out again" in caplog.text
    assert describe(experiment_id)["trials"] == describe(undisturbed)["trials"]


def test_no_work_is_handed_out_while_the_home_is_away(
    make_master, make_workers, config_text, monkeypatch, fake_launcher, tmp_path
):
    master = make_master()
    create(master, config_text, "random")
    monkeypatch.setattr(shared_state, "_CHECK_SECS", 0.0)
    (tmp_path / "home" / "home.json").rename(tmp_path / "home.json")

    master.tick()

    assert "home.json: it is not there any more. See whether its disk is mounted" in (
        master.status().problem
    )
    assert not fake_launcher.alive
    (tmp_path / "home.json").rename(tmp_path / "home" / "home.json")
    master.tick()
    assert (master.status().problem, bool(fake_launcher.alive)) == ("", True)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_the_status_does_not_wait_for_a_program_that_locks_the_store(
    make_master, config_text, fake_launcher, tmp_path
):
    master = make_master()
    create(master, config_text, "single")
    other = sqlite3.connect(tmp_path / "home" / "quintain.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    scheduling_thread = threading.Thread(target=master.tick)
    scheduling_thread.start()
    while not (status := master.status()).problem:
        assert scheduling_thread.is_alive()
    assert "the database is locked by" in status.problem
    assert [each.experiment_id for each in status.experiments] == [1]
    other.rollback()
    other.close()
    scheduling_thread.join()
    assert (master.status().problem, len(fake_launcher.alive)) == ("", 1)


@pytest.mark.slow
def test_slots_are_shared_and_the_lower_share_makes_room(
    make_master, make_workers, config_text, fake_launcher
):
    master = make_master(num_slots=4)
    many = {"name": "random", "max_length": 40, "max_trials": 8}
    first = create(master, config_text, many)
    master.tick()
    second = create(master, config_text, many)
    workers = make_workers(master)
    for _ in range(6):
        master.tick()
        for launch_id in list(fake_launcher.alive):
            workers.step(launch_id)
    held = [each.experiment_id for each in fake_launcher.alive.values()]
    assert (held.count(first), held.count(second)) == (2, 2)
    assert [slot.experiment_id for slot in master.status().slots].count(second) == 2
    workers.run()


def test_the_remaining_time_follows_from_what_a_batch_takes(
    make_master, make_workers, config_text, fake_launcher
):
    master = make_master(num_slots=1)
    create(master, config_text, {"name": "random", "max_length": 8, "max_trials": 3})
    assert master.status().experiments[0].eta_secs is None
    master.tick()
    (launch_id,) = fake_launcher.alive
    make_workers(master).step(launch_id)  # 4 batches in 1 second
    assert master.status().experiments[0].eta_secs == pytest.approx(20 / 4)


def test_validations_count_in_the_remaining_time_once_one_was_seen(
    make_master, make_workers, config_text, fake_launcher
):
    master = make_master(num_slots=1)
    create(master, config_text, {"name": "random", "max_length": 8, "max_trials": 3})
    master.tick()
    (launch_id,) = fake_launcher.alive
    workers = make_workers(master)
    for _ in range(4):  # Twice 4 batches, a validation and a checkpoint, each in 1 second.
        workers.step(launch_id)
    assert master.status().experiments[0].eta_secs == pytest.approx(16 * (1 / 4 + 1 / 8))


def test_the_remaining_time_is_not_known_before_the_only_validation(
    make_master, make_workers, config_text, fake_launcher
):
    master = make_master(num_slots=1)
    create(master, config_text, {"name": "single", "max_length": 8})
    master.tick()
    (launch_id,) = fake_launcher.alive
    workers = make_workers(master)
    for _ in range(2):
        workers.step(launch_id)
    (found,) = master.status().experiments
    assert (found.eta_secs, found.progress) == (None, 0.9)


def test_the_time_that_a_running_workload_has_taken_counts(
    make_master, make_workers, config_text, fake_launcher, clock
):
    master = make_master(num_slots=1)
    create(master, config_text, {"name": "random", "max_length": 8, "max_trials": 3})
    master.tick()
    (launch_id,) = fake_launcher.alive
    make_workers(master).step(launch_id)
    master.workers.next_workload(1, launch_id, 0.0)
    clock.offset += 0.5
    assert master.status().experiments[0].eta_secs == pytest.approx(4.5, abs=0.2)
    clock.offset += 100.0
    assert master.status().experiments[0].eta_secs == pytest.approx(4.0)


def test_a_drained_master_runs_no_process_and_the_next_one_goes_on(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master()
    master.start()
    experiment_id = create(master, config_text, "random")
    workers = make_workers(master)
    draining = threading.Thread(target=master.drain)
    draining.start()
    while draining.is_alive():
        for launch_id in list(fake_launcher.alive):
            if launch_id in fake_launcher.alive:
                workers.step(launch_id)
    draining.join()
    assert not fake_launcher.alive
    assert get(store, experiment_id).state is states.ExperimentState.PAUSED
    master.stop()
    second = make_master()
    second.commands.apply(experiment_id, "activate")
    make_workers(second).run()
    assert get(store, experiment_id).state is states.ExperimentState.COMPLETED


@pytest.mark.parametrize(
    "searcher",
    [
        {"name": "tpe", "max_length": 4, "max_trials": 6},
        {"name": "async_halving", "num_rungs": 2, "max_length": 8, "max_trials": 6},
        {
            "name": "async_halving",
            "num_rungs": 2,
            "max_length": 8,
            "max_trials": 6,
            "stop_once": True,
        },
        {"name": "adaptive_asha", "max_length": 16, "max_trials": 6},
    ],
    ids=["tpe", "promotion", "stopping", "brackets"],
)
@pytest.mark.parametrize("when", ["running", "ended"])
def test_asynchronous_searches_can_be_given_more_trials_too(
    make_master, make_workers, config_text, store, searcher, when
):
    master = make_master()
    experiment_id = create(master, config_text, searcher)
    if when == "ended":
        make_workers(master).run()
        assert len(list_trials(store, experiment_id)) == 6
    master.commands.update_experiment(experiment_id, {"max_trials": 11})
    make_workers(make_master()).run()
    trials = list_trials(store, experiment_id)
    assert len(trials) == 11
    assert {each.state for each in trials} == {states.TrialState.COMPLETED}


def test_failed_trials_of_a_random_search_get_another_chance(
    make_master, make_workers, config_text, fake_launcher, store
):
    master = make_master()
    experiment_id = create(master, config_text, "random", max_restarts=0)
    bad = list_trials(store, experiment_id)[1].id

    def crash(number):
        for launch_id, launch in list(fake_launcher.alive.items()):
            if launch.trial_id == bad:
                fake_launcher.end(launch_id, exit_code=1)

    make_workers(master).run(on_round=crash)
    with pytest.raises(errors.StateError, match=r"searcher\.metric.*fork it"):
        master.commands.continue_experiment(experiment_id, ["searcher.metric=accuracy"])
    master.commands.continue_experiment(experiment_id, [])
    workers = make_workers(make_master())
    workers.run()
    assert {work.trial_id for work in workers.done} == {bad}
    trials = list_trials(store, experiment_id)
    assert {each.state for each in trials} == {states.TrialState.COMPLETED}
    assert len(trials) == 5


def test_a_process_that_cannot_be_started_is_tried_again(
    make_master, make_workers, config_text, fake_launcher, store, monkeypatch
):
    monkeypatch.setattr(scheduling, "LAUNCH_PAUSE_SECS", 0.0)
    master = make_master()
    experiment_id = create(master, config_text, "single")
    fake_launcher.fails = 2
    master.tick()
    assert "no process can be started" in list_trials(store, experiment_id)[0].reason
    make_workers(master).run()
    assert get(store, experiment_id).state is states.ExperimentState.COMPLETED


def test_what_keeps_processes_from_being_started_is_waited_for_longer_each_time(
    make_master, config_text, fake_launcher, store, monkeypatch
):
    now, starts = [1000.0], []
    clock = types.SimpleNamespace(**{**vars(time), "monotonic": lambda: now[0]})
    for module in (scheduling, slot_assignment):
        monkeypatch.setattr(module, "time", clock)
    master = make_master()
    experiment_id = create(master, config_text, "single", max_restarts=0)
    fake_launcher.fails = 100

    while get(store, experiment_id).state is states.ExperimentState.ACTIVE:
        before = fake_launcher.fails
        master.tick()
        starts += [now[0] - 1000.0] * (before - fake_launcher.fails)
        now[0] += 1.0

    pauses = [after - before for before, after in itertools.pairwise(starts)]
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0]


def test_a_fork_takes_config_and_code_and_changes_what_is_named(
    make_master, make_workers, config_text, tmp_path
):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "model_def.py").write_text("x = 1\n")
    master = make_master()
    first = master.commands.create_experiment(config_text(SEARCHES["single"]), tmp_path / "code")
    copy = master.commands.fork_experiment(first.id, None, ["searcher.max_length=3"])
    assert copy.parent_id == first.id
    assert copy.config["searcher"]["max_length"] == 3
    assert (pathlib.Path(copy.model_dir) / "model_def.py").read_text() == "x = 1\n"


def test_the_number_of_a_lost_experiment_is_not_given_again(
    make_master, make_workers, config_text, tmp_path
):
    notes = tmp_path / "home" / "experiments" / "1" / "model_dir" / "model_def.py"
    notes.parent.mkdir(parents=True)
    notes.write_text("of a lost database")
    (tmp_path / "home" / "scratch" / "2").mkdir(parents=True)

    assert create(make_master(), config_text, "single") == 3
    assert notes.read_text() == "of a lost database"


def test_a_config_with_mistakes_creates_nothing(make_master, config_text, store, tmp_path):
    master = make_master()
    text = config_text({"name": "single", "max_length": -1}, chekpoint_policy="all")
    with pytest.raises(errors.ConfigError, match="checkpoint_policy"):
        master.commands.create_experiment(text, None, source="my.yaml")
    with pytest.raises(errors.ConfigError, match="is not a directory"):
        master.commands.create_experiment(config_text(SEARCHES["single"]), tmp_path / "none")
    with store.reading() as session:
        assert session.list_experiments() == []


def test_each_start_has_a_token_of_its_own_and_no_experiment_says_where_it_goes(
    make_master, make_workers, config_text, fake_launcher, store, tmp_path
):
    key = launch_tokens.LaunchKey(bytes(32))
    master = master_lib.Master(
        store,
        fake_launcher,
        [slots.Slot(0), slots.Slot(1)],
        tmp_path / "home",
        address="unix:/here",
        launch_key=key,
    )
    master.recover()
    variables = ["QUINTAIN_MASTER=unix:/elsewhere", "QUINTAIN_TOKEN=x", "MINE=1"]
    create(master, config_text, environment={"environment_variables": variables})
    master.tick()
    given = {launch.launch_id: launch.environment for launch in fake_launcher.alive.values()}
    assert len({each["QUINTAIN_TOKEN"] for each in given.values()}) == len(given) == 2
    for launch_id, environment in given.items():
        trial_id = fake_launcher.alive[launch_id].trial_id
        assert key.find_launch(environment["QUINTAIN_TOKEN"]) == (trial_id, launch_id)
        assert (environment["QUINTAIN_MASTER"], environment["MINE"]) == ("unix:/here", "1")
        assert "QUINTAIN_HOME" not in environment
    assert "QUINTAIN_TOKEN" not in repr(list(fake_launcher.alive.values()))


def test_more_experiments_than_slots_do_not_take_them_from_each_other(
    make_master, make_workers, config_text, fake_launcher
):
    master = make_master(num_slots=2)
    many = {"name": "random", "max_length": 4000, "max_trials": 8, "max_concurrent_trials": 8}
    create(master, config_text, many)
    workers = make_workers(master, order=random.Random(1))
    workers.run_round()
    create(master, config_text, many)
    create(master, config_text, {"name": "single", "max_length": 4000})
    seen = set()
    for _ in range(15):
        workers.run_round()
        seen |= set(fake_launcher.alive)

    holders = {launch.experiment_id for launch in fake_launcher.alive.values()}
    assert holders == {1, 3}
    assert len(seen) <= 4


def test_the_summary_counts_what_the_status_lists(make_master, make_workers, config_text):
    master = make_master(num_slots=2)
    search = {"name": "random", "max_length": 4000, "max_trials": 8}
    create(master, config_text, search)
    make_workers(master).run_round()

    found, listed = master.summary(), master.status()

    assert (found.num_slots, found.num_busy_slots, found.num_remote_slots) == (2, 2, 0)
    (one,), (of,) = found.experiments, listed.experiments
    assert (one.num_running, one.num_waiting) == (2, 6)
    assert (len(of.running_trials), len(of.waiting_trials)) == (2, 6)
    assert (one.experiment_id, one.state, one.progress) == (1, of.state, of.progress)


def test_a_status_of_many_slots_is_made_no_oftener_than_it_may_cost(make_master):
    few, many = make_master(2), make_master(600)
    assert few.recent_status() is not few.recent_status()
    assert many.recent_status() is many.recent_status()
    assert many.status() is not many.recent_status()
    assert few.told_status() == few.status()
    assert many.told_status() == many.summary()


def test_slots_are_listed_in_pages_and_by_their_trial(make_master, config_text):
    master = make_master(num_slots=5)
    create(master, config_text, {"name": "random", "max_length": 4000, "max_trials": 2})
    master.tick()

    everything = list(master.status().slots)
    assert master.list_slots() == everything
    assert master.list_slots(after=1, limit=2) == everything[2:4]
    assert master.list_slots(after=4) == []
    held = [one for one in everything if one.trial_id is not None]
    assert len(held) == 2
    assert master.list_slots(trial_id=held[0].trial_id) == held[:1]
    assert master.list_slots(trial_id=12345) == []
