import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core import base_task, base_trainer
from quintain.distribute import elastic_steps, replica_seeds
from quintain.optimization.rules import sgd
from quintain.run import config_change, run_mode
from quintain.settings import config_definitions as cfg


class LineTask(base_task.Task):
    def build_model(self):
        return keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])

    def build_inputs(self, params, input_context=None):
        size = params.global_batch_size // input_context.num_replicas_in_sync
        x = tf.reshape(tf.range(64.0), [32, 2]) / 64.0
        y = tf.reduce_sum(x, axis=1, keepdims=True)
        return tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(size, drop_remainder=True)

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(tf.square(labels - model_outputs))


def build_params(**runtime):
    return cfg.ExperimentConfig(
        task=cfg.TaskConfig(train_data=cfg.DataConfig(is_training=True, global_batch_size=16)),
        trainer=cfg.TrainerConfig(
            optimizer_config={
                "optimizer": {"type": "sgd"},
                "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.1}},
            },
            train_steps=2,
        ),
        runtime=cfg.RuntimeConfig(
            distribution_strategy="one_device", **{"elastic": True, **runtime}
        ),
    )


def build_trainer(task_cls=LineTask, params=None, **runtime):
    params = params or build_params(**runtime)
    task = task_cls(params.task)
    keras.utils.set_random_seed(1)
    model = task.build_model()
    return base_trainer.Trainer(params, task, model, sgd.SGD(0.1), evaluate=False)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_shards_are_summed_in_pairs_of_neighbours(count):
    values = np.random.default_rng(0).normal(size=[count, 1000]).astype(np.float32)
    sums = list(values)
    while len(sums) > 1:
        sums = [first + second for first, second in zip(sums[::2], sums[1::2], strict=True)]

    # In a graph, where TensorFlow writes chains of additions anew.
    add = tf.function(lambda rows: elastic_steps._sum_tree([[row] for row in tf.unstack(rows)]))
    [total] = add(tf.constant(values))

    np.testing.assert_array_equal(total, sums[0])


@pytest.mark.slow
def test_shards_together_do_the_step_of_the_batch():
    elastic, plain = build_trainer(), build_trainer(elastic=False)

    logs = [trainer.train(tf.constant(3)) for trainer in (elastic, plain)]

    weights = [trainer.model.get_weights() for trainer in (elastic, plain)]
    assert weights[0][0] == pytest.approx(weights[1][0], rel=1e-5)
    assert float(logs[0]["training_loss"]) == pytest.approx(float(logs[1]["training_loss"]))


def test_every_shard_draws_other_numbers_and_each_step_goes_on():
    state = tf.constant([7, 3], tf.uint32)

    [(first, count), (second, _)] = [
        replica_seeds.mix(state, tf.constant(place, tf.int64)).numpy().tolist() for place in (0, 1)
    ]

    assert (first, count) == (7, 3)
    assert (second - first) % 2**32 == 0x9E3779B9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runtime": {"elastic_shards": 6}}, "runtime.elastic_shards: got 6, expected a power"),
        ({"runtime": {"enable_xla": True}}, "runtime.elastic: got True with enable_xla"),
        ({"runtime": {"run_eagerly": True}}, "runtime.elastic: got True with run_eagerly"),
        (
            {"trainer": {"train_tf_function": False, "train_tf_while_loop": False}},
            "trainer.train_tf_function: got False",
        ),
        (
            {"runtime": {"distribution_strategy": "parameter_server"}},
            "runtime.elastic: got True with distribution_strategy='parameter_server'",
        ),
        (
            {"runtime": {"mixed_precision_dtype": "float16"}},
            "runtime.elastic: got True with mixed_precision_dtype='float16'",
        ),
        (
            {"task": {"train_data": {"global_batch_size": 12}}},
            "task.train_data.global_batch_size: got 12, expected a multiple of",
        ),
        (
            {"trainer": {"optimizer_config": {"gradient_accumulation_steps": 2}}},
            "trainer.optimizer_config.gradient_accumulation_steps: got 2",
        ),
    ],
)
def test_what_can_not_be_elastic_is_refused_before_a_model_is_built(change, message):
    params = build_params()
    params.override(change)

    with pytest.raises(errors.ConfigError) as error:
        run_mode.check_run(params, run_mode.Mode.TRAIN, "")

    assert message in str(error.value)


def test_more_workers_than_shards_are_refused():
    runtime = build_params().runtime
    elastic_steps.check(runtime, 8)

    for number in (3, 16):
        with pytest.raises(errors.ConfigError, match=f"got {number} workers or replicas, expected"):
            elastic_steps.check(runtime, number)


class OwnStep(LineTask):
    def train_step(self, inputs, model, optimizer, metrics=None):
        features, labels = inputs
        with tf.GradientTape() as tape:
            loss = self.build_losses(labels, model(features))
        variables = model.trainable_variables
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {"loss": loss}


class Counts(LineTask):
    def build_model(self):
        self.count = keras.Variable(0.0, name="my_count")
        return super().build_model()

    def train_step(self, *args, **kwargs):
        self.count.assign_add(1.0)
        return super().train_step(*args, **kwargs)


class Draws(LineTask):
    def train_step(self, inputs, *args, **kwargs):
        return super().train_step((inputs[0] + tf.random.normal([2]), inputs[1]), *args, **kwargs)


class Gathers(LineTask):
    def build_losses(self, labels, model_outputs, aux_losses=None):
        context = tf.distribute.get_replica_context()
        return super().build_losses(context.all_gather(labels, axis=0), model_outputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task_cls", "message"),
    [
        (OwnStep, "can only be split if it divides its loss"),
        (Counts, "the training step changes .*my_count"),
        (Draws, "draws random numbers that depend on the number of workers: .*tf.random.normal"),
        (Gathers, "needs values of the other shards in its midst"),
    ],
)
def test_steps_that_can_not_be_split_are_refused_before_the_first(task_cls, message):
    trainer = build_trainer(task_cls)

    with pytest.raises(errors.ConfigError, match=message):
        trainer.train(tf.constant(1))

    assert int(trainer.global_step) == 0


@pytest.mark.parametrize("is_elastic", [True, False])
def test_elastic_runs_may_change_their_workers(is_elastic):
    former = build_params(elastic=is_elastic).as_dict()
    params = build_params(elastic=is_elastic)
    params.override({"runtime": {"distribution_strategy": "multi_worker_mirrored"}})

    changes = [path for path, *_ in config_change.find_changes(former, params)]

    assert changes == ([] if is_elastic else ["runtime.distribution_strategy"])
