import keras
import pytest
import tensorflow as tf

from quintain import optimization, orbit
from quintain.core.loop import trainer_state
from quintain.settings import config_definitions as cfg

ALWAYS = {"global_step", "model", "random_state", "task_random_state", "task_variables"}


class NoTrainer(orbit.StandardTrainer):
    def train_step(self, iterator):
        pass


def build_state(*, optimizer, is_training, **config):
    data = tf.data.Dataset.range(3)
    trainer = NoTrainer(data)
    state = trainer_state.TrainerState(
        trainer,
        cfg.TrainerConfig(**config),
        cfg.RuntimeConfig(),
        count_used=lambda: {"": 0},
        list_loop_metrics=list,
    )
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    state.follow(model, optimizer, is_built=True, is_training=is_training)
    positions = {
        "data_position": state.create_position(
            data, trainer.ensure_train_iterator, trainer.ensure_train_iterator, is_external=False
        )
    }
    checkpoint = state.create_checkpoint(
        {},
        positions if is_training else {},
        list_metrics=list,
        is_training=is_training,
    )
    return state, set(checkpoint._trackable_children()) - {"save_counter"}


def test_a_checkpoint_of_training_holds_what_earlier_versions_put_there():
    _, names = build_state(optimizer=optimization.SGD(0.1), is_training=True)

    assert names == ALWAYS | {
        "data_position",
        "host_random_state",
        "loop_state",
        "optimizer",
        "recovery",
    }


def test_a_checkpoint_for_evaluation_alone_has_no_place_in_data_and_no_recoveries():
    _, names = build_state(optimizer=None, is_training=False)

    assert names == ALWAYS


def test_a_loop_ends_with_the_learning_rate_and_what_was_counted():
    state, _ = build_state(optimizer=optimization.SGD(0.1), is_training=True)

    state.begin_loop()
    state.count_items({"examples": tf.constant(6)})
    state.global_step.assign_add(2)
    first = state.end_loop()
    state.begin_loop()
    second = state.end_loop()

    assert float(first["learning_rate"]) == pytest.approx(0.1)
    assert first["examples_per_second"] > 0
    assert "tokens_per_second" not in first
    assert "examples_per_second" not in second
