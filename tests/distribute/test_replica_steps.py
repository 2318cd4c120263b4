import numpy as np
import pytest
import tensorflow as tf

from quintain.core import task_factory
from quintain.distribute import distribution, replica_steps
from quintain.run import train_lib
from quintain.settings import config_definitions as cfg


@pytest.mark.parametrize(("enable_xla", "expected"), [(True, True), (False, False)])
def test_xla_compiles_a_step_only_if_it_is_asked_to(enable_xla, expected):
    step = replica_steps.compile_step(lambda x: x + 1.0, cfg.RuntimeConfig(enable_xla=enable_xla))

    @tf.function
    def loop(x):
        return step(x)

    graph = loop.get_concrete_function(tf.TensorSpec([2])).graph
    attributes = [
        name for op in graph.get_operations() for name in op.node_def.attr if "Xla" in name
    ]
    assert ("_XlaMustCompile" in attributes) == expected


@pytest.fixture
def train(line_params):
    def run(enable_xla, task=None):
        params = line_params(
            {
                "task": {"dropout_rate": 0.0},
                "runtime": {"enable_xla": enable_xla},
                "trainer": {"train_steps": 5, "validation_interval": 5},
            }
        )
        strategy = distribution.build_strategy(params.runtime)
        task = task or task_factory.get_task(params.task)
        return train_lib.run_experiment(strategy, task, "train_and_eval", params, None)

    return run


@pytest.mark.slow
def test_compiled_steps_give_the_same_results(train):
    plain, plain_logs = train(False)
    compiled, compiled_logs = train(True)

    for first, second in zip(plain.get_weights(), compiled.get_weights(), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)
    assert compiled_logs["validation_loss"] == pytest.approx(
        plain_logs["validation_loss"], rel=1e-5
    )


@pytest.mark.long("Further cases of a test of which some run every time", but=["train_step"])
@pytest.mark.slow
@pytest.mark.parametrize("method", ["train_step", "validation_step"])
def test_training_and_evaluation_are_really_compiled(train, line_params, monkeypatch, method):
    task = task_factory.get_task(line_params().task)
    original = getattr(task, method)

    def step(inputs, *args, **kwargs):
        # XLA has no strings.
        tf.debugging.assert_none_equal(tf.strings.as_string(inputs[0][0, 0]), "")
        return original(inputs, *args, **kwargs)

    monkeypatch.setattr(task, method, step)

    train(False, task)
    with pytest.raises(tf.errors.InvalidArgumentError, match="AsString"):
        train(True, task)


def test_a_step_without_blocks_to_compute_again_is_told_of(caplog):
    runtime = cfg.RuntimeConfig(rematerialize=True)
    step = replica_steps.compile_step(lambda x, optimizer=None: x + 1.0, runtime)

    assert step(1.0) == 2.0  # An evaluation has no optimizer.
    assert not caplog.messages
    step(1.0, optimizer="adam")

    assert "runtime.rematerialize: has no effect" in caplog.text


@pytest.mark.parametrize("runtime", [{}, {"enable_xla": True}])
def test_copy_on_read_is_turned_off_for_variables_that_a_step_updates_by_rows(runtime):
    table, vector = tf.Variable(tf.ones([4, 2])), tf.Variable(tf.ones([2]))

    def step():
        rows = tf.gather(tf.convert_to_tensor(table), [1, 3])
        vector.assign_sub(rows[0])
        table.scatter_sub(tf.IndexedSlices(tf.ones_like(rows), tf.constant([1, 3])))

    compiled = replica_steps.compile_train_step(step, cfg.RuntimeConfig(**runtime))
    traced = tf.function(compiled).get_concrete_function()
    found = [op for op in traced.graph.get_operations() if op.type == "DisableCopyOnRead"]
    captured = {inner.name: outer for outer, inner in traced.graph.captures}

    assert [captured[op.inputs[0].name] is table.handle for op in found] == (
        [] if runtime else [True]
    )
    traced()
    held = table.read_value()
    traced()
    assert held.numpy().tolist() == [[1, 1], [0, 0], [1, 1], [0, 0]]
