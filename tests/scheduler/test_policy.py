import pytest

from quintain.scheduler import policy


def group(experiment_id, running=0, waiting=0, size=1, **options):
    first = experiment_id * 100
    requests = [policy.Request(first + index, size, True) for index in range(running)]
    requests += [policy.Request(first + running + index, size) for index in range(waiting)]
    return policy.Group(experiment_id, requests, **options)


@pytest.mark.parametrize(
    ("groups", "num_slots", "expected"),
    [
        ([group(1, waiting=3, weight=10), group(2, waiting=7, weight=30)], 8, {1: 2, 2: 6}),
        ([group(1, waiting=3), group(2, waiting=6)], 8, {1: 3, 2: 5}),
        ([group(1, waiting=10), group(2, waiting=30)], 8, {1: 4, 2: 4}),
        ([group(1, waiting=4, max_slots=1), group(2, waiting=4)], 4, {1: 1, 2: 3}),
        ([group(1, waiting=1, size=2), group(2, waiting=1, size=2)], 2, {1: 2, 2: 0}),
        ([group(1, waiting=9, priority=50), group(2, waiting=3, priority=1)], 4, {1: 1, 2: 3}),
    ],
)
def test_slots_are_shared_by_weight_demand_limit_and_priority(groups, num_slots, expected):
    assert policy.find_offers(groups, num_slots) == expected


def test_a_trial_that_never_fits_blocks_nobody():
    groups = [group(1, waiting=1, size=5), group(2, waiting=1, size=4)]
    assert policy.assign(groups, 4).start == (200,)


def test_a_lower_limit_takes_back_the_slots_of_the_youngest_trials():
    decisions = policy.assign([group(1, running=4, max_slots=2)], 4)
    assert decisions == policy.Decisions(preempt=(103, 102))


def test_trials_are_never_started_and_preempted_at_once():
    groups = [group(1, running=3), group(2, waiting=4)]
    decisions = policy.assign(groups, 4)
    assert decisions == policy.Decisions(preempt=(102,))


def test_slots_of_ending_trials_are_not_given_away_yet():
    ending = [policy.Request(100, 1, True, True), policy.Request(101, 1, True)]
    groups = [policy.Group(1, ending), group(2, waiting=2)]
    assert policy.assign(groups, 2) == policy.Decisions()


def test_trials_without_slots_always_start():
    assert policy.assign([group(1, running=2), group(2, waiting=2, size=0)], 2).start == (200, 201)


@pytest.mark.parametrize(
    ("groups", "num_slots", "expected"),
    [
        # 3 of 10 slots by weight, 7 by weight; what 2 can't use goes to 1.
        ([group(1, waiting=9, weight=3), group(2, waiting=4, weight=7)], 10, {1: 6, 2: 4}),
        # More experiments than slots: the first ones get one each.
        ([group(1, waiting=2), group(2, waiting=2), group(3, waiting=2)], 2, {1: 1, 2: 1, 3: 0}),
        # One slot is left over, and goes to the one that wants the least.
        ([group(1, waiting=9), group(2, waiting=8)], 5, {1: 2, 2: 3}),
        # The youngest with too little for its trial gives it up to the others.
        ([group(1, waiting=2, size=3), group(2, waiting=2, size=3)], 4, {1: 4, 2: 0}),
        ([group(1, waiting=1, size=2), group(2, waiting=9)], 2, {1: 0, 2: 2}),
        ([group(1, waiting=2, weight=0.001), group(2, waiting=9)], 4, {1: 1, 2: 3}),
        ([group(1), group(2, waiting=1)], 4, {1: 0, 2: 1}),
        ([], 4, {}),
    ],
)
def test_what_is_left_over_goes_where_it_can_be_used(groups, num_slots, expected):
    assert policy.find_offers(groups, num_slots) == expected


def test_more_urgent_experiments_take_the_slots_of_less_urgent_ones():
    groups = [group(1, running=4, priority=50), group(2, waiting=3, priority=1)]

    assert policy.assign(groups, 4) == policy.Decisions(preempt=(103, 102, 101))


def test_more_urgent_trials_start_first_and_older_ones_before_younger_ones():
    groups = [group(1, waiting=2), group(2, waiting=2), group(3, waiting=1, priority=1)]

    assert policy.assign(groups, 4).start == (300, 100, 101, 200)


def test_a_small_trial_starts_in_the_room_that_a_large_one_leaves():
    requests = [policy.Request(100, 3), policy.Request(101, 1), policy.Request(102, 1)]
    groups = [policy.Group(1, requests), group(2, running=2)]

    assert policy.assign(groups, 4).start == (101, 102)


def test_trials_without_slots_are_never_preempted():
    free = [
        policy.Request(100, 0, True),
        policy.Request(101, 1, True),
        policy.Request(102, 1, True),
    ]

    assert policy.assign([policy.Group(1, free, max_slots=1)], 4).preempt == (102,)


def test_a_trial_that_is_told_to_end_is_not_told_again():
    requests = [policy.Request(100, 1, True), policy.Request(101, 1, True, True)]

    assert policy.assign([policy.Group(1, requests, max_slots=1)], 4) == policy.Decisions()
