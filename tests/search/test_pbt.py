"""A population of four, of which the worst one is replaced after each round of 5 units."""

import pytest

from quintain.search import pbt

SPACE = {"x": {"type": "double", "minval": 1, "maxval": 100}}


@pytest.fixture
def search(play):
    return play(
        pbt.PbtSearch,
        SPACE,
        population_size=4,
        num_rounds=2,
        length_per_round=5,
        truncate_fraction=0.25,
        resample_probability=0.0,
        perturb_factor=0.1,
    )


def finish_round(search, metrics, length):
    """Gives the results of a round, and returns what its last one causes."""
    *earlier, (letter, metric) = metrics.items()
    assert [search.result(each, value, length) for each, value in earlier] == [[]] * len(earlier)
    return search.result(letter, metric, length)


def test_a_round_ends_with_a_copy_of_the_best_for_the_worst(search):
    assert search.start() == [
        "new A", "A to 5", "new B", "B to 5", "new C", "C to 5", "new D", "D to 5",
    ]  # fmt: skip
    assert finish_round(search, {"A": 2.0, "B": 1.0, "C": 4.0, "D": 3.0}, 5) == [
        "close C", "save B", "A to 10", "D to 10",
    ]  # fmt: skip
    assert search.closed("C") == []
    assert search.saved("B") == ["new E of B", "E to 5", "B to 10"]
    assert finish_round(search, {"A": 1.0, "D": 2.0, "E": 3.0, "B": 4.0}, 10) == [
        "close A", "close D", "close E", "close B",
    ]  # fmt: skip
    assert [search.closed(letter) for letter in "ADEB"] == [[], [], [], ["over"]]


def test_a_copy_is_near_its_parent(search):
    search.start()
    finish_round(search, {"A": 1.0, "B": 2.0, "C": 4.0, "D": 3.0}, 5)
    search.saved("A")

    ratio = search.hparams["E"]["x"] / search.hparams["A"]["x"]
    assert min(abs(ratio - 0.9), abs(ratio - 1.1)) < 1e-12


def test_a_trial_that_failed_is_the_worst_of_its_round(search):
    search.start()

    assert search.failed("A") == []
    assert finish_round(search, {"B": 1.0, "C": 2.0, "D": 3.0}, 5) == [
        "save B", "C to 10", "D to 10",
    ]  # fmt: skip


def test_a_parent_that_fails_before_it_is_saved_has_no_copy(search):
    search.start()
    finish_round(search, {"A": 1.0, "B": 2.0, "C": 3.0, "D": 4.0}, 5)

    assert search.failed("A") == []
    assert search.closed("D") == []
    assert finish_round(search, {"B": 1.0, "C": 2.0}, 10) == ["close B", "close C"]
