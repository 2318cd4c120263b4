import json

import pytest


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
