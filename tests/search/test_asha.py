"""Small searches played by hand: rungs at 1, 2 and 4 units, and one trial of two goes on."""

import pytest

from quintain.search import asha

HALVES = {"divisor": 2.0, "max_trials": 4, "max_concurrent_trials": 2}


def test_a_trial_waits_in_its_rung_until_it_is_in_the_better_half(play):
    search = play(asha.AshaSearch, num_rungs=3, max_length=4, **HALVES)

    assert search.start() == ["new A", "A to 1", "new B", "B to 1"]
    assert search.result("A", 0.4, 1) == ["new C", "C to 1"]  # of one, none goes on
    assert search.result("B", 0.3, 1) == ["B to 2"]  # of A and B, B
    assert search.result("C", 0.2, 1) == ["C to 2"]  # better than all before it
    assert search.result("B", 0.35, 2) == ["new D", "D to 1"]
    assert search.result("C", 0.1, 2) == ["C to 4"]
    # All four have been in the first rung, and nobody is on the way to the second.
    assert search.result("D", 0.5, 1) == ["close A", "close D", "close B"]
    assert [search.closed(letter) for letter in "ADB"] == [[], [], []]
    assert search.result("C", 0.05, 4) == ["close C"]
    assert search.closed("C") == ["over"]


def test_a_trial_that_failed_while_it_waited_is_promoted_to_the_worst_result(play):
    search = play(asha.AshaSearch, num_rungs=2, max_length=2, divisor=2.0, max_trials=2)
    search.start()

    assert search.result("A", 0.1, 1) == []
    assert search.failed("A") == []
    assert search.result("B", 0.2, 1) == ["close B"]
    assert [rung.metrics for rung in search.method.rungs] == [[0.1, 0.2], [float("inf")]]
    assert search.closed("B") == ["over"]


def test_a_trial_that_fails_at_work_is_the_worst_of_its_rung(play):
    search = play(asha.AshaSearch, num_rungs=2, max_length=2, divisor=2.0, max_trials=2)
    search.start()

    assert search.failed("A") == []
    assert search.result("B", 9.0, 1) == ["B to 2"]


def test_a_trial_that_can_not_be_trained_is_replaced_and_leaves_no_result(play):
    search = play(asha.AshaSearch, num_rungs=2, max_length=2, divisor=2.0, max_trials=2)
    search.start()

    assert search.result("A", 0.1, 1) == []
    assert search.invalid("A") == ["new C", "C to 1"]
    assert search.method.rungs[0].metrics == []
    assert search.result("B", 0.5, 1) == []
    assert search.result("C", 0.6, 1) == ["B to 2", "close C"]


def test_further_trials_take_the_places_that_are_free(play):
    search = play(asha.AshaSearch, num_rungs=2, max_length=2, **HALVES | {"max_trials": 2})
    search.start()
    search.result("A", 0.1, 1)

    assert search.extend(4) == ["new C", "C to 1"]
    assert search.result("B", 0.2, 1) == ["A to 2"]
    assert search.result("C", 0.3, 1) == ["new D", "D to 1"]


def test_stopping_closes_a_trial_that_is_not_in_the_better_half_so_far(play):
    search = play(asha.AshaStoppingSearch, num_rungs=3, max_length=4, **HALVES)

    assert search.start() == ["new A", "A to 1", "new B", "B to 1"]
    assert search.result("A", 0.4, 1) == ["A to 2"]  # the first one always goes on
    assert search.result("B", 0.5, 1) == ["close B"]
    assert search.closed("B") == ["new C", "C to 1"]
    assert search.result("A", 0.3, 2) == ["A to 4"]
    assert search.result("C", 0.2, 1) == ["C to 2"]
    assert search.result("C", 0.35, 2) == ["close C"]
    assert search.closed("C") == ["new D", "D to 1"]
    assert search.result("A", 0.25, 4) == ["close A"]
    assert search.closed("A") == []
    assert search.result("D", 0.3, 1) == ["D to 2"]  # the second of four
    assert search.result("D", 0.1, 2) == ["D to 4"]
    assert search.result("D", 0.1, 4) == ["close D"]
    assert search.closed("D") == ["over"]


def test_a_result_of_a_later_rung_counts_in_the_ones_before_it(play):
    search = play(asha.AshaStoppingSearch, num_rungs=3, max_length=4, **HALVES)
    search.start()

    assert search.result("A", 0.4, 4) == ["close A"]
    assert [rung.metrics for rung in search.method.rungs] == [[0.4], [0.4], [0.4]]


@pytest.mark.parametrize(("end", "rung"), [("failed", [0.5, float("inf")]), ("invalid", [0.5])])
def test_stopping_keeps_the_worst_result_for_failures_and_none_for_points_it_replaces(
    play, end, rung
):
    search = play(asha.AshaStoppingSearch, num_rungs=2, max_length=2, **HALVES)
    search.start()
    search.result("A", 0.5, 1)

    assert getattr(search, end)("B") == ["new C", "C to 1"]
    assert search.method.rungs[0].metrics == rung
