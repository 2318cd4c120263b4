"""A task of your own: model, data, loss and metrics in one class, trained by `run_experiment`.

python examples/02_own_task.py [MODEL_DIR]
"""

import dataclasses
import sys
import tempfile

import keras
import tensorflow as tf

from quintain.core import base_task, task_factory, train_lib
from quintain.core import config_definitions as cfg
from quintain.distribute import distribution


@dataclasses.dataclass
class SineConfig(cfg.TaskConfig):
    """Learns the sine from noisy points."""

    noise: float = 0.05
    """Standard deviation of the noise."""

    train_data: cfg.DataConfig = cfg.DataConfig(is_training=True, global_batch_size=64)
    """Points to train on."""

    validation_data: cfg.DataConfig = cfg.DataConfig(is_training=False, global_batch_size=64)
    """Points to evaluate on."""


@task_factory.register_task_cls(SineConfig)
class SineTask(base_task.Task):
    """Learns the sine from noisy points."""

    def build_model(self) -> keras.Model:
        """Returns a network of one hidden layer."""
        model = keras.Sequential([keras.layers.Dense(64, activation="tanh"), keras.layers.Dense(1)])
        model.build((None, 1))
        return model

    def build_inputs(
        self, params: cfg.DataConfig, input_context: tf.distribute.InputContext | None = None
    ) -> tf.data.Dataset:
        """Returns points and their sines; noisy, shuffled and repeated for training."""
        del input_context
        points = tf.reshape(tf.linspace(-3.0, 3.0, 512), [-1, 1])
        labels = tf.sin(points)
        if params.is_training:
            labels += tf.random.stateless_normal([512, 1], seed=(0, 1)) * self.task_config.noise
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


def main() -> None:
    """Trains for a few seconds and prints the evaluation."""
    model_dir = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    params = cfg.ExperimentConfig(
        task=SineConfig(),
        trainer=cfg.TrainerConfig(
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
    task = task_factory.get_task(params.task, logging_dir=model_dir)
    _, logs = train_lib.run_experiment(strategy, task, "train_and_eval", params, model_dir)
    print({name: round(float(value), 4) for name, value in logs.items()})
    print(f"The run is in {model_dir}; the same command with this directory goes on with it.")


if __name__ == "__main__":
    main()
