"""Trials of several processes: they start together, and one that fails ends all."""

import re

import pytest

from quintain import errors
from quintain.master import scheduling
from quintain.master.placing import demand
from quintain.records.rows import node as node_lib
from quintain.records.rows import trial, workload

SEARCH = {"name": "single", "max_length": {"batches": 12}}
LONG = {"name": "single", "max_length": {"batches": 4000}}
OF_FOUR = {"slots_per_trial": 4, "processes_per_trial": 4}


@pytest.fixture
def begin(make_master, fake_launcher, config_text):
    def begin_gang(search=SEARCH, **fields):
        fake_launcher.join("a", "b", num_slots=3)
        master = make_master(num_slots=0)
        text = config_text(search, **{"resources": OF_FOUR, "max_restarts": 3, **fields})
        master.commands.create_experiment(text, None)
        master.tick()
        return master

    return begin_gang


def launches_of(launcher):
    return sorted(launcher.alive.values(), key=lambda each: each.rank)


def read_trial(store, trial_id=1):
    with store.reading() as session:
        return session.get_trial(trial_id)


def test_all_processes_start_with_a_slot_each_on_as_few_machines_as_possible(begin, fake_launcher):
    begin()

    found = launches_of(fake_launcher)
    assert [(each.rank, each.size, len(each.slots)) for each in found] == [
        (rank, 4, 1) for rank in range(4)
    ]
    assert [each.node for each in found] == ["a", "a", "a", "b"]
    first = found[0].launch_id
    assert [each.launch_id for each in found] == [first, *(f"{first}.r{n}" for n in (1, 2, 3))]
    assert {each.environment["QUINTAIN_LAUNCH_ID"] for each in found} == {first}
    assert [each.environment["QUINTAIN_RANK"] for each in found] == ["0", "1", "2", "3"]
    slots = [each.environment["QUINTAIN_SLOTS"] for each in found]
    assert len(set(slots)) == 4


def test_a_trial_waits_until_none_of_its_processes_does(begin, fake_launcher):
    master = begin(name="gang")
    first, *_, last = (each.launch_id for each in launches_of(fake_launcher))

    def waits_for():
        return master.status().experiments[0].waits_for

    master.workers.note_wait(1, last, "b: saving a checkpoint: /c is full")
    master.workers.note_wait(1, first, "a: saving a checkpoint: /d is full")
    assert waits_for() == "Trial 1 waits for b: saving a checkpoint: /c is full"
    master.workers.note_wait(1, last, "")
    assert waits_for() == "Trial 1 waits for a: saving a checkpoint: /d is full"
    master.workers.start_run(1, trial.ProcessIdentity(1, 1.0, last))
    assert waits_for()
    master.workers.note_wait(1, first, "")
    assert not waits_for()


def test_one_that_fails_ends_all_and_counts_once(begin, fake_launcher, store):
    master = begin()
    first, *_, last = (each.launch_id for each in launches_of(fake_launcher))

    fake_launcher.end(last, signal=9)
    master.tick()
    assert len(fake_launcher.killed) == 3
    master.tick()

    assert read_trial(store).restarts == 1
    assert len(fake_launcher.alive) == 4
    assert first not in fake_launcher.alive


def test_a_lost_machine_is_nobodys_fault_whatever_the_others_say(
    begin, make_workers, fake_launcher, store
):
    master = begin(max_restarts=0)
    first, *_, last = (each.launch_id for each in launches_of(fake_launcher))
    make_workers(master).step(first)

    master.workers.report_exit(1, first, workload.ExitedReason.ERRORED, "peer b is away")
    fake_launcher.end(first, exit_code=1)
    fake_launcher.nodes = [each for each in fake_launcher.nodes if each.name == "a"]
    killed_by_hand = fake_launcher.alive.pop(last)
    master.tick()
    assert fake_launcher.alive == {}
    assert read_trial(store).restarts == 0
    fake_launcher.alive[last] = killed_by_hand
    fake_launcher.end(last, reason="Machine b is gone.")
    master.tick()

    found = read_trial(store)
    assert (found.restarts, found.state.value) == (0, "ACTIVE")
    assert "Machine b is gone." in found.reason


def test_one_that_can_not_be_started_takes_the_others_back(begin, fake_launcher, store):
    fake_launcher.refused_rank = 2
    master = begin()
    master.tick()

    assert fake_launcher.alive == {}
    assert len(fake_launcher.killed) == 2
    assert "could not be started" in read_trial(store).reason
    assert read_trial(store).restarts == 0
    assert {slot.trial_id for slot in master.status().slots} == {None}


def test_those_that_are_told_to_end_are_waited_for(begin, fake_launcher):
    master = begin()
    launches = launches_of(fake_launcher)
    first = launches[0].launch_id
    master.workers.start_run(1, trial.ProcessIdentity(1, 1.0, first))
    master.commands.apply(1, "pause")
    work = master.workers.next_workload(1, first, 0.0)

    for each in launches:
        fake_launcher.end(each.launch_id, exit_code=0)
        master.tick()

    assert work.kind is workload.WorkloadKind.TERMINATE
    assert fake_launcher.killed == []
    assert {slot.trial_id for slot in master.status().slots} == {None}


def test_a_restarted_master_takes_over_all_of_them_or_none(
    begin, make_master, fake_launcher, store
):
    begin()
    alive = set(fake_launcher.alive)
    master = make_master(num_slots=0)
    master.tick()
    assert set(fake_launcher.alive) == alive

    del fake_launcher.alive[sorted(alive)[1]]
    master = make_master(num_slots=0)
    master.tick()
    master.tick()

    assert fake_launcher.alive == {}
    assert len(fake_launcher.killed) == 3
    assert (read_trial(store).restarts, read_trial(store).state.value) == (0, "ACTIVE")
    assert {slot.trial_id for slot in master.status().slots} == {None}


def test_a_rank_that_there_is_not_is_turned_away(begin, fake_launcher):
    master = begin()
    first = launches_of(fake_launcher)[0].launch_id

    with pytest.raises(errors.GoneError):
        master.workers.start_run(1, trial.ProcessIdentity(1, 1.0, f"{first}.r4"))


def test_trials_of_several_processes_start_again_where_others_have_reserved(
    make_master, fake_launcher, config_text, store
):
    master = make_master(num_slots=2)
    search = {"name": "random", "max_trials": 3, "max_length": {"batches": 12}}
    pairs = {"slots_per_trial": 2, "processes_per_trial": 2}
    text = config_text(search, resources=pairs, max_restarts=1)
    master.commands.create_experiment(text, None)
    master.tick()
    first, second = launches_of(fake_launcher)
    for number, launch in enumerate((first, second)):
        identity = trial.ProcessIdentity(number + 1, 1.0, launch.launch_id, "mark")
        master.workers.start_run(first.trial_id, identity)

    reason = workload.ExitedReason.ERRORED
    master.workers.report_exit(first.trial_id, first.launch_id, reason, "a mistake")
    master.tick()
    fake_launcher.end(second.launch_id, exit_code=1)
    for _ in range(3):
        master.tick()

    assert read_trial(store, first.trial_id).restarts == 1
    assert len(fake_launcher.alive) == 2


@pytest.mark.parametrize(
    ("entrypoint", "resources", "count"),
    [
        ("experiment:any", {"slots_per_trial": 3}, 3),
        ("experiment:any", {"slots_per_trial": 3, "processes_per_trial": 1}, 1),
        ("experiment:any", {"slots_per_trial": 1}, 1),
        ("model_def:Trial", {"slots_per_trial": 3}, 1),
        ("model_def:Trial", {"slots_per_trial": 3, "processes_per_trial": 3}, 3),
    ],
)
def test_registered_experiments_have_as_many_processes_as_slots(
    make_master, fake_launcher, config_text, entrypoint, resources, count
):
    master = make_master(num_slots=3)
    text = config_text(SEARCH, entrypoint=entrypoint, resources=resources)

    created = master.commands.create_experiment(text, None)
    master.tick()

    assert len(fake_launcher.alive) == count
    asked = resources["slots_per_trial"]
    expected = count if asked > 1 else None
    assert created.config["resources"]["processes_per_trial"] == expected


def test_processes_of_a_start_meet_by_its_token(begin, fake_launcher):
    master = begin()
    first, *_ = launches_of(fake_launcher)
    peers = [trial.Peer("", "127.0.0.1", "127.0.0.1", 1 + number) for number in range(4)]

    answers = [
        master.workers.meet(first.trial_id, first.launch_id, rank, 4, peers[rank])
        for rank in (0, 1, 2, 3, 0)
    ]

    assert answers == [None, None, None, peers, peers]
    with pytest.raises(errors.GoneError):
        master.workers.meet(first.trial_id, "t1-other", 0, 4, peers[0])


ELASTIC = {
    "entrypoint": "experiment:any",
    "hyperparameters": {"runtime.elastic": True},
    "resources": {"slots_per_trial": 4},
    "max_restarts": 0,
}


def places_of(launcher):
    return [each.node for each in launches_of(launcher)]


def run_until(workers, places):
    """Works until the processes of the trial are on these machines."""
    for _ in range(20):
        if places_of(workers.launcher) == places:
            return
        workers.run_round()
    raise AssertionError(places_of(workers.launcher))


def read_logs(store):
    with store.reading() as session:
        return [row.text for row in session.list_logs(1)]


@pytest.fixture
def no_pauses(monkeypatch):
    monkeypatch.setattr(scheduling, "LAUNCH_PAUSE_SECS", 0.0)


@pytest.mark.usefixtures("no_pauses")
def test_an_elastic_trial_goes_on_with_fewer_slots_and_takes_more_again(
    begin, make_workers, fake_launcher, store
):
    workers = make_workers(begin(LONG, **ELASTIC))
    assert places_of(fake_launcher) == ["a", "a", "a", "b"]
    workers.run_round()

    fake_launcher.lose("a")
    run_until(workers, ["b", "b"])
    workers.run_round()
    assert places_of(fake_launcher) == ["b", "b"]

    fake_launcher.change("a", state=node_lib.NodeState.ACTIVE)
    run_until(workers, ["a", "a", "a", "b"])
    workers.run_round()
    assert places_of(fake_launcher) == ["a", "a", "a", "b"]

    assert (read_trial(store).restarts, read_trial(store).state.value) == (0, "ACTIVE")
    said = read_logs(store)
    assert "The trial starts with 2 of 4 slots." in said
    assert "4 slots are free: the trial saves itself, and goes on with them." in said


@pytest.mark.usefixtures("no_pauses")
def test_an_elastic_trial_takes_more_slots_once_others_leave_enough(
    begin, make_workers, fake_launcher, config_text
):
    master = begin(LONG, **ELASTIC)
    workers = make_workers(master)
    fake_launcher.lose("a")
    run_until(workers, ["b", "b"])
    master.commands.create_experiment(config_text(LONG), None)
    fake_launcher.join("c", num_slots=1)  # One is free: three are no number of processes.
    for _ in range(6):
        workers.run_round()
        assert fake_launcher.on("b") == [1, 1, 2]

    fake_launcher.join("d", num_slots=1)
    for _ in range(6):
        workers.run_round()
    assert fake_launcher.on("b") == [1, 1, 2]
    assert fake_launcher.on("c") == fake_launcher.on("d") == [1]


@pytest.mark.usefixtures("no_pauses")
def test_machines_are_asked_for_that_a_small_trial_lacks(begin, make_workers, fake_launcher):
    fake_launcher.find_most_slots = lambda: 8
    asked = []
    fake_launcher.ask = asked.append
    workers = make_workers(begin(LONG, **ELASTIC))
    fake_launcher.lose("a")
    run_until(workers, ["b", "b"])
    workers.run_round()

    assert demand.count_slots(asked[-1].wanted) == 2


def test_what_is_not_elastic_waits(begin, fake_launcher, make_workers):
    workers = make_workers(
        begin(LONG, **{**ELASTIC, "hyperparameters": {"runtime.elastic": False}})
    )
    fake_launcher.lose("a")
    for _ in range(5):
        workers.run_round()

    assert fake_launcher.alive == {}


@pytest.mark.parametrize(
    ("fields", "least"),
    [
        ({}, 1),
        ({"hyperparameters": {"runtime": {"elastic": True}}}, 1),
        ({"resources": {"slots_per_trial": 4, "min_slots_per_trial": 2}}, 2),
        ({"resources": {"slots_per_trial": 4, "processes_per_trial": 4}}, 1),
        ({"resources": {"slots_per_trial": 4, "processes_per_trial": 1}}, None),
        ({"resources": {"slots_per_trial": 3}}, None),
        ({"resources": {"slots_per_trial": 1}}, None),
        ({"hyperparameters": {}}, None),
        ({"entrypoint": "model_def:Trial"}, None),
    ],
)
def test_elastic_experiments_do_with_one_slot(make_master, config_text, fields, least):
    text = config_text(SEARCH, **{**ELASTIC, **fields})

    created = make_master(num_slots=4).commands.create_experiment(text, None)

    assert created.config["resources"]["min_slots_per_trial"] == least


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"min_slots_per_trial": 3}, "got 3, expected slots_per_trial=4 divided by 1, 2, 4, ..."),
        ({"min_slots_per_trial": 8}, "got 8, expected slots_per_trial=4 divided by 1, 2, 4, ..."),
        ({"min_slots_per_trial": 0}, "min_slots_per_trial: "),
        ({"min_slots_per_trial": 2, "processes_per_trial": 1}, "got it with processes_per_trial=1"),
    ],
)
def test_fewer_slots_that_can_not_be_are_refused(make_master, config_text, fields, message):
    text = config_text(SEARCH, **{**ELASTIC, "resources": {"slots_per_trial": 4, **fields}})

    with pytest.raises(errors.ConfigError, match=re.escape(message)):
        make_master().commands.create_experiment(text, None)


def test_classes_of_the_users_can_not_do_with_fewer_slots(make_master, config_text):
    resources = {"slots_per_trial": 4, "min_slots_per_trial": 1}
    text = config_text(SEARCH, entrypoint="model_def:Trial", resources=resources)

    with pytest.raises(errors.ConfigError, match="only registered experiments with"):
        make_master().commands.create_experiment(text, None)
