import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.checkpoints import (
    checkpoint_average,
    checkpoint_fit,
    checkpoint_state,
    checkpoints,
    task_state,
)


class Plain:
    def __init__(self):
        self.generator = tf.random.Generator.from_seed(3)
        self.steps = tf.Variable(2, dtype=tf.int64)


class HoldingTask(tf.Module):
    """Holds states in every way that is promised."""

    def __init__(self):
        super().__init__()
        self.seed = keras.random.SeedGenerator(3)
        self.others = [keras.random.SeedGenerator(4), "text", None]
        self.weights = {"a/b": tf.Variable(1.0), "more": (keras.Variable(3.0),)}
        self.plain = Plain()
        self.space = types.SimpleNamespace(rate=tf.Variable(5.0))
        self.dropout = keras.layers.Dropout(0.5, seed=1)
        self.mean = keras.metrics.Mean()
        self.me = self
        self.model = keras.Sequential([keras.layers.Input([2]), keras.layers.Dense(1)])
        self.teacher = keras.Sequential([keras.layers.Input([2]), keras.layers.Dense(1)])
        self.teacher.temperature = [tf.Variable(6.0)]
        self.teacher.second = {"optimizer": keras.optimizers.SGD(0.1)}


def _checkpoint(task):
    items = task_state.checkpoint_items(
        {"": task}, lambda: task.model.variables, lambda state: state
    )
    return tf.train.Checkpoint(**items, host_random_state=checkpoint_state.HostRandomState())


def _draw(task):
    numbers = [task.plain.generator.normal([2]), keras.random.normal([2], seed=task.seed)]
    numbers += [
        keras.random.normal([2], seed=task.others[0]),
        task.dropout(tf.ones(9), training=True),
    ]
    return [np.asarray(number).tolist() for number in numbers]


@pytest.fixture
def task():
    return HoldingTask()


def test_everything_that_a_task_holds_is_found_but_its_model(task):
    variables, states = task_state.find({"": task}, task.model.variables)

    assert set(variables) == {
        "weights.a/b", "weights.more.0", "plain.steps", "space.rate", "mean.0", "mean.1",
        "teacher.0", "teacher.1", "teacher.temperature.0",
        "teacher.second.optimizer.0", "teacher.second.optimizer.1",
    }  # fmt: skip
    assert set(states) == {"seed", "others.0", "plain.generator", "dropout.seed_generators.0"}


def test_what_a_task_holds_goes_on_where_it_was(task, tmp_path):
    _draw(task)
    task.weights["a/b"].assign(7.0)
    task.plain.steps.assign(8)
    path = _checkpoint(task).write(str(tmp_path / "ckpt"))
    expected = _draw(task)

    other = HoldingTask()
    checkpoint_fit.check_fit(_checkpoint(other), path)
    _checkpoint(other).read(path).expect_partial()

    assert _draw(other) == expected
    assert [float(other.weights["a/b"]), int(other.plain.steps)] == [7.0, 8]
    np.testing.assert_array_equal(other.teacher.get_weights()[0], task.teacher.get_weights()[0])


def test_a_save_looks_once_for_what_tasks_hold_and_the_next_one_anew(task, tmp_path, monkeypatch):
    finds = []
    find = task_state.find
    monkeypatch.setattr(task_state, "find", lambda *args: finds.append(1) or find(*args))
    manager = checkpoints.CheckpointManager(_checkpoint(task), str(tmp_path), enable_async=False)

    manager.save(checkpoint_number=1)
    assert len(finds) == 1

    task.later = tf.Variable(7.0)
    path = manager.save(checkpoint_number=2)
    assert len(finds) == 2
    assert any("later" in name for name, _ in tf.train.list_variables(path))


def test_an_optimizer_without_variables_is_found_in_a_model(task):
    assert task_state.has_unbuilt_optimizers([task])

    task.teacher.second["optimizer"].build(task.teacher.trainable_variables)

    assert not task_state.has_unbuilt_optimizers([task])


def test_a_checkpoint_without_it_is_restored_with_a_warning_that_names_it(task, tmp_path, caplog):
    path = tf.train.Checkpoint().write(str(tmp_path / "ckpt"))

    checkpoint_fit.check_fit(_checkpoint(task), path)

    assert "plain.steps" in caplog.text
    assert "not an exact continuation" in caplog.text


def test_random_states_that_a_task_has_no_longer_are_named(task, tmp_path, caplog):
    path = _checkpoint(task).write(str(tmp_path / "ckpt"))
    del task.others

    _checkpoint(task).read(path).expect_partial()

    assert "others.0" in caplog.text


def test_an_average_takes_means_of_numbers_and_the_random_states_of_the_newest(task, tmp_path):
    older = _checkpoint(task).write(str(tmp_path / "ckpt-1"))
    _draw(task)
    task.weights["a/b"].assign(3.0)
    task.plain.steps.assign(9)
    newer = _checkpoint(task).write(str(tmp_path / "ckpt-2"))
    expected = _draw(task)

    average = checkpoint_average.average_checkpoints(
        [older, newer], str(tmp_path / "averaged" / "x")
    )
    other = HoldingTask()
    _checkpoint(other).read(average.path).expect_partial()

    assert [float(other.weights["a/b"]), int(other.plain.steps)] == [2.0, 9]
    assert _draw(other) == expected


def test_the_random_states_of_the_process_go_on_where_they_were():
    def draw():
        generator = tf.random.get_global_generator()
        numbers = [np.random.rand(), keras.random.normal([]), tf.random.normal([])]
        return [float(number) for number in (*numbers, generator.normal([]))]

    tf.random.set_seed(3)
    draw()
    saved = checkpoint_state.HostRandomState().serialize()
    expected = draw()

    tf.random.set_seed(3)  # as a new process does
    checkpoint_state.HostRandomState().deserialize(saved)

    assert draw() == expected
