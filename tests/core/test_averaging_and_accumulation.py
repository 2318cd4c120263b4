"""Runs with a moving average of the weights and with accumulation of gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors, orbit
from quintain.checkpoints import checkpoint_fit
from quintain.core import base_trainer, task_factory
from quintain.distribute import distribution
from quintain.run import train_lib
from quintain.serving import trained_run

BOTH = {
    "trainer": {
        "optimizer_config": {"ema": {"average_decay": 0.8}, "gradient_accumulation_steps": 2}
    }
}
AVERAGE = {"trainer": {"optimizer_config": {"ema": {"average_decay": 0.8}}}}


def run(params, mode, model_dir, **kwargs):
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        task = task_factory.get_task(params.task, logging_dir=str(model_dir))
    return train_lib.run_experiment(strategy, task, mode, params, str(model_dir), **kwargs)


def build_trainer(params):
    task = task_factory.get_task(params.task)
    optimizer = task.create_optimizer(params.trainer.optimizer_config, params.runtime)
    return base_trainer.Trainer(params, task, task.build_model(), optimizer)


def read_checkpoint(path):
    reader = tf.train.load_checkpoint(str(path))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names if name.endswith("VARIABLE_VALUE")}


@pytest.fixture
def averaged(line_params):
    trainer = build_trainer(line_params(AVERAGE))
    trainer.train(tf.constant(5))
    return trainer


def weights_of(trainer):
    return [weight.numpy() for weight in trainer.model.trainable_variables]


def test_an_evaluation_is_that_of_the_averaged_weights(averaged):
    weights = weights_of(averaged)
    logs = averaged.evaluate(tf.constant(-1))
    after = weights_of(averaged)
    averaged.optimizer.swap_weights()
    model, task = averaged.model, averaged.task
    dataset = task.build_inputs(averaged.config.task.validation_data)
    losses = [task.build_losses(labels, model(features)) for features, labels in dataset]

    np.testing.assert_allclose(logs["validation_loss"], np.mean(losses), rtol=1e-5)
    for former, weight in zip(weights, after, strict=True):
        np.testing.assert_array_equal(former, weight)


def test_a_failing_evaluation_leaves_the_weights(averaged, monkeypatch):
    weights = weights_of(averaged)

    def fail(*args):
        raise RuntimeError

    monkeypatch.setattr(averaged.task, "aggregate_logs", fail)
    with pytest.raises(RuntimeError):
        averaged.evaluate(tf.constant(-1))

    for former, weight in zip(weights, weights_of(averaged), strict=True):
        np.testing.assert_array_equal(former, weight)


def test_a_metric_that_fails_at_the_end_leaves_the_weights(averaged, monkeypatch):
    weights = weights_of(averaged)

    def fail(*args, **kwargs):
        raise RuntimeError

    monkeypatch.setattr(averaged._evaluation, "collect", fail)
    with pytest.raises(RuntimeError):
        averaged.evaluate(tf.constant(-1))

    for former, weight in zip(weights, weights_of(averaged), strict=True):
        np.testing.assert_array_equal(former, weight)


@pytest.mark.long("test_kill_and_resume.py and the tests of each part resume runs in every run")
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_an_interrupted_run_ends_the_same_to_the_bit(tmp_path, line_params, dtype):
    class Stop:
        loops_left = 3

        def __call__(self, output):
            self.loops_left -= 1
            if not self.loops_left:
                interruption.request("test")

    overrides = BOTH | {"runtime": {"mixed_precision_dtype": dtype}}
    run(line_params(overrides), "train_and_eval", tmp_path / "whole")
    with orbit.Interruption() as interruption, pytest.raises(orbit.Interrupted):
        run(
            line_params(overrides),
            "train_and_eval",
            tmp_path / "parts",
            interruption=interruption,
            train_actions=[Stop()],
        )
    run(line_params(overrides), "train_and_eval", tmp_path / "parts")

    whole = read_checkpoint(tmp_path / "whole" / "ckpt-40")
    parts = read_checkpoint(tmp_path / "parts" / "ckpt-40")
    assert any("/inner_optimizer/_variables/" in name for name in whole)
    assert whole.keys() == parts.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(value, parts[name], err_msg=name)


@pytest.mark.slow
def test_the_best_checkpoint_holds_the_averages_as_weights(tmp_path, line_params):
    best = {
        "best_checkpoint_export_subdir": "best",
        "best_checkpoint_eval_metric": "validation_loss",
        "best_checkpoint_metric_comp": "lower",
    }
    params = line_params(AVERAGE)
    params.override({"trainer": {**best, "train_steps": 20}})
    run(params, "train_and_eval", tmp_path)

    trainer = build_trainer(params)
    trainer.checkpoint.read(str(tmp_path / "ckpt-20")).expect_partial()
    averages = [average.numpy() for average in trainer.optimizer.average_weights]
    checkpoint_fit.restore_model(trainer.model, str(tmp_path / "best" / "best_ckpt-20"))
    for weight, average in zip(weights_of(trainer), averages, strict=True):
        np.testing.assert_array_equal(weight, average)


@pytest.mark.long("Further cases of a test of which some run every time", but=["best/best_ckpt-20"])
@pytest.mark.slow
@pytest.mark.parametrize("name", ["ckpt-20", "best/best_ckpt-20"])
def test_a_trained_model_has_the_averaged_weights(tmp_path, line_params, name):
    best = {
        "best_checkpoint_export_subdir": "best",
        "best_checkpoint_eval_metric": "validation_loss",
        "best_checkpoint_metric_comp": "lower",
        "train_steps": 20,
    }
    params = line_params(AVERAGE)
    params.override({"trainer": best})
    model, logs = run(params, "train_and_eval", tmp_path)
    task = task_factory.get_task(params.task)
    restored = task.build_model()

    trained_run.restore_weights(restored, task, params, str(tmp_path / name))

    dataset = task.build_inputs(params.task.validation_data)
    losses = [task.build_losses(labels, restored(features)) for features, labels in dataset]
    np.testing.assert_allclose(logs["validation_loss"], np.mean(losses), rtol=1e-5)
    kernels = zip(restored.trainable_variables, model.trainable_variables, strict=True)
    assert not any(np.array_equal(first.numpy(), second.numpy()) for first, second in kernels)


def test_training_goes_on_from_a_best_checkpoint_with_the_weights(averaged, tmp_path):
    weights = weights_of(averaged)
    with averaged.optimizer.averaged():
        path = averaged.checkpoint.write(str(tmp_path / "best"))
    restored = build_trainer(averaged.config)

    restored.checkpoint.read(path)
    restored.train_loop_begin()

    for former, weight in zip(weights, weights_of(restored), strict=True):
        np.testing.assert_array_equal(former, weight)


@pytest.mark.slow
def test_an_init_checkpoint_starts_the_average(tmp_path, line_params):
    run(line_params({"trainer": {"train_steps": 10}}), "train", tmp_path / "first")
    params = line_params(AVERAGE | {"task": {"init_checkpoint": str(tmp_path / "first")}})
    trainer = build_trainer(params)

    trainer.initialize()

    average = trainer.optimizer.average_weights
    for weight, value in zip(trainer.model.trainable_variables, average, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value.numpy())


@pytest.mark.long(
    "Further cases of a test of which some run every time", but=["loop-True", "step-False"]
)
@pytest.mark.slow
@pytest.mark.parametrize("is_finite", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"train_tf_while_loop": False},
        {"train_tf_while_loop": False, "train_tf_function": False},
    ],
    ids=["loop", "step", "eager"],
)
def test_accumulated_batches_are_one_large_batch(line_params, is_finite, options):
    def train(batch_size, num_batches):
        keras.utils.set_random_seed(1)
        params = line_params(
            {
                "task": {
                    "dropout_rate": 0.0,
                    "is_finite": is_finite,
                    "train_data": {"global_batch_size": batch_size, "seed": 3},
                },
                "trainer": {
                    **options,
                    "optimizer_config": {"gradient_accumulation_steps": num_batches},
                },
            }
        )
        trainer = build_trainer(params)
        trainer.train(tf.constant(3))
        return trainer

    large, small = train(16, 1), train(4, 4)

    assert int(small.global_step.numpy()) == int(small.optimizer.iterations.numpy()) == 3
    for first, second in zip(weights_of(large), weights_of(small), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-6)


@pytest.mark.slow
def test_batches_that_are_too_few_for_an_update_are_dropped(line_params):
    overrides = {
        "task": {"is_finite": True, "num_examples": 40, "train_data": {"global_batch_size": 8}},
        "trainer": {"optimizer_config": {"gradient_accumulation_steps": 2}},
    }
    trainer = build_trainer(line_params(overrides))

    trainer.train(tf.constant(10))

    assert trainer.train_data_exhausted
    assert int(trainer.global_step.numpy()) == int(trainer.optimizer.iterations.numpy()) == 2


def test_accumulation_that_a_task_leaves_out_is_an_error(line_params):
    params = line_params(BOTH)
    task = task_factory.get_task(params.task)

    with pytest.raises(errors.ConfigError, match="gradient_accumulation_steps: got 2"):
        base_trainer.Trainer(params, task, task.build_model(), keras.optimizers.SGD())
