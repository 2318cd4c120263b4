# ruff: noqa: RET504 - the samples are to be as the documents have them
"""The code samples of the documents that the project was created from, changed only in imports.

The samples define classes of names that the package has, too; here they are small ones.
"""

import dataclasses
import types

import keras
import pytest
import tensorflow as tf

from quintain import errors, optimization, orbit
from quintain.core import base_task, base_trainer, exp_factory, task_factory
from quintain.core import config_definitions as cfg


@dataclasses.dataclass
class ModelConfig(cfg.base_config.Config):
    hidden_size: int = 8


@dataclasses.dataclass
class MaskedLMConfig(cfg.TaskConfig):
    model: ModelConfig = ModelConfig()
    train_data: cfg.DataConfig = cfg.DataConfig()
    validation_data: cfg.DataConfig = cfg.DataConfig()


@dataclasses.dataclass
class BertPretrainDataConfig(cfg.DataConfig):
    is_training: bool = True
    global_batch_size: int = 4


@dataclasses.dataclass
class BertOptimizationConfig(optimization.OptimizationConfig):
    optimizer: optimization.OptimizerConfig = optimization.OptimizerConfig({"type": "sgd"})
    learning_rate: optimization.LrConfig = optimization.LrConfig(
        {"type": "constant", "constant": {"learning_rate": 0.1}}
    )


masked_lm = types.SimpleNamespace(MaskedLMConfig=MaskedLMConfig)
pretrain_dataloader = types.SimpleNamespace(BertPretrainDataConfig=BertPretrainDataConfig)


@pytest.fixture(autouse=True)
def _leave_the_registries_as_they_were():
    with exp_factory.EXPERIMENTS.temporarily(), task_factory.TASKS.temporarily():
        # A test before this one may have imported the experiment of the package of this name.
        exp_factory.EXPERIMENTS._entries.pop("bert/pretraining", None)
        yield


def test_task_configuration_sample():
    @dataclasses.dataclass
    class SentencePredictionConfig(cfg.TaskConfig):
        init_checkpoint: str = ""
        init_cls_pooler: bool = False
        hub_module_url: str = ""
        metric_type: str = "accuracy"
        model: ModelConfig = ModelConfig()
        train_data: cfg.DataConfig = cfg.DataConfig()
        validation_data: cfg.DataConfig = cfg.DataConfig()

    first, second = SentencePredictionConfig(), SentencePredictionConfig()
    first.model.hidden_size = 16

    assert second.model.hidden_size == 8
    assert SentencePredictionConfig().model.hidden_size == 8
    assert SentencePredictionConfig(model={"hidden_size": 32}).model == ModelConfig(hidden_size=32)


def test_task_registration_sample():
    @task_factory.register_task_cls(MaskedLMConfig)
    class MaskedLMTask(base_task.Task):
        def build_inputs(self, params, input_context=None):
            return tf.data.Dataset.range(4)

    task = task_factory.get_task(MaskedLMConfig(), logging_dir="logs")

    assert isinstance(task, MaskedLMTask)
    assert task.logging_dir == "logs"


def test_experiment_registration_sample():
    @exp_factory.register_config_factory("bert/pretraining")
    def bert_pretraining() -> cfg.ExperimentConfig:
        config = cfg.ExperimentConfig(
            task=masked_lm.MaskedLMConfig(
                train_data=pretrain_dataloader.BertPretrainDataConfig(),
                validation_data=pretrain_dataloader.BertPretrainDataConfig(is_training=False),
            ),
            trainer=cfg.TrainerConfig(
                optimizer_config=BertOptimizationConfig(), train_steps=1000000
            ),
        )
        return config

    config = exp_factory.get_exp_config("bert/pretraining")

    assert isinstance(config.task, MaskedLMConfig)
    assert config.task.validation_data.is_training is False
    assert config.task.train_data.is_training is True
    assert config.trainer.train_steps == 1000000
    with pytest.raises(errors.RegistryError, match="Did you mean 'bert/pretraining'"):
        exp_factory.get_exp_config("bert/pretrainin")


@pytest.mark.slow
def test_training_binary_sample(tmp_path):
    @task_factory.register_task_cls(MaskedLMConfig)
    class MaskedLMTask(base_task.Task):
        def build_model(self):
            return keras.Sequential([keras.layers.Dense(1)])

        def build_inputs(self, params, input_context=None):
            features = tf.random.stateless_normal([64, 2], seed=(1, 2))
            labels = tf.reduce_sum(features, axis=1, keepdims=True)
            dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(8)
            return dataset.repeat() if params.is_training else dataset

        def build_losses(self, labels, model_outputs, aux_losses=None):
            return tf.reduce_mean(tf.square(labels - model_outputs))

    params = cfg.ExperimentConfig(
        task=MaskedLMConfig(train_data=BertPretrainDataConfig()),
        trainer=cfg.TrainerConfig(optimizer_config=BertOptimizationConfig()),
    )
    strategy = tf.distribute.get_strategy()
    model_dir = str(tmp_path)
    num_steps = 40

    with strategy.scope():
        task = task_factory.get_task(params.task, logging_dir=model_dir)
        model = task.build_model()
        optimizer = task.create_optimizer(params.trainer.optimizer_config, params.runtime)
        trainer = base_trainer.Trainer(params, task, model, optimizer)

    checkpoint_manager = tf.train.CheckpointManager(
        trainer.checkpoint, model_dir, max_to_keep=1, init_fn=trainer.initialize
    )
    controller = orbit.Controller(
        trainer=trainer,
        evaluator=trainer,
        global_step=trainer.global_step,
        steps_per_loop=20,
        checkpoint_manager=checkpoint_manager,
    )
    controller.train(steps=num_steps)

    assert int(trainer.global_step) == 40
    assert controller.evaluate()["validation_loss"] < 1e-3
    assert tf.train.latest_checkpoint(model_dir)
