import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors, optimization
from quintain.core import base_task
from quintain.core.multitask import (
    base_model,
    base_trainer,
    interleaving_trainer,
    multitask,
    task_sampler,
)
from quintain.optimization import loss_scaling


class LazyModel(keras.Model):
    """Has no variables before its first call, and adds a loss of its own."""

    def __init__(self, feature, shared_layer):
        super().__init__()
        self._feature = feature
        self._shared_layer = shared_layer
        self._head = keras.layers.Dense(1)

    def call(self, inputs):
        self.add_loss(tf.constant(2.0))
        return self._head(self._shared_layer(inputs[self._feature]))


class LazyMultiTaskModel(base_model.MultiTaskBaseModel):
    def __init__(self):
        self._shared_dense = keras.layers.Dense(1)
        super().__init__()

    def _instantiate_sub_tasks(self):
        return {name: LazyModel(name, self._shared_dense) for name in ("foo", "bar")}


class ZeroTask(base_task.Task):
    """Inputs and labels of 0: the loss is what the model adds."""

    def build_inputs(self, params):
        features = {self.name: tf.zeros([2, 2])}
        return tf.data.Dataset.from_tensors((features, tf.zeros([2, 1]))).repeat()

    def build_losses(self, labels, model_outputs, aux_losses=None):
        loss = tf.reduce_mean(tf.square(labels - model_outputs))
        return loss + tf.add_n(aux_losses) if aux_losses else loss

    def build_metrics(self, training=True):
        return [keras.metrics.MeanSquaredError(name=f"{self.name}_error")]


def zero_tasks(**kwargs):
    config = base_task.TaskConfig()
    return multitask.MultiTask([ZeroTask(config, name=name) for name in ("foo", "bar")], **kwargs)


@pytest.mark.slow
def test_lazy_models_are_built_from_data_and_every_task_reports_its_metrics():
    tasks = zero_tasks(task_weights={"foo": 0.5})
    trainer = base_trainer.MultiTaskBaseTrainer(
        multi_task=tasks, multi_task_model=LazyMultiTaskModel(), optimizer=keras.optimizers.SGD(0.1)
    )

    logs = trainer.train(tf.constant(5, tf.int32))

    assert set(logs["foo"]) == {"training_loss", "foo_error"}
    assert set(logs["bar"]) == {"training_loss", "bar_error"}
    assert float(logs["foo"]["training_loss"]) == 2.0
    assert float(logs["total_loss"]["training_loss"]) == 0.5 * 2.0 + 2.0
    assert float(logs["learning_rate"]) == pytest.approx(0.1)
    assert int(trainer.global_step) == 5
    assert logs["examples_per_second"] > 0
    assert len(trainer.multi_task_model.trainable_variables) == 6


@pytest.mark.slow
def test_each_step_of_interleaving_trains_one_task():
    tasks = zero_tasks(task_weights={"foo": 3.0})
    sampler = task_sampler.AnnealingTaskSampler(
        tasks.task_weights, steps_per_epoch=40, total_steps=200
    )
    trainer = interleaving_trainer.MultiTaskInterleavingTrainer(
        tasks, LazyMultiTaskModel(), keras.optimizers.SGD(0.1), sampler
    )

    logs = trainer.train(tf.constant(200, tf.int32))

    counts = {name: int(trainer.task_step_counter(name)) for name in ("foo", "bar")}
    assert counts["foo"] + counts["bar"] == int(trainer.global_step) == 200
    assert counts["foo"] > counts["bar"] > 20
    assert int(logs["foo"]["steps"]) == counts["foo"]
    assert "total_loss" not in logs
    assert float(logs["training_loss"]) == 2.0


@pytest.mark.slow
def test_a_task_that_no_step_drew_reports_no_loss():
    tasks = zero_tasks(task_weights={"bar": 0.0})
    sampler = task_sampler.ProportionalTaskSampler(tasks.task_weights)
    trainer = interleaving_trainer.MultiTaskInterleavingTrainer(
        tasks, LazyMultiTaskModel(), keras.optimizers.SGD(0.1), sampler
    )

    logs = trainer.train(tf.constant(2, tf.int32))

    assert {name: int(value) for name, value in logs["bar"].items()} == {"steps": 0}
    assert int(logs["foo"]["steps"]) == 2


@pytest.mark.slow
def test_joint_training_ends_whole_with_the_first_task_that_has_no_more_data(
    two_tasks, two_heads, sign_config
):
    tasks = two_tasks()
    tasks.tasks["minus"].task_config.override({"is_finite": True})
    model = two_heads()
    trainer = base_trainer.MultiTaskBaseTrainer(tasks, model, optimization.SGD(0.1))

    logs = trainer.train(tf.constant(10, tf.int32))

    assert trainer.train_data_exhausted
    assert int(trainer.global_step) == int(trainer.optimizer.iterations) == 4
    assert float(logs["plus"]["training_loss"]) > 0


@pytest.mark.long("Further cases of a test of which some run every time", but=["True"])
@pytest.mark.slow
@pytest.mark.parametrize("is_joint", [True, False])
def test_accumulated_and_averaged_and_scaled_optimizers_train(two_tasks, two_heads, is_joint):
    keras.utils.set_random_seed(1)
    tasks, model = two_tasks(), two_heads(dropout_rate=0.0)
    average = optimization.ExponentialMovingAverage(optimization.SGD(0.1), average_decay=0.5)
    optimizer = optimization.GradientAccumulation(loss_scaling.LossScaleOptimizer(average), 2)
    if is_joint:
        trainer = base_trainer.MultiTaskBaseTrainer(tasks, model, optimizer)
    else:
        sampler = task_sampler.UniformTaskSampler(tasks.task_weights)
        trainer = interleaving_trainer.MultiTaskInterleavingTrainer(
            tasks, model, optimizer, sampler
        )

    first = trainer.train(tf.constant(1, tf.int32))
    last = trainer.train(tf.constant(9, tf.int32))

    assert int(trainer.global_step) == int(average.iterations) == 10
    assert float(last["training_loss"]) < float(first["training_loss"])
    for weight, mean in zip(model.trainable_variables, average.average_weights, strict=True):
        assert not np.array_equal(weight.numpy(), mean.numpy())


@pytest.mark.slow
def test_xla_gives_the_losses_of_the_plain_step(two_tasks, two_heads):
    losses = []
    for enable_xla in (False, True):
        keras.utils.set_random_seed(1)
        trainer = base_trainer.MultiTaskBaseTrainer(
            two_tasks(),
            two_heads(dropout_rate=0.0),
            optimization.SGD(0.1),
            runtime=base_task.RuntimeConfig(seed=3, enable_xla=enable_xla),
        )
        losses.append(float(trainer.train(tf.constant(4, tf.int32))["training_loss"]))

    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


class RefusingTask(ZeroTask):
    def build_losses(self, labels, model_outputs, aux_losses=None):
        raise errors.ConfigError("task.sharpness: got 7.")


def test_an_error_in_a_traced_step_is_raised_as_the_task_raised_it():
    trainer = base_trainer.MultiTaskBaseTrainer(
        multi_task=multitask.MultiTask([RefusingTask(base_task.TaskConfig(), name="foo")]),
        multi_task_model=LazyModel("foo", keras.layers.Dense(1)),
        optimizer=keras.optimizers.SGD(0.1),
    )

    with pytest.raises(errors.ConfigError, match=r"^task\.sharpness: got 7\.$"):
        trainer.train(tf.constant(1, tf.int32))
