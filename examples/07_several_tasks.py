"""One model for two tasks, sine and cosine: a shared layer, a head for each, trained jointly.

python examples/07_several_tasks.py [MODEL_DIR]
"""

import dataclasses
import sys
import tempfile

import keras
import tensorflow as tf

from quintain.core import base_task, task_factory
from quintain.core import config_definitions as cfg
from quintain.core.multitask import base_model, configs, multitask
from quintain.distribute import distribution
from quintain.garden.core import multitask_train_lib as train_lib


@dataclasses.dataclass
class WaveConfig(cfg.TaskConfig):
    """Learns a sine that is shifted."""

    shift: float = 0.0
    """Where the wave starts, in radians."""

    train_data: cfg.DataConfig = cfg.DataConfig(is_training=True, global_batch_size=64)
    """Points to train on."""

    validation_data: cfg.DataConfig = cfg.DataConfig(is_training=False, global_batch_size=64)
    """Points to evaluate on."""


@task_factory.register_task_cls(WaveConfig)
class WaveTask(base_task.Task):
    """Learns a sine that is shifted."""

    def build_inputs(
        self, params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        """Returns points and the values of the wave."""
        del input_context
        points = tf.reshape(tf.linspace(-3.0, 3.0, 512), [-1, 1])
        labels = tf.sin(points + self.task_config.shift)
        dataset = tf.data.Dataset.from_tensor_slices((points, labels))
        if params.is_training:
            dataset = dataset.shuffle(512, seed=params.seed).repeat()
        return dataset.batch(params.global_batch_size)

    def build_losses(
        self, labels: tf.Tensor, model_outputs: tf.Tensor, aux_losses: list[tf.Tensor] | None = None
    ) -> tf.Tensor:
        """Returns the mean squared error."""
        del aux_losses
        return tf.reduce_mean(tf.square(labels - model_outputs))

    def build_metrics(self, training: bool = True) -> list[keras.metrics.Metric]:
        """Returns the mean absolute error."""
        del training
        return [keras.metrics.MeanAbsoluteError(name="absolute_error")]


class Waves(base_model.MultiTaskBaseModel):
    """A layer for all tasks, and an output for each."""

    def __init__(self) -> None:
        """Creates the shared layer, and then the models of the tasks."""
        self._shared = keras.layers.Dense(64, activation="tanh")
        super().__init__()

    def _instantiate_sub_tasks(self) -> dict[str, keras.Model]:
        return {
            name: keras.Sequential([keras.Input((1,)), self._shared, keras.layers.Dense(1)])
            for name in ("sine", "cosine")
        }


def main() -> None:
    """Trains for a few seconds and prints the evaluation of each task."""
    model_dir = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    params = configs.MultiTaskExperimentConfig(
        task=configs.MultiTaskConfig(
            task_routines=(
                configs.TaskRoutine(task_name="sine", task_config=WaveConfig()),
                configs.TaskRoutine(
                    task_name="cosine", task_config=WaveConfig(shift=1.5708), task_weight=0.5
                ),
            )
        ),
        trainer=configs.MultiTaskTrainerConfig(
            trainer_type="joint",
            optimizer_config={
                "optimizer": {"type": "adam"},
                "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.01}},
            },
            train_steps=400,
            steps_per_loop=100,
            summary_interval=100,
            validation_interval=200,
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        tasks = multitask.MultiTask.from_config(params.task, logging_dir=model_dir)
        model = Waves()
    _, logs = train_lib.run_experiment(
        distribution_strategy=strategy,
        task=tasks,
        model=model,
        mode="train_and_eval",
        params=params,
        model_dir=model_dir,
        run_post_eval=True,
    )
    for task, metrics in logs.items():
        print(task, {name: round(float(value), 4) for name, value in metrics.items()})


if __name__ == "__main__":
    main()
