"""How much of a search is done, and how much is left."""

import numpy as np
import pytest

from quintain.records.config import experiment_spec
from quintain.search import base_search, search_factory, searcher, simulate

SEARCHES = [
    {"name": "single", "max_length": 100},
    {"name": "random", "max_length": 100, "max_trials": 50},
    {"name": "random", "max_length": 100, "max_trials": 50, "max_concurrent_trials": 2},
    {"name": "grid", "max_length": 10},
    {"name": "adaptive", "max_length": 64, "budget": 3000},
    {"name": "adaptive_simple", "max_length": 64, "max_trials": 60},
    {"name": "sync_halving", "max_length": 64, "budget": 3000},
    {"name": "async_halving", "max_length": 64, "max_trials": 100},
    {"name": "async_halving", "max_length": 64, "max_trials": 100, "stop_once": True},
    {"name": "adaptive_asha", "max_length": 320, "max_trials": 200},
    {"name": "adaptive_asha", "max_length": 320, "max_trials": 200, "stop_once": True},
    {"name": "adaptive_asha", "max_length": 64, "max_trials": 16, "max_concurrent_trials": 2},
    {"name": "pbt", "population_size": 8, "num_rounds": 5, "length_per_round": 10,
     "replace_function": {"truncate_fraction": 0.25}},
    {"name": "tpe", "max_length": 64, "max_trials": 30, "num_rungs": 3},
]  # fmt: skip


def build(fields):
    return search_factory.build_searcher(
        experiment_spec.parse(
            {
                "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1, "count": 9}},
                "searcher": {"metric": "loss", **fields},
                "reproducibility": {"experiment_seed": 3},
            }
        )
    )


@pytest.mark.parametrize("fields", SEARCHES, ids=lambda fields: fields["name"])
@pytest.mark.parametrize("seed", [1, 2])
def test_after_a_tenth_the_rest_is_known_within_a_factor_of_two(fields, seed):
    search, metrics = build(fields), np.random.RandomState(seed)
    seen = []

    def measure(*_):
        seen.append((search.num_trained, search.left(search.num_trained)))
        return float(metrics.random_sample())

    total = simulate.simulate(search, measure).total_length
    if fields["name"] == "pbt":  # Copies count from 0.
        assert seen[0][1] == 8 * 5 * 10

    late = [(trained, left) for trained, left in seen if trained >= total / 10]
    assert all(total / 2 <= trained + left <= total * 2 for trained, left in late)
    assert search.left(total) == 0
    assert search.progress(total) == 1


def test_progress_counts_batches_of_trials_that_have_not_ended():
    search = build({"name": "random", "max_length": 10, "max_trials": 4})
    first, second = [each.request_id for each in search.start()[:6:3]]

    assert (search.progress(0), search.left(0)) == (0, 40)
    assert (search.progress(10), search.left(10)) == (0.225, 30)
    search.record(searcher.Validated(first, 0.5, 10))
    assert (search.progress(10), search.left(10)) == (0.25, 30)
    search.record(searcher.Closed(first))
    assert (search.progress(15), search.left(15)) == (0.3625, 25)
    search.record(searcher.ExitedEarly(second, base_search.ExitReason.ERRORED, 5))
    assert (search.progress(15), search.left(15)) == (15 / 35, 20)


def test_progress_leaves_room_for_validations_and_stays_below_1_until_the_search_is_over():
    search = build({"name": "single", "max_length": 10})
    name = search.start()[0].request_id

    assert search.progress(10) == 0.9
    search.record(searcher.Validated(name, 0.5, 10))
    assert search.progress(10) == 0.99
    search.record(searcher.Closed(name))
    assert search.progress(10) == 1
