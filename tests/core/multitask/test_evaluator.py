import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors, optimization
from quintain.core import base_task
from quintain.core.multitask import evaluator


class CountingTask(base_task.Task):
    """Its data has `y` for one of the tasks, for which the model adds no loss."""

    def build_inputs(self, params):
        x = tf.zeros([2, 2])
        features = {"x": x, "y": x} if self.name == "bar" else {"x": x}
        return tf.data.Dataset.from_tensors((features, tf.zeros([2, 1]))).repeat()

    def build_metrics(self, training=True):
        return [keras.metrics.MeanSquaredError(name="error")]

    def validation_step(self, inputs, model, metrics=None):
        return super().validation_step(inputs, model, metrics) | {"counter": tf.ones([1])}

    def aggregate_logs(self, state=None, step_outputs=None):
        return [*(state or []), *(part.numpy() for part in step_outputs["counter"])]

    def reduce_aggregated_logs(self, aggregated_logs, global_step=None):
        return {"counter": np.sum(aggregated_logs)}


class LossyModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        self.add_loss(tf.constant(0.0 if "y" in inputs else 1.0))
        return self.dense(inputs["x"])


def build_tasks():
    return [CountingTask(base_task.TaskConfig(), name=name) for name in ("bar", "foo")]


@pytest.mark.slow
def test_tasks_that_share_a_model_are_evaluated_apart():
    lossy = evaluator.MultiTaskEvaluator(build_tasks(), LossyModel(), eval_steps={"foo": 2})

    results = lossy.evaluate(tf.constant(5, tf.int32))

    assert set(results["bar"]) == {"validation_loss", "error", "counter"}
    assert float(results["bar"]["validation_loss"]) == 0.0
    assert float(results["foo"]["validation_loss"]) == 1.0
    assert (results["bar"]["counter"], results["foo"]["counter"]) == (5.0, 2.0)


def test_endless_data_of_a_task_without_steps_of_its_own_are_refused():
    lossy = evaluator.MultiTaskEvaluator(build_tasks(), LossyModel(), eval_steps={"foo": 2})

    with pytest.raises(errors.ConfigError, match="validation_data of the task 'bar': the data"):
        lossy.check_evaluation_ends(-1)
    lossy.check_evaluation_ends(5)


def test_tasks_of_the_same_name_and_steps_of_no_task_are_refused():
    bar, foo = build_tasks()

    with pytest.raises(errors.ConfigError, match="two tasks have the name 'bar'"):
        evaluator.MultiTaskEvaluator([bar, bar], LossyModel())
    with pytest.raises(errors.ConfigError, match="Did you mean 'foo'"):
        evaluator.MultiTaskEvaluator([bar, foo], LossyModel(), eval_steps={"fou": 2})


@pytest.mark.slow
def test_averages_are_evaluated_and_the_weights_are_back_even_after_an_error(two_tasks, two_heads):
    model, tasks = two_heads(dropout_rate=0.0), two_tasks()
    average = optimization.ExponentialMovingAverage(optimization.SGD(0.1))
    average.shadow_copy(model)
    for weight in model.trainable_variables:
        weight.assign(weight + 1.0)
    moved = [weight.numpy() for weight in model.trainable_variables]
    plain = evaluator.MultiTaskEvaluator(tasks.tasks, model)
    averaged = evaluator.MultiTaskEvaluator(tasks.tasks, model, average=average)

    losses = [
        float(one.evaluate(tf.constant(-1))["plus"]["validation_loss"]) for one in (plain, averaged)
    ]
    tasks.tasks["minus"].aggregate_logs = lambda *args: 1 / 0
    with pytest.raises(ZeroDivisionError):
        averaged.evaluate(tf.constant(-1))

    assert losses[0] != losses[1]
    for weight, value in zip(model.trainable_variables, moved, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)
