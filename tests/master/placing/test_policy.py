import pytest

from quintain.master.placing import policy


def group(experiment_id, running=0, waiting=0, size=1, **options):
    held = {"num_held": running * size, "smallest_held": size if running else 0}
    return policy.Group(experiment_id, waiting, size, **{**held, **options})


def gpus(experiment_id, waiting, **options):
    return group(experiment_id, waiting=waiting, pools=("g",), **options)


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
    assert policy.assign(groups, 4).start == {2: 1}


def test_a_lower_limit_takes_back_slots():
    decisions = policy.assign([group(1, running=4, max_slots=2)], 4)
    assert decisions == policy.Decisions(preempt={1: 2})


def test_trials_are_never_started_and_preempted_at_once():
    groups = [group(1, running=3), group(2, waiting=4)]
    decisions = policy.assign(groups, 4)
    assert decisions == policy.Decisions(preempt={1: 1})


def test_slots_of_ending_trials_are_not_given_away_yet():
    groups = [group(1, running=1), group(2, waiting=2)]
    assert policy.assign(groups, 2, num_free=0) == policy.Decisions()


def test_trials_without_slots_always_start():
    groups = [group(1, running=2), group(2, waiting=2, size=0)]
    assert policy.assign(groups, 2).start == {2: 2}


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
        ([group(1, waiting=2, size=3), group(2, waiting=2, size=3)], 4, {1: 3, 2: 0}),
        # What trials of several slots leave of an offer goes to others.
        ([group(1, waiting=2, size=3), group(2, waiting=9)], 8, {1: 3, 2: 5}),
        ([group(1, running=1, waiting=2, size=3), group(2, running=5, waiting=9)], 8, {1: 3, 2: 5}),
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

    assert policy.assign(groups, 4) == policy.Decisions(preempt={1: 3})


def test_more_urgent_trials_start_first_and_older_ones_before_younger_ones():
    groups = [group(1, waiting=2), group(2, waiting=2), group(3, waiting=1, priority=1)]

    assert list(policy.assign(groups, 4).start.items()) == [(3, 1), (1, 2), (2, 1)]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        # Both share the GPUs; what they can't use goes to the one that needs none.
        ([gpus(1, 9), gpus(2, 9), group(3, waiting=99)], {1: 2, 2: 2, 3: 12}),
        # One of a kind within the kind of another: never more than there are of either.
        ([group(1, waiting=9, pools=("g", "z")), gpus(2, 9)], {1: 1, 2: 3}),
        # Two that would need all GPUs at once do not wait for each other.
        ([gpus(1, 1, size=4), gpus(2, 1, size=4)], {1: 4, 2: 0}),
        # What never fits among them holds nobody back.
        ([gpus(1, 1, size=5), gpus(2, 9)], {1: 0, 2: 4}),
    ],
)
def test_experiments_with_needs_share_the_slots_that_fit_them(groups, expected):
    limits = {"g": 4, "z": 1}
    decisions = policy.assign(groups, 16, limits=limits)

    found = {
        each.experiment_id: decisions.start.get(each.experiment_id, 0) * each.size
        for each in groups
    }
    assert found == expected


def elastic(experiment_id, waiting=1, size=4, **options):
    return group(experiment_id, waiting=waiting, size=size, **{"least_size": 1, **options})


@pytest.mark.parametrize(
    ("groups", "num_slots", "sizes", "start"),
    [
        ([elastic(1)], 8, {1: 4}, {1: 1}),
        ([elastic(1)], 3, {1: 2}, {1: 1}),
        ([elastic(1)], 1, {1: 1}, {1: 1}),
        ([elastic(1, least_size=2)], 1, {}, {}),
        ([elastic(1)], 0, {}, {}),
        # One that runs leaves what the second one starts with.
        ([elastic(1, num_held=4, smallest_held=1)], 7, {1: 2}, {1: 1}),
        # Fair shares count first.
        ([elastic(1), group(2, waiting=9)], 4, {1: 2}, {1: 1, 2: 2}),
        ([elastic(1), group(2, waiting=9)], 6, {1: 2}, {1: 1, 2: 4}),
        ([elastic(1, max_slots=2)], 8, {1: 2}, {1: 1}),
        # What the others can't use after all is not given up by halving.
        ([elastic(1, size=2), group(2, waiting=1, size=2)], 2, {1: 2}, {1: 1}),
        ([group(1, waiting=1, size=2), elastic(2, size=2)], 2, {}, {1: 1}),
        # It is not given up either for an older one that gets none.
        ([group(0, waiting=9), group(1, waiting=1, size=4), elastic(2)], 4, {2: 2}, {0: 2, 2: 1}),
        # Several start with a half rather than that one waits.
        ([elastic(1, waiting=3)], 2, {1: 2}, {1: 1}),
        ([elastic(1, size=2), elastic(2, size=2)], 2, {1: 1, 2: 1}, {1: 1, 2: 1}),
    ],
)
def test_trials_that_do_with_fewer_slots_start_with_what_an_offer_has(
    groups, num_slots, sizes, start
):
    decisions = policy.assign(groups, num_slots)

    assert (decisions.sizes, decisions.start) == (sizes, start)


def test_deciding_takes_no_longer_for_many_trials(monkeypatch):
    calls = []
    monkeypatch.setattr(policy._Left, "most", lambda self, _: calls.append(1) or self.num_slots)

    policy.assign([group(each, waiting=1000, running=80) for each in range(100)], 8000)

    assert len(calls) < 10_000
