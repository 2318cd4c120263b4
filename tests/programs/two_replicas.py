"""What is done on two replicas, for `tests/core/test_two_replicas.py`.

Two virtual CPUs can only be made before TensorFlow starts.
"""

import json
import sys
import tempfile

import numpy as np
import tensorflow as tf

from quintain.core import config_definitions as cfg
from quintain.distribute import distribution

two = distribution.build_strategy(
    cfg.RuntimeConfig(distribution_strategy="mirrored", num_virtual_cpus=2)
)
one = tf.distribute.OneDeviceStrategy("/cpu:0")

import keras

from quintain.checkpoints import checkpoint_state
from quintain.core import base_task, base_trainer, task_factory, train_lib
from quintain.core.loop import dataset_distribution
from quintain.modeling import grad_utils, tf_utils
from quintain.nlp.tasks import translation
from quintain.optimization import loss_scaling
from quintain.optimization.rules import sgd

sys.path.insert(0, sys.argv[1])
import line_experiment

results = {"num_replicas": two.num_replicas_in_sync}


def train_line(strategy, num_cpus=2, **overrides):
    params = line_experiment.build_line_experiment()
    params.override({"runtime": {"distribution_strategy": "mirrored"}})
    params.override({"runtime": {"num_virtual_cpus": num_cpus}})
    params.override({"trainer": {"train_steps": 10, "validation_interval": 10}})
    params.override(overrides)
    with strategy.scope():
        task = task_factory.get_task(params.task)
    model, logs = train_lib.run_experiment(strategy, task, "train_and_eval", params, None)
    return model, {name: float(value) for name, value in logs.items()}


# Finite data: 60 examples are 15 batches of 4, the last of which has no partner.
model, logs = train_line(two, task={"is_finite": True, "num_examples": 60, "dropout_rate": 0.0})
results["finite"] = logs
_, results["python_loop"] = train_line(
    two,
    task={"is_finite": True, "num_examples": 60, "dropout_rate": 0.0},
    trainer={"train_tf_while_loop": False},
)

# Random layers.
model, _ = train_line(two, task={"dropout_rate": 0.5}, trainer={"train_steps": 1})
with two.scope():
    generators = checkpoint_state.seed_generators(model)
    results["seeds"] = [
        part.numpy().tolist() for part in checkpoint_state.local_parts([generators[0].state])
    ]


# Statistics of normalisation, and a model that was compiled with losses.
class Normalized(base_task.Task):
    def build_model(self):
        inputs = keras.Input((line_experiment.NUM_FEATURES,))
        hidden = keras.layers.BatchNormalization(momentum=0.5)(inputs)
        frozen = keras.layers.Dense(2, trainable=False)(hidden)
        outputs = {"a": keras.layers.Dense(1)(hidden), "b": keras.layers.Dense(1)(frozen)}
        model = keras.Model(inputs, outputs)
        model.compile(loss={"a": "mse", "b": "mae"}, loss_weights={"a": 1.0, "b": 0.5})
        return model

    def build_inputs(self, params, input_context=None):
        x = tf.random.stateless_normal([64, line_experiment.NUM_FEATURES], seed=(1, 2))
        x *= tf.range(64.0)[:, tf.newaxis]
        y = tf.reduce_sum(x, axis=1, keepdims=True)
        dataset = tf.data.Dataset.from_tensor_slices((x, {"a": y, "b": y})).batch(4)
        return dataset.repeat() if params.is_training else dataset


params = line_experiment.build_line_experiment()
average = {"average_decay": 0.5, "trainable_weights_only": False}
params.override({"trainer": {"optimizer_config": {"ema": average}}})
with two.scope():
    task = Normalized(params.task)
    model = task.build_model()
    optimizer = task.create_optimizer(params.trainer.optimizer_config)
    trainer = base_trainer.Trainer(params, task, model, optimizer)
    trainer.train(tf.constant(5))
    recorded = float(trainer.evaluate(tf.constant(-1))["validation_loss"])
    results["copies"] = [
        [part.numpy().tolist() for part in two.experimental_local_results(variable.value)]
        for variable in [*model.variables, *optimizer.average_weights]
        if variable.dtype == "float32"
    ]
    path = trainer.checkpoint.write(tempfile.mkdtemp() + "/checkpoint")
    trainer.checkpoint.read(path)
    reloaded = float(trainer.evaluate(tf.constant(-1))["validation_loss"])
    results["losses"] = [recorded, reloaded]

# Windows of unknown length.
batches = tf.data.Dataset.range(10).batch(2).filter(lambda batch: True)
with two.scope():
    kept = dataset_distribution.drop_partial_step(
        batches.map(lambda batch: {"x": batch, "y": (batch, -batch)}), two
    )
    results["window"] = [batch["x"].numpy().tolist() for batch in kept]
    pairs = dataset_distribution.drop_partial_step(batches.map(lambda x: (x, -x)), two)
    results["pairs"] = [first.numpy().tolist() for first, _ in pairs]


# Tokens: replica 0 has 3 target tokens, replica 1 has 1.
class Tiny(translation.TranslationTask):
    def build_model(self):
        keras.utils.set_random_seed(1)
        names = ("inputs", "targets")
        inputs = {name: keras.Input([None], dtype="int32", name=name) for name in names}
        embedded = keras.layers.Embedding(5, 3)(inputs["targets"])
        return keras.Model(inputs, keras.layers.Dense(5)(embedded))


def train_tokens(strategy, batches):
    task = Tiny(translation.TranslationConfig(), logging_dir="run")
    with strategy.scope():
        model = task.build_model()
        optimizer = sgd.SGD(0.5)
        optimizer.build(model.trainable_variables)
        values = [
            {"inputs": tf.constant(batch), "targets": tf.constant(batch)} for batch in batches
        ]
        inputs = (
            strategy.experimental_distribute_values_from_function(
                lambda context: values[context.replica_id_in_sync_group]
            )
            if len(values) > 1
            else values[0]
        )

        @tf.function
        def step(inputs):
            return strategy.run(lambda x: task.train_step(x, model, optimizer), args=(inputs,))

        losses = strategy.experimental_local_results(step(inputs)["loss"])
    mean = float(np.mean([loss.numpy() for loss in losses]))
    return mean, [variable.numpy() for variable in model.trainable_variables]


rows = [[1, 2, 3], [4, 0, 0]]
mean_two, weights_two = train_tokens(two, [[rows[0]], [rows[1]]])
mean_one, weights_one = train_tokens(one, [rows])
results["tokens"] = {
    "means": [mean_two, mean_one],
    "error": float(max(np.abs(a - b).max() for a, b in zip(weights_two, weights_one, strict=True))),
}


# The sum over the replicas in the open.
def minimize(make_optimizer, **callbacks):
    with two.scope():
        variable = keras.Variable([1.0, 2.0])
        other = keras.Variable(0.0)
        optimizer = make_optimizer()
        optimizer.build([variable, other])

        def replica_fn():
            replica = tf.cast(tf_utils.get_replica_id(), tf.float32)
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable.value * (replica + 1.0)) / 2.0
            grad_utils.minimize_using_explicit_allreduce(
                tape, optimizer, loss, [variable, other], **callbacks
            )

        tf.function(lambda: two.run(replica_fn))()
        return [part.numpy().tolist() for part in two.experimental_local_results(variable.value)]


# Gradients are 0.5 and 1.0: the sum is 1.5.
results["fused"] = minimize(lambda: sgd.SGD(0.1))
results["keras"] = minimize(lambda: keras.optimizers.SGD(0.1))
results["scaled"] = minimize(lambda: loss_scaling.LossScaleOptimizer(keras.optimizers.SGD(0.1)))
results["callbacks"] = minimize(
    lambda: loss_scaling.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=8.0),
    pre_allreduce_callbacks=[lambda pairs: [(None if g is None else 2.0 * g, v) for g, v in pairs]],
    post_allreduce_callbacks=[lambda pairs: [(tf.minimum(g, 2.5), v) for g, v in pairs]],
    allreduce_bytes_per_pack=4,
)


@tf.function
def concatenate():
    def replica_fn():
        replica = tf.cast(tf_utils.get_replica_id(), tf.float32)
        return tf_utils.cross_replica_concat(tf.fill([1, 2], replica), axis=0)

    return two.run(replica_fn)


parts = two.experimental_local_results(concatenate())
results["concat"] = [part.numpy().tolist() for part in parts]
print(json.dumps(results))
