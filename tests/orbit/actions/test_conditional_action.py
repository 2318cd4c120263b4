import pytest
import tensorflow as tf

from quintain.orbit import actions


def test_runs_the_actions_in_order_if_the_condition_holds():
    calls = []
    action = actions.ConditionalAction(
        lambda output: output["loss"] < 1.0,
        [lambda output: calls.append("first"), lambda output: calls.append(output)],
    )

    action({"loss": 2.0})
    action({"loss": 0.5})

    assert calls == ["first", {"loss": 0.5}]


@pytest.mark.parametrize("result", [True, tf.constant(True), 1])
def test_takes_anything_true_for_true(result):
    calls = []

    actions.ConditionalAction(lambda output: result, calls.append)("output")

    assert calls == ["output"]
