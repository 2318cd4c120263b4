"""Summaries that training steps themselves write."""

import dataclasses

import keras
import pytest
import tensorflow as tf

from quintain import errors, orbit
from quintain.core import base_task
from quintain.distribute import distribution
from quintain.run import experiment_runner
from quintain.settings import config_definitions as cfg


@dataclasses.dataclass
class TalkingConfig(cfg.TaskConfig):
    train_data: cfg.DataConfig = cfg.DataConfig(is_training=True, global_batch_size=4)


class TalkingTask(base_task.Task):
    """Writes a summary in every step."""

    def build_model(self):
        model = keras.Sequential([keras.layers.Dense(1)])
        model.build((None, 2))
        return model

    def build_inputs(self, params, input_context=None):
        return tf.data.Dataset.from_tensors((tf.ones([4, 2]), tf.ones([4, 1]))).repeat()

    def build_losses(self, labels, model_outputs, aux_losses=None):
        loss = tf.reduce_mean(tf.square(labels - model_outputs))
        tf.summary.scalar("loss_of_a_step", loss)
        return loss


def build_params(**trainer):
    return cfg.ExperimentConfig(
        task=TalkingConfig(),
        trainer=cfg.TrainerConfig(
            optimizer_config={
                "optimizer": {"type": "sgd"},
                "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.1}},
            },
            train_steps=8,
            steps_per_loop=2,
            summary_interval=4,
            **trainer,
        ),
        runtime=cfg.RuntimeConfig(distribution_strategy="one_device"),
    )


def read_steps(directory):
    steps = []
    for path in sorted(tf.io.gfile.glob(f"{directory}/train/events.*")):
        for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            steps += [event.step for value in event.summary.value if "of_a_step" in value.tag]
    return steps


@pytest.mark.long("Further cases of a test of which some run every time", but=["True"])
@pytest.mark.slow
@pytest.mark.parametrize("allow_tpu_summary", [True, False])
def test_steps_write_their_summaries_when_they_are_due(tmp_path, allow_tpu_summary):
    params = build_params(allow_tpu_summary=allow_tpu_summary)
    strategy = distribution.build_strategy(params.runtime)
    runner = experiment_runner.ExperimentRunner(
        strategy, TalkingTask(params.task), "train", params, str(tmp_path)
    )
    loop_fn = runner.trainer.create_train_loop_fn()

    runner.run()

    assert isinstance(loop_fn, orbit.utils.LoopFnWithSummaries) == allow_tpu_summary
    assert read_steps(tmp_path) == [0, 4]


def test_a_loop_in_python_can_not_have_two_programs():
    with pytest.raises(errors.ConfigError, match=r"trainer\.allow_tpu_summary: got True with"):
        build_params(allow_tpu_summary=True, train_tf_while_loop=False).validate()
