"""Trains several tasks, jointly and in turns, on one replica and on two.

Two virtual CPUs can only be made before TensorFlow starts.
"""

import json

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from quintain import optimization
from quintain.core import base_task
from quintain.core.multitask import (
    base_model,
    base_trainer,
    evaluator,
    interleaving_trainer,
    multitask,
    task_sampler,
)

BATCH = 8


class Model(base_model.MultiTaskBaseModel):
    def __init__(self):
        keras.utils.set_random_seed(3)
        self._shared = keras.layers.Dense(4)
        super().__init__()

    def _instantiate_sub_tasks(self):
        return {
            name: keras.Sequential([keras.Input((3,)), self._shared, keras.layers.Dense(1)])
            for name in ("a", "b")
        }


class Line(base_task.Task):
    def build_inputs(self, params, input_context=None):
        x = tf.random.stateless_normal([64, 3], seed=(1, 2))
        y = tf.reduce_sum(x, axis=1, keepdims=True)
        data = tf.data.Dataset.from_tensor_slices((x, y))
        data = data.repeat() if params.is_training else data
        replicas = input_context.num_replicas_in_sync if input_context else 1
        return data.batch(BATCH // replicas, drop_remainder=True)

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - model_outputs))


def train(strategy, is_joint):
    with strategy.scope():
        config = base_task.TaskConfig()
        config.train_data.is_training = True
        tasks = multitask.MultiTask([Line(config, name="a"), Line(config, name="b")])
        model = Model()
        arguments = [tasks, model, optimization.SGD(0.05)]
        if is_joint:
            trainer = base_trainer.MultiTaskBaseTrainer(*arguments)
        else:
            sampler = task_sampler.UniformTaskSampler(tasks.task_weights)
            trainer = interleaving_trainer.MultiTaskInterleavingTrainer(*arguments, sampler)
        logs = trainer.train(tf.constant(6, tf.int32))
        evaluated = evaluator.MultiTaskEvaluator(tasks.tasks, model).evaluate(tf.constant(-1))
    return {
        "loss": float(logs["training_loss"]),
        "validation": float(evaluated["b"]["validation_loss"]),
        "weights": [float(tf.reduce_sum(v)) for v in model.trainable_variables],
        "step": int(trainer.global_step.numpy()),
    }


strategies = (tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
kinds = {"joint": True, "interleaving": False}
results = {
    name: [train(strategy, is_joint) for strategy in strategies] for name, is_joint in kinds.items()
}
print(json.dumps(results))
