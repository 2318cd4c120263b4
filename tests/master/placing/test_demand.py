"""What is asked for within a bound, and what is no lack where machines are added."""

import pytest

from quintain.master.placing import demand, node_table, pools
from quintain.records.config import experiment_sections
from quintain.records.rows import slot


def want(num_slots, num_processes, num_trials):
    return demand.Wanted(pools.Needs(), num_slots, num_processes, num_trials)


@pytest.mark.parametrize(("most", "expected"), [(20, 14), (13, 13), (9, 9), (3, 3), (0, 0)])
def test_whole_trials_are_asked_for_within_the_bound(most, expected):
    found = demand.Demand((want(2, 2, 2), want(1, 1, 6)))

    assert demand.count_slots(found.cut(most)) == expected


def test_a_trial_that_is_too_large_leaves_the_rest_to_others():
    [kept] = demand.Demand((want(2, 2, 2), want(1, 1, 6))).cut(3)

    assert kept == want(1, 1, 3)


def test_what_is_held_counts_within_the_bound():
    assert demand.count_slots(demand.Demand((want(1, 1, 6),), num_held=3).cut(5)) == 2
    assert not demand.Demand((want(2, 2, 1),), num_held=3).cut(6)


def test_trials_that_fit_no_machine_wait_where_machines_are_added():
    table = node_table.NodeTable([slot.Slot(0)])
    resources = experiment_sections.ResourcesConfig(slots_per_trial=3)

    assert "slots_per_trial: got 3" in table.find_lack(resources, is_new=True)
    table.most_slots = 3
    assert table.find_lack(resources, is_new=True) == ""
    assert "others are asked for" in table.find_lack(resources)
    table.most_slots = 2
    assert "slots_per_trial: got 3" in table.find_lack(resources, is_new=True)
