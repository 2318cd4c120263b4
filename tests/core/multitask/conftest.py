"""Two tasks on a model with a shared layer: the sum, and the difference, of three numbers."""

import dataclasses

import keras
import pytest
import tensorflow as tf

from quintain.core import base_task, exp_factory, task_factory
from quintain.core.multitask import base_model, configs, multitask
from quintain.settings import config_definitions as cfg


@dataclasses.dataclass
class SignConfig(cfg.TaskConfig):
    train_data: cfg.DataConfig = cfg.DataConfig(is_training=True, global_batch_size=8)
    validation_data: cfg.DataConfig = cfg.DataConfig(is_training=False, global_batch_size=8)
    sign: float = 1.0
    num_examples: int = 32
    is_finite: bool = False


class SignTask(base_task.Task):
    """Learns to add, or to subtract, the second number."""

    def build_model(self):
        model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])
        model.build((None, 3))
        return model

    def build_inputs(self, params, input_context=None):
        count = self.task_config.num_examples - (0 if params.is_training else 3)
        features = tf.random.stateless_normal([count, 3], seed=(1, 2))
        labels = features @ [[1.0], [self.task_config.sign], [1.0]]
        dataset = tf.data.Dataset.from_tensor_slices((features, labels))
        if params.is_training:
            dataset = dataset.shuffle(count, seed=params.seed)
            dataset = dataset if self.task_config.is_finite else dataset.repeat()
        return dataset.batch(params.global_batch_size)

    def build_losses(self, labels, model_outputs, aux_losses=None):
        loss = tf.reduce_mean(tf.square(labels - tf.cast(model_outputs, tf.float32)))
        return loss + tf.add_n(aux_losses) if aux_losses else loss

    def build_metrics(self, training=True):
        return [keras.metrics.MeanAbsoluteError(name="absolute_error")]


class TwoHeads(base_model.MultiTaskBaseModel):
    """A shared layer with dropout, and a head for each task."""

    def __init__(self, dropout_rate=0.1, regularizer=None):
        self._shared = keras.layers.Dense(4, kernel_regularizer=regularizer)
        self._dropout_rate = dropout_rate
        super().__init__()

    def _instantiate_sub_tasks(self):
        return {
            name: keras.Sequential(
                [
                    keras.Input((3,)),
                    self._shared,
                    keras.layers.Dropout(self._dropout_rate),
                    keras.layers.Dense(1),
                ]
            )
            for name in ("plus", "minus")
        }


class TwoHeadedTasks(multitask.MultiTask):
    def build_multitask_model(self):
        return TwoHeads()


def build_experiment(trainer_type="interleaving", **trainer):
    return configs.MultiTaskExperimentConfig(
        task=configs.MultiTaskConfig(
            task_routines=(
                configs.TaskRoutine(task_name="plus", task_config=SignConfig(), task_weight=3.0),
                configs.TaskRoutine(
                    task_name="minus", task_config=SignConfig(sign=-1.0), eval_steps=2
                ),
            )
        ),
        trainer=configs.MultiTaskTrainerConfig(
            trainer_type=trainer_type,
            optimizer_config={
                "optimizer": {"type": "adam"},
                "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.05}},
            },
            train_steps=30,
            steps_per_loop=5,
            summary_interval=5,
            checkpoint_interval=10,
            validation_interval=15,
            **trainer,
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )


@pytest.fixture(autouse=True)
def _sign_task_is_registered():
    with task_factory.TASKS.temporarily(), exp_factory.EXPERIMENTS.temporarily():
        task_factory.register_task_cls(SignConfig)(SignTask)
        exp_factory.register_config_factory("test/signs")(build_experiment)
        yield


@pytest.fixture
def experiment():
    """Returns a function that builds the experiment."""
    return build_experiment


@pytest.fixture
def two_tasks():
    """Returns a function that builds the tasks, which have a model with two heads."""

    def build(**kwargs):
        return TwoHeadedTasks(
            [SignTask(SignConfig(), name="plus"), SignTask(SignConfig(sign=-1.0), name="minus")],
            **kwargs,
        )

    return build


@pytest.fixture
def two_heads():
    """The class of a model with a shared layer."""
    return TwoHeads


@pytest.fixture
def sign_config():
    """The config class of the tasks."""
    return SignConfig
