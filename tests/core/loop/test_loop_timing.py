import logging
import time
import types

import pytest
import tensorflow as tf

from quintain.core import base_trainer, task_factory
from quintain.core.loop import loop_timing


def build_trainer(params, dataset=None):
    task = task_factory.get_task(params.task)
    optimizer = task.create_optimizer(params.trainer.optimizer_config)
    model = task.build_model()
    return base_trainer.Trainer(params, task, model, optimizer, train_dataset=dataset)


def slow_data(secs):
    """Batches that each take some time to make."""

    def wait(features, labels):
        def sleep(values):
            time.sleep(secs)
            return values

        features = tf.ensure_shape(tf.numpy_function(sleep, [features], tf.float32), [8, 3])
        return features, labels

    data = tf.data.Dataset.from_tensors((tf.ones([8, 3]), tf.ones([8, 1])))
    return data.repeat().map(wait)


@pytest.mark.slow
@pytest.mark.parametrize("use_while_loop", [True, False])
def test_the_wait_for_input_is_told_from_computation(line_params, use_while_loop):
    params = line_params({"trainer": {"train_tf_while_loop": use_while_loop}})
    trainer = build_trainer(params, slow_data(0.05))
    trainer.train(tf.constant(1))

    logs = trainer.train(tf.constant(4))

    assert logs["input_wait_ms"] >= 30  # the first may be there already
    assert logs["step_ms"] == pytest.approx(logs["input_wait_ms"] + logs["compute_ms"])
    assert logs["host_memory_gb"] > 0.1


def test_nothing_computes_with_a_batch_before_the_wait_has_ended():
    timing = loop_timing.LoopTiming(None)
    ragged = tf.ragged.constant([[1], [2, 3]])

    def take():
        with tf.device("/device:CPU:0"):
            return tf.zeros([2]), ragged

    graph = tf.function(lambda: timing.measure_next(take))

    traced = graph.get_concrete_function()

    held = [output.op.inputs[0].op for output in traced.graph.outputs]
    clocks = [[one.type for one in op.control_inputs] for op in held]
    assert clocks == [["Timestamp"]] * 3
    assert held[0].device == held[0].inputs[0].device == "/device:CPU:0"
    assert graph()[1].to_list() == [[1], [2, 3]]


@pytest.mark.slow
def test_time_between_loops_is_the_host_s(line_params, monkeypatch):
    # The first loop lasts from 10 s to 11 s, the second one from 15 s to 17 s.
    clock = types.SimpleNamespace(perf_counter=iter([10.0, 11.0, 15.0, 17.0]).__next__)
    monkeypatch.setattr(loop_timing, "time", clock)
    trainer = build_trainer(line_params())
    trainer.train(tf.constant(1))

    logs = trainer.train(tf.constant(2))

    assert logs["host_ms"] == 2000.0
    assert logs["step_ms"] == 1000.0


@pytest.mark.slow
def test_the_wait_for_data_that_end_is_measured(line_params):
    trainer = build_trainer(line_params(), slow_data(0.05).take(5))

    logs = trainer.train(tf.constant(4))

    assert logs["input_wait_ms"] >= 30  # the first may be there already


def test_slow_input_is_blamed_once(line_params, caplog):
    caplog.set_level(logging.WARNING)
    timing = loop_timing.LoopTiming(lambda: tf.data.Dataset.range(10).repeat())

    for share in (0.5, 0.5, 0.1, 0.5, 0.5):
        timing._watch(share)
    assert "waits for its input" not in caplog.text
    for _ in range(4):
        timing._watch(0.5)

    assert caplog.text.count("waits for its input for 50 %") == 1
    assert "The slowest stage is" in caplog.text
