"""What one experiment raises does not reach the others."""

import dataclasses
import random

import pytest

from quintain import errors
from quintain.master import (
    checkpoint_gc,
    entries,
    orphans,
    reservations,
    shared_state,
    slot_assignment,
)
from quintain.master import master as master_lib
from quintain.master.machine import experiment_machine, trial_machine
from quintain.master.placing import unmet_needs
from quintain.master.workers import process_exits, worker_calls, workload_results
from quintain.records import checkpoint_manifest
from quintain.records.rows import states
from quintain.search import search_factory, searcher
from quintain.store import columns

HEALTHY = {"name": "random", "max_length": 6, "max_trials": 4, "max_concurrent_trials": 3}
ERRORS = (
    OverflowError("math range error"),
    KeyError("units"),
    RecursionError("maximum recursion depth exceeded"),
    errors.ConfigError("searcher: a late refusal."),
    errors.CheckpointError("gone"),
)
PLACES = {
    "machine": (experiment_machine.ExperimentMachine, "apply"),
    "search": (searcher.Searcher, "record"),
    "queue": (entries.Entry, "next_waiting"),
    "trial": (entries.Entry, "machine_of"),
    "trial record": (entries.Entry, "build_trial_record"),
    "record": (entries.Entry, "build_experiment_record"),
    "loading": (shared_state.SharedState, "load"),
    "forecast": (master_lib, "estimate_secs"),
    "spec": (worker_calls.WorkerCalls, "_build_order"),
    "metric": (workload_results, "describe"),
    "launch": (slot_assignment.SlotAssignment, "_prepare"),
    "room": (reservations.Reservations, "find"),
    "needs": (unmet_needs, "find_needs"),
    "exit": (process_exits, "describe"),
    "garbage": (checkpoint_gc, "collect_ended"),
}


def is_hostile(value):
    config = getattr(value, "config", value)
    return getattr(config, "name", "") == "hostile"


def list_state(store):
    with store.reading() as session:
        return {each.id: each for each in session.list_experiments()}


@pytest.fixture
def inject(monkeypatch, store):
    """Makes a function raise now and then, where a hostile experiment is handled."""

    def inject_into(place, source, ratio):
        owner, name = PLACES[place]
        former, build = getattr(owner, name), search_factory.build_searcher

        def mark(config):
            made = build(config)
            made.config = config
            return made

        monkeypatch.setattr(search_factory, "build_searcher", mark)

        def wrapper(*args, **kwargs):
            hostile = any(is_hostile(arg) for arg in args) or (
                place == "loading" and list_state(store)[args[1]].config["name"] == "hostile"
            )
            if hostile and source.random() < ratio:
                raise source.choice(ERRORS)
            return former(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapper)

    return inject_into


@pytest.mark.slow
@pytest.mark.parametrize(
    ("places", "ratio"), [*(((place,), 1.0) for place in PLACES), (tuple(PLACES), 0.02)]
)
def test_a_fault_anywhere_ends_its_experiment_and_changes_no_other(
    make_master, make_workers, config_text, describe, inject, store, places, ratio
):
    master = make_master(num_slots=3)
    alone = master.commands.create_experiment(config_text(HEALTHY), None).id
    make_workers(master).run()

    hostile = master.commands.create_experiment(config_text(HEALTHY, name="hostile"), None).id
    beside = master.commands.create_experiment(config_text(HEALTHY), None).id
    for place in places:
        inject(place, random.Random(place), ratio)
    make_workers(master).run(max_rounds=500)

    assert describe(beside) == describe(alone)
    ended = list_state(store)[hostile]
    assert ended.state.is_terminal
    if ended.state is states.ExperimentState.ERROR:
        assert "The platform failed " in ended.reason
    with store.reading() as session:
        assert all(trial.state.is_terminal for trial in session.list_trials(hostile))
        assert session.list_launches() == []
    assert make_master().status().experiments == ()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": "launcher"}, "The process could not be started: ValueError: embedded null byte"),
        ({"resources": {"slots_per_trial": 10**6, "priority": 1}}, ""),
    ],
    ids=["launcher", "slots"],
)
def test_a_hostile_experiment_leaves_the_others_their_slots_and_results(
    make_master, make_workers, config_text, describe, store, fake_launcher, fields, reason
):
    master = make_master(num_slots=3)
    alone = master.commands.create_experiment(config_text(HEALTHY), None).id
    make_workers(master).run()
    hostile = master.commands.create_experiment(
        config_text(HEALTHY, max_restarts=0, **fields), None, activate=False
    ).id
    master.commands.apply(hostile, "activate")
    beside = master.commands.create_experiment(config_text(HEALTHY), None).id
    fake_launcher.refused = hostile if fields.get("name") == "launcher" else 0

    workers = make_workers(master)
    while not list_state(store)[beside].state.is_terminal:
        workers.run_round()
    for _ in range(100):
        workers.run_round()

    assert describe(beside) == describe(alone)
    assert reason in list_state(store)[hostile].reason + describe(hostile)["trials"][0]["reason"]


def test_what_a_search_can_not_begin_with_is_a_mistake_in_the_config(
    make_master, config_text, monkeypatch, store
):
    monkeypatch.setattr(searcher.Searcher, "start", lambda *_: 10.0**309)

    with pytest.raises(
        errors.ConfigError, match=r"can't begin .*OverflowError: .*search_driver\.py:\d+"
    ):
        make_master().commands.create_experiment(config_text(HEALTHY), None)

    assert list_state(store) == {}


def test_a_master_starts_though_an_experiment_can_not_be_replayed(
    make_master, make_workers, config_text, describe, store
):
    master = make_master()
    damaged, fine = (
        master.commands.create_experiment(config_text(HEALTHY), None).id for _ in range(2)
    )
    with store.transaction() as session:
        session.add_event(damaged, {"kind": "nonsense", "time": 0.0})

    master = make_master()

    assert "failed while it was loaded" in list_state(store)[damaged].reason
    assert "no event of the kind 'nonsense'" in list_state(store)[damaged].reason
    make_workers(master).run()
    assert (describe(damaged)["state"], describe(fine)["state"]) == ("ERROR", "COMPLETED")
    assert {trial["state"] for trial in describe(damaged)["trials"]} == {"CANCELED"}


def test_a_search_of_a_million_trials_creates_as_many_as_can_run_soon(
    make_master, make_workers, config_text, store
):
    search = {**HEALTHY, "max_trials": 10**6, "max_concurrent_trials": 0}
    master = make_master(num_slots=4)
    created = master.commands.create_experiment(config_text(search), None).id
    workers = make_workers(master)
    for _ in range(30):
        workers.run_round()

    with store.reading() as session:
        trials = session.list_trials(created)
    ended = [trial for trial in trials if trial.state.is_terminal]
    assert ended
    assert len(trials) == 256 + len(ended)
    done = sum(trial.total_batches for trial in trials)
    assert list_state(store)[created].progress == pytest.approx(done / 6e6, abs=1e-3)
    make_master(num_slots=4)  # It finds the same.
    assert list_state(store)[created].state is states.ExperimentState.ACTIVE


def store_as_an_older_version_did(store, experiment_id):
    """Gives an experiment a config that is refused today, in its record and its first event."""
    with store.transaction() as session:
        record = session.get_experiment(experiment_id)
        config = {**record.config, "profiling": {"nonsense": True}}
        session.update_experiment(dataclasses.replace(record, config=config))
        event = {**session.list_events(experiment_id)[0], "config": config}
        session._run(
            "UPDATE events SET event = :event WHERE experiment_id = :id AND id = "
            "(SELECT min(id) FROM events WHERE experiment_id = :id)",
            event=columns.to_json(event),
            id=experiment_id,
        )


def test_what_todays_checks_refuse_ends_alone_when_a_master_starts(
    make_master, make_workers, config_text, describe, store, tmp_path
):
    master = make_master(num_slots=4)
    ended = master.commands.create_experiment(config_text(HEALTHY), None).id
    make_workers(master).run()
    refused, fine = (
        master.commands.create_experiment(config_text(HEALTHY), None).id for _ in range(2)
    )
    master.tick()
    with store.reading() as session:
        (lost, *_) = [run for run in session.list_launches() if run.experiment_id == refused]
    unfinished = tmp_path / "home/checkpoints" / checkpoint_manifest.unfinished_name(lost.launch_id)
    unfinished.mkdir(parents=True)
    for each in (ended, refused):
        store_as_an_older_version_did(store, each)

    master = make_master(num_slots=4)

    found = list_state(store)
    assert found[refused].state is states.ExperimentState.ERROR
    assert "profiling.nonsense" in found[refused].reason
    make_workers(master).run()
    assert (describe(ended)["state"], describe(fine)["state"]) == ("COMPLETED", "COMPLETED")
    assert not unfinished.exists()
    with store.reading() as session:
        assert session.list_launches() == []
    for each in (ended, refused):  # Their directories are known, though their configs are refused.
        master.commands.delete_experiment(each)
    assert list(list_state(store)) == [fine]
    assert orphans.find(store, tmp_path / "home") == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("config", "{"),
        ("config", "null"),
        ("config", "[]"),
        ("config", b"\xff\xfe"),
        ("state", "NONSENSE"),
        ("labels", "7"),
        ("progress", "a"),
    ],
)
def test_a_damaged_row_is_shown_as_such_and_keeps_no_other_from_being_read(
    make_master, make_workers, config_text, describe, store, column, value
):
    master = make_master()
    damaged, fine = (
        master.commands.create_experiment(config_text(HEALTHY), None).id for _ in range(2)
    )
    with store.transaction() as session:
        change = f"UPDATE experiments SET {column} = CAST(:value AS TEXT) WHERE id = :id"
        session._run(change, value=value, id=damaged)

    master = make_master()
    make_workers(master).run()

    found = list_state(store)
    assert describe(fine)["state"] == found[fine].state.value == "COMPLETED"
    assert found[damaged].config["name"] == "(damaged)"
    assert found[damaged].reason.startswith("Its row in the database is damaged")
    with pytest.raises(errors.StateError, match="row in the database is damaged"):
        master.commands.apply(damaged, "archive")
    master.commands.delete_experiment(damaged)
    assert list(list_state(store)) == [fine]


def test_a_fault_while_an_exit_is_recorded_leaves_no_unfinished_checkpoint(
    make_master, config_text, fake_launcher, tmp_path, monkeypatch
):
    master = make_master()
    master.commands.create_experiment(config_text(HEALTHY), None)
    master.tick()
    (launch_id, *_) = fake_launcher.alive
    unfinished = tmp_path / "home/checkpoints" / checkpoint_manifest.unfinished_name(launch_id)
    unfinished.mkdir(parents=True)
    monkeypatch.setattr(process_exits, "describe", lambda *_: 1 // 0)

    fake_launcher.end(launch_id, signal=9)
    master.tick()

    assert not unfinished.exists()


def test_a_command_that_raises_ends_the_experiment_and_says_so(
    make_master, config_text, store, monkeypatch
):
    master = make_master()
    created = master.commands.create_experiment(config_text(HEALTHY), None, activate=False).id
    monkeypatch.setattr(trial_machine.TrialMachine, "next_event", lambda *_: 1 // 0)
    with pytest.raises(errors.StateError, match=r"has failed: .*ZeroDivisionError"):
        master.commands.apply(created, "activate")

    assert list_state(store)[created].state is states.ExperimentState.ERROR
