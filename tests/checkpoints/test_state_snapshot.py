"""Evaluations leave no trace: layers that change in inference, in each way to train."""

import dataclasses
import random
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.checkpoints import (
    checkpoint_state,
    cluster_checkpoints,
    state_snapshot,
    task_state,
)
from quintain.core import base_task, task_factory
from quintain.core.multitask import configs as multitask_configs
from quintain.core.multitask import multitask
from quintain.garden.core import multitask_train_lib
from quintain.records.rows import trial
from quintain.run import train_lib
from quintain.run.fitting import fit
from quintain.settings import config_definitions as cfg
from quintain.trials import trial_context
from quintain.trials.keras import keras_trial

X = np.random.RandomState(0).normal(size=(16, 3, 2)).astype("float32")
Y = X.sum((1, 2))[:, None]


class Changing(keras.layers.Layer):
    """Changes in each call, trained or not, and gives what depends on all of its state."""

    def __init__(self):
        super().__init__()
        self.normalization = keras.layers.BatchNormalization()
        self.seed = keras.random.SeedGenerator(3)
        self.generator = tf.random.Generator.from_seed(4)
        self.plain = tf.Variable(0.0, trainable=False)
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def build(self, shape):
        self.normalization.build(shape)

    def call(self, x):
        self.count.assign_add(0.1)
        self.plain.assign_add(0.1)
        x = self.normalization(x, training=True) + self.normalization(x, training=False)
        x += keras.random.normal(keras.ops.shape(x), seed=self.seed)
        return x + self.generator.normal(tf.shape(x)) + self.count + self.plain


def build_model():
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((3, 2)),
            keras.layers.GRU(2, dropout=0.3, recurrent_dropout=0.3, return_sequences=True),
            keras.layers.LSTM(2, dropout=0.3),
            keras.layers.Dropout(0.3),
            Changing(),
            keras.layers.Dense(1),
        ]
    )


def read(model):
    [changing] = [layer for layer in model.layers if isinstance(layer, Changing)]
    values = [*model.variables, changing.plain, changing.generator.state]
    return [np.asarray(value).tolist() for value in values]


def test_a_snapshot_restores_all_but_trained_weights_and_metrics():
    model = build_model()
    model(X)
    mean = keras.metrics.Mean()
    model.tracked = mean
    task = types.SimpleNamespace(generator=tf.random.Generator.from_seed(5), total=tf.Variable(1))
    held = task_state.TaskVariables({"": task}, lambda: model.variables)
    root = tf.train.Checkpoint(model=model, task=held, optimizer=keras.optimizers.SGD())
    weight = model.trainable_weights[0]
    random.seed(6)
    before, seeds = read(model), task.generator.state.numpy().tolist()

    with state_snapshot.state_restored(root):
        first = random.random()
        model(X)
        task.generator.normal([1])
        task.total.assign(2)
        mean.update_state(3.0)
        changed = read(model)
        weight.assign(weight + 1.0)

    assert [each != now for each, now in zip(before, changed, strict=True)].count(True) > 6
    assert float(weight[0, 0]) == pytest.approx(before[0][0][0] + 1.0)
    assert read(model)[1:] == before[1:]
    assert (task.generator.state.numpy().tolist(), int(task.total)) == (seeds, 1)
    assert float(mean.result()) == 3.0
    assert random.random() == first


def test_a_snapshot_restores_the_metrics_of_an_interrupted_loop():
    mean = keras.metrics.Mean()
    mean.update_state(3.0)
    state = checkpoint_state.VariablesState(lambda: mean.variables)
    strategy = tf.distribute.get_strategy()
    root = tf.train.Checkpoint(loop=cluster_checkpoints.PerWorkerState(strategy, state))

    with state_snapshot.state_restored(root):
        mean.reset_state()

    assert float(mean.result()) == 3.0


def run_fit(directory, epochs, is_evaluated):
    model = build_model()
    model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    validation = data.take(1) if is_evaluated else None
    fit.fit(model, data, validation, model_dir=directory, epochs=epochs)
    return read(model)


@dataclasses.dataclass
class ChangingConfig(cfg.TaskConfig):
    """Config of the task below."""


class ChangingTask(base_task.Task):
    """Draws random numbers in evaluations, from all that a task may draw from."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.generator = tf.random.Generator.from_seed(5)

    def build_model(self):
        return build_model()

    def build_inputs(self, params, input_context=None):
        data = tf.data.Dataset.from_tensor_slices((X, Y))
        return data.repeat().batch(8) if params.is_training else data.batch(8)

    def build_losses(self, labels, model_outputs, aux_losses=None):
        noise = self.generator.normal([]) + keras.random.normal([])
        return tf.reduce_mean(tf.square(labels - model_outputs)) + noise * tf.reduce_mean(
            model_outputs
        )

    def reduce_aggregated_logs(self, aggregated_logs, global_step=None):
        return {"noise": np.random.normal() + random.random()}

    def aggregate_logs(self, state=None, step_outputs=None):
        return [1]


task_factory.register_task_cls(ChangingConfig)(ChangingTask)


def trainer_config(epochs):
    optimizer = {"optimizer": {"type": "sgd"}, "learning_rate": {"type": "constant"}}
    return {
        "optimizer_config": optimizer,
        "train_steps": 2 * epochs,
        **dict.fromkeys(("steps_per_loop", "summary_interval"), 1),
        **dict.fromkeys(("validation_interval", "checkpoint_interval"), 2),
    }


def run_task(directory, epochs, is_evaluated):
    params = cfg.ExperimentConfig(
        task=ChangingConfig(
            train_data=cfg.DataConfig(is_training=True), validation_data=cfg.DataConfig()
        )
    )
    params.override({"trainer": trainer_config(epochs), "runtime": {"seed": 3}})
    strategy = tf.distribute.get_strategy()
    task = task_factory.get_task(params.task)
    mode = "train_and_eval" if is_evaluated else "train"
    model, _ = train_lib.run_experiment(strategy, task, mode, params, directory)
    return [*read(model), task.generator.state.numpy().tolist()]


def run_tasks(directory, epochs, is_evaluated):
    data = {"train_data": cfg.DataConfig(is_training=True), "validation_data": cfg.DataConfig()}
    routines = tuple(
        multitask_configs.TaskRoutine(task_name=name, task_config=ChangingConfig(**data))
        for name in ("one", "two")
    )
    params = multitask_configs.MultiTaskExperimentConfig(
        task=multitask_configs.MultiTaskConfig(task_routines=routines)
    )
    params.override({"trainer": trainer_config(epochs), "runtime": {"seed": 3}})
    task = multitask.MultiTask.from_config(params.task)
    model = multitask_train_lib.run_experiment(
        distribution_strategy=tf.distribute.get_strategy(),
        task=task,
        model=build_model(),
        mode="train_and_eval" if is_evaluated else "train",
        params=params,
        model_dir=directory,
    )
    return read(model)


@pytest.mark.long("The resumed run beside it has evaluations, too")
@pytest.mark.slow
@pytest.mark.parametrize("run", [run_fit, run_task, run_tasks])
def test_a_run_with_evaluations_ends_with_the_state_of_one_without(run, tmp_path):
    expected = run(str(tmp_path / "plain"), 4, is_evaluated=False)

    assert run(str(tmp_path / "evaluated"), 4, is_evaluated=True) == expected


@pytest.mark.slow
def test_a_resumed_run_with_evaluations_ends_with_the_state_of_one_that_never_stopped(tmp_path):
    run_fit(str(tmp_path / "resumed"), 2, is_evaluated=True)

    resumed = run_fit(str(tmp_path / "resumed"), 4, is_evaluated=True)
    assert resumed == run_fit(str(tmp_path / "whole"), 4, is_evaluated=True)


class ChangingTrial(keras_trial.KerasTrial):
    def build_model(self):
        model = build_model()
        model.compile("sgd", "mse")
        return model

    def build_training_data_loader(self):
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)

    def build_validation_data_loader(self):
        return self.build_training_data_loader().map(lambda x, y: (x, y + np.random.normal()))


@pytest.mark.slow
def test_a_validation_of_a_keras_trial_changes_nothing(tmp_path):
    def build():
        spec = trial.TrialSpec(
            experiment_id=1, trial_id=2, experiment_config={}, hparams={}, seed=7,
            model_dir=str(tmp_path), entrypoint=None, checkpoint_dir=str(tmp_path),
            scratch_dir=str(tmp_path),
        )  # fmt: skip
        return keras_trial.build_controller(ChangingTrial, trial_context.TrialContext(spec))

    plain, validated = build(), build()
    plain.train(4)
    validated.train(2)
    draws = np.random.get_state()[1].tolist()
    validated.validate()

    assert np.random.get_state()[1].tolist() == draws
    validated.train(2)
    assert read(validated._model) == read(plain._model)
