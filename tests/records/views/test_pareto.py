import math

from quintain.records.views import pareto


def test_what_no_other_row_beats_is_the_front():
    values = [(1, 5), (2, 4), (2, 6), (3, 3), (3, 4), (1, 5)]

    assert pareto.find_front(values, [True, True]) == [0, 5, 1, 3]
    assert pareto.find_front(values, [False, True]) == [3]
    assert pareto.find_front(values, [False, False]) == [4, 2]


def test_rows_without_a_number_are_left_out():
    values = [(math.nan, 0), (None, 0), ("NaN", 0), (math.inf, 0), (1, 1)]

    assert pareto.find_front(values, [True, True]) == [4]
    assert pareto.find_front([], [True]) == []
