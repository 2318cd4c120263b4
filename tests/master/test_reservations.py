"""Places for trials of several slots or with needs, and room that others make for them."""

import itertools

import pytest

from quintain.records.rows import slot as slot_lib

LONG = {"max_length": {"batches": 4000}}
MANY = {"name": "random", "max_trials": 30, **LONG}
ONE = {"name": "single", **LONG}


@pytest.fixture
def cluster(make_master, make_workers, fake_launcher, config_text):
    """Returns workers, and what adds machines and experiments."""

    class Cluster:
        def __init__(self):
            self.workers = make_workers(make_master(num_slots=0))
            self.launcher = fake_launcher

        @property
        def room(self):
            return self.workers.master._processes._assignment._room

        def add(self, searcher, rounds=6, **resources):
            text = config_text(searcher, resources=resources)
            created = self.workers.master.commands.create_experiment(text, None)
            self.run(rounds)
            return created.id

        def run(self, rounds):
            for _ in range(rounds):
                self.workers.run_round()

        def holders(self):
            """Returns the experiments on each machine, as many times as they hold slots there."""
            found = {}
            for slot in self.workers.master.status().slots:
                found.setdefault(slot.node, []).append(slot.experiment_id or 0)
            return {name: sorted(own) for name, own in found.items()}

    return Cluster()


def test_scattered_slots_are_brought_together_by_moves(cluster, store):
    for name in "abcd":  # One trial on each of four machines of two slots.
        cluster.launcher.join(name, num_slots=1)
        cluster.add(ONE, rounds=2)
    for name in "abcd":
        cluster.launcher.change(name, slots=(slot_lib.Slot(0), slot_lib.Slot(1)))
    cluster.run(1)
    assert cluster.holders() == {"a": [0, 1], "b": [0, 2], "c": [0, 3], "d": [0, 4]}

    wide = cluster.add(ONE, slots_per_trial=2)

    assert [wide, wide] in cluster.holders().values()
    assert sorted(itertools.chain(*cluster.holders().values())) == [0, 0, 1, 2, 3, 4, wide, wide]
    with store.reading() as session:
        assert {session.get_trial(each).restarts for each in (1, 2, 3, 4)} == {0}


def test_trials_make_room_on_slots_that_only_others_can_not_do_without(cluster, store):
    cluster.launcher.join("gpus", labels={"gpu": "A100"})
    anywhere = cluster.add({**MANY, "max_trials": 2})
    assert cluster.holders() == {"gpus": [anywhere] * 2}
    cluster.launcher.join("cpus", num_slots=2)

    bound = cluster.add({**MANY, "max_trials": 2}, node_labels={"gpu": "A100"})

    assert cluster.holders() == {"gpus": [bound] * 2, "cpus": [anywhere] * 2}
    with store.reading() as session:
        assert {each.restarts for each in session.list_trials(anywhere)} == {0}


def test_two_that_need_all_slots_run_one_after_the_other(cluster):
    cluster.launcher.join("a", "b", num_slots=2)
    gang = {"slots_per_trial": 4, "processes_per_trial": 4}
    short = {**ONE, "max_length": {"batches": 4}}

    cluster.add(short, rounds=0, **gang)
    cluster.add(short, rounds=0, **gang)
    seen = []
    cluster.workers.run(on_round=lambda _: seen.append(cluster.holders()))

    flat = [{each for own in holders.values() for each in own} for holders in seen]
    assert {1} in flat
    assert {2} in flat
    assert not any({1, 2} <= each for each in flat)


def test_slots_that_wait_for_others_are_filled_meanwhile(cluster):
    cluster.launcher.join("a", num_slots=4)
    small = cluster.add({**MANY, "max_trials": 30}, weight=1)
    assert cluster.holders() == {"a": [small] * 4}
    cluster.room._backfill_secs = 0.0
    slow = sorted(cluster.launcher.alive)[0]

    # All but one give their slots back at once; that one is in the middle of its workload.
    step, cluster.workers.step = cluster.workers.step, None
    cluster.workers.step = lambda launch: None if launch == slow else step(launch)
    wide = cluster.add(ONE, slots_per_trial=4, priority=1)
    cluster.run(4)
    assert cluster.holders() == {"a": [small] * 4}
    assert slow in cluster.launcher.alive

    cluster.workers.step = step
    cluster.run(8)
    assert cluster.holders() == {"a": [wide] * 4}
    assert cluster.room._backfill == set()


def test_what_is_reserved_for_a_trial_that_is_canceled_is_free_again(cluster):
    cluster.launcher.join("a", num_slots=2)
    small = cluster.add({**MANY, "max_trials": 9})
    slow = set(cluster.launcher.alive)
    step = cluster.workers.step
    cluster.workers.step = lambda launch: None if launch in slow else step(launch)
    wide = cluster.add(ONE, slots_per_trial=2, priority=1)
    assert cluster.room._reservations

    cluster.workers.master.commands.apply(wide, "kill")
    cluster.workers.step = step
    cluster.run(6)

    assert cluster.holders() == {"a": [small] * 2}
    assert not cluster.room._reservations
