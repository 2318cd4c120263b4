import pytest

from quintain import errors
from quintain.search import random_search

GRID = {
    "b": {"type": "categorical", "vals": [1, 2]},
    "a": {"type": "categorical", "vals": ["x", "y"]},
}


def test_a_trial_follows_another_that_was_closed_or_failed(play):
    search = play(random_search.RandomSearch, max_length=5, max_trials=4, max_concurrent_trials=2)

    assert search.start() == ["new A", "A to 5", "new B", "B to 5"]
    assert search.result("A", 0.5, 5) == ["close A"]
    assert search.closed("A") == ["new C", "C to 5"]
    assert search.failed("B") == ["new D", "D to 5"]
    assert search.result("D", 0.1, 5) == ["close D"]
    assert search.result("C", 0.2, 5) == ["close C"]
    assert search.closed("C") == []
    assert search.closed("D") == ["over"]


def test_points_that_can_not_be_trained_do_not_count(play):
    search = play(random_search.RandomSearch, max_length=1, max_trials=2, max_concurrent_trials=1)

    assert search.start() == ["new A", "A to 1"]
    assert search.invalid("A") == ["new B", "B to 1"]
    assert search.invalid("B") == ["new C", "C to 1"]
    assert search.result("C", 0.5, 1) == ["close C"]
    assert search.closed("C") == ["new D", "D to 1"]
    assert search.failed("D") == ["over"]


def test_a_single_trial_that_can_not_be_trained_is_not_replaced(play):
    search = play(random_search.RandomSearch, max_length=1, max_trials=1)
    search.start()

    assert search.invalid("A") == ["failed"]


def test_a_search_that_is_over_takes_more_trials_up_to_its_concurrency(play):
    search = play(random_search.RandomSearch, max_length=1, max_trials=1, max_concurrent_trials=2)
    search.start()
    search.result("A", 0.5, 1)

    assert search.closed("A") == ["over"]
    assert search.extend(4) == ["new B", "B to 1", "new C", "C to 1"]
    assert search.failed("B") == ["new D", "D to 1"]


def test_a_search_is_extended_to_more_trials_only(play):
    search = play(random_search.RandomSearch, max_length=1, max_trials=2)

    with pytest.raises(
        errors.StateError, match="max_trials: got 2, expected more than the present 2"
    ):
        search.extend(2)


def test_a_trial_that_ended_goes_on_from_where_it_was(play):
    search = play(random_search.RandomSearch, max_length=5, max_trials=1)
    search.start()
    search.result("A", 0.5, 5)
    search.closed("A")

    assert search.reopen("A", 9) == ["A to 9"]
    assert search.result("A", 0.4, 9) == ["close A"]
    assert search.closed("A") == ["over"]


def test_the_last_name_of_a_grid_varies_fastest_and_a_failure_skips_its_point(play):
    search = play(random_search.GridSearch, {**GRID, "c": 7}, max_length=2, max_concurrent_trials=3)

    assert search.start() == ["new A", "A to 2", "new B", "B to 2", "new C", "C to 2"]
    assert search.invalid("B") == ["new D", "D to 2"]
    assert search.failed("A") == []
    assert search.hparams == {
        "A": {"a": "x", "b": 1, "c": 7},
        "B": {"a": "x", "b": 2, "c": 7},
        "C": {"a": "y", "b": 1, "c": 7},
        "D": {"a": "y", "b": 2, "c": 7},
    }


def test_a_grid_can_not_be_given_more_trials(play):
    search = play(random_search.GridSearch, GRID, max_length=2)

    with pytest.raises(errors.StateError, match="plans all of its trials at the start"):
        search.extend(10)
