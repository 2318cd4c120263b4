import json
import math

import pytest

from quintain.cli.experiment import pareto


def test_trials_that_no_other_beats_are_shown(quintain, calls_fake):
    code, stdout, _ = quintain(
        "experiment", "pareto", 1, "--objective=accuracy:max", "--objective=lr:max", "--json"
    )

    assert code == 0
    assert [(one["id"], one["accuracy"], one["lr"]) for one in json.loads(stdout)] == [
        (2, 0.75, 0.05),
        (1, 0.5, 0.1),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "searches for one metric only, "),
        (("--objective=accuracy",), "got 'accuracy', expected METRIC:min or METRIC:max"),
        (("--objective=acuracy:max", "--objective=lr:min"), "--objective: got 'acuracy'"),
    ],
)
def test_a_mistake_is_one_clear_message(quintain, calls_fake, arguments, message):
    code, stdout, stderr = quintain("experiment", "pareto", 1, *arguments)

    assert (code, stdout) == (2, "")
    assert message in stderr


def test_what_no_other_row_beats_is_the_front():
    values = [(1, 5), (2, 4), (2, 6), (3, 3), (3, 4), (1, 5)]

    assert pareto.find_front(values, [True, True]) == [0, 5, 1, 3]
    assert pareto.find_front(values, [False, True]) == [3]
    assert pareto.find_front(values, [False, False]) == [4, 2]


def test_rows_without_a_number_are_left_out():
    values = [(math.nan, 0), (None, 0), ("NaN", 0), (math.inf, 0), (1, 1)]

    assert pareto.find_front(values, [True, True]) == [4]
    assert pareto.find_front([], [True]) == []
