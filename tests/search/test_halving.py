import pytest

from quintain import errors
from quintain.search import adaptive, halving


def build_halving(space, random):
    """4 trials to 1 unit, the best 2 to 2, the best one to 4."""
    return halving.HalvingSearch(space, random, halving.plan_by_trials(4, 4, 2, 3))


def test_a_trial_goes_on_as_soon_as_nobody_can_take_its_place(play):
    search = play(build_halving)

    assert search.start() == [
        "new A", "A to 1", "new B", "B to 1", "new C", "C to 1", "new D", "D to 1",
    ]  # fmt: skip
    assert search.result("A", 0.4, 1) == []
    assert search.result("B", 0.1, 1) == []
    assert search.result("C", 0.3, 1) == ["B to 2"]  # D can push out only one of the best two
    assert search.result("D", 0.2, 1) == ["close C", "close A", "D to 2"]
    assert [search.closed(letter) for letter in "CA"] == [[], []]
    assert search.result("B", 0.5, 2) == []
    assert search.result("D", 0.6, 2) == ["close D", "B to 4"]
    assert search.closed("D") == []
    assert search.result("B", 0.05, 4) == ["close B"]
    assert search.closed("B") == ["over"]


def test_trials_that_failed_are_the_worst_and_not_closed_again(play):
    search = play(build_halving)
    search.start()

    assert search.failed("A") == []
    assert search.failed("B") == []
    assert search.result("C", 0.5, 1) == ["C to 2"]
    assert search.result("D", 0.6, 1) == ["D to 2"]
    assert search.failed("D") == []
    assert search.result("C", 0.5, 2) == ["C to 4"]
    assert search.result("C", 0.5, 4) == ["close C"]
    assert search.closed("C") == ["over"]


def test_a_budget_is_spent_once_over_its_rungs():
    # 4 trials to 1, 2 of them to 2, 1 to 4: 4 + 2 + 2 units; twice of it for 16.
    plan = halving.plan_by_budget(4, 16, 2, 3)

    assert plan == [halving.RungPlan(1, 8), halving.RungPlan(2, 4), halving.RungPlan(4, 2)]


def test_lengths_of_rungs_rise_even_where_they_are_short():
    assert halving.plan_lengths(4, 4, 4) == [1, 2, 3, 4]


def test_a_budget_for_too_many_trials_is_refused(play):
    plan = [halving.RungPlan(1, halving.MAX_TRIALS + 1)]

    with pytest.raises(errors.ConfigError, match=r"searcher.budget.*1,000,001 trials"):
        play(halving.HalvingSearch, plan=plan)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("aggressive", [5]), ("standard", [5, 4, 3]), ("conservative", [5, 4, 3, 2, 1])],
)
def test_a_mode_says_how_many_brackets_there_are(mode, expected):
    assert halving.choose_brackets(mode, 5) == expected


def test_a_mode_that_there_is_not_names_the_nearest_one():
    with pytest.raises(errors.ConfigError, match=r"searcher.mode: got 'agressive'.*'aggressive'"):
        halving.choose_brackets("agressive", 5)


@pytest.mark.parametrize(
    ("total", "parts", "expected"), [(7, 3, [3, 2, 2]), (2, 3, [1, 1, 0]), (6, 3, [2, 2, 2])]
)
def test_the_first_parts_of_a_total_are_the_larger_ones(total, parts, expected):
    assert halving.split_evenly(total, parts) == expected


def test_brackets_do_not_compete_with_each_other(play):
    search = play(
        adaptive.build_adaptive_simple,
        max_length=4, max_trials=3, divisor=2.0, max_rungs=2, mode="conservative",
    )  # fmt: skip

    assert search.start() == ["new A", "A to 2", "new B", "B to 2", "new C", "C to 4"]
    assert search.result("C", 0.1, 4) == ["close C"]
    assert search.result("A", 0.5, 2) == []
    assert search.result("B", 0.6, 2) == ["close B", "A to 4"]
    assert search.closed("C") == []


def test_further_trials_go_to_the_bracket_with_the_most_rungs(play):
    search = play(
        adaptive.build_adaptive_asha,
        max_length=4, max_trials=4, divisor=2.0, bracket_rungs=[1, 2],
    )  # fmt: skip

    assert search.start() == [
        "new A", "A to 2", "new B", "B to 2", "new C", "C to 4", "new D", "D to 4",
    ]  # fmt: skip
    assert search.extend(5) == []  # both brackets have as many at work as they may
    assert search.result("C", 0.1, 4) == ["close C"]
    assert search.result("A", 0.5, 2) == ["new E", "E to 2"]
    assert search.method.weights == (3, 2)
