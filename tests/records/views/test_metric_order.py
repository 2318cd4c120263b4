import math

import pytest

from quintain.records.rows import trial
from quintain.records.rows.states import TrialState
from quintain.records.views import metric_order, seeds


def measured(*metrics):
    return [
        trial.TrialRecord(number, 1, str(number), TrialState.COMPLETED, {}, 0, best_metric=metric)
        for number, metric in enumerate(metrics)
    ]


@pytest.mark.parametrize(
    ("smaller_is_better", "expected"), [(True, [1, 3, 0, 2]), (False, [0, 1, 3, 2])]
)
def test_items_come_best_first_equal_ones_in_their_order_and_nan_last(smaller_is_better, expected):
    ranked = metric_order.rank(
        measured(0.5, 0.1, math.nan, 0.1, None),
        lambda one: one.best_metric,
        smaller_is_better=smaller_is_better,
    )

    assert [one.id for one in ranked] == expected


@pytest.mark.parametrize(
    ("searcher", "best"),
    [({}, 1), ({"smaller_is_better": True}, 1), ({"smaller_is_better": False}, 2)],
)
def test_the_best_trial_is_that_of_the_searched_metric(searcher, best):
    assert seeds.find_best(measured(None, 0.1, 0.9), searcher).id == best


def test_without_a_validation_no_trial_is_the_best():
    assert seeds.find_best(measured(None, None), {}) is None
