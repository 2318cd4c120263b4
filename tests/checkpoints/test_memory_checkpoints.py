import os
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.checkpoints import checkpoint_fit, memory_checkpoints


@pytest.fixture
def memory():
    return memory_checkpoints.SharedMemory()


class Count(tf.train.experimental.PythonState):
    def __init__(self):
        self.value = 0

    def serialize(self):
        return f"{self.value}".encode()

    def deserialize(self, string_value):
        self.value = int(string_value)


class Run:
    """A step, a weight and a count, kept in memory."""

    def __init__(self, memory, directory="run", shape=(2, 3), **items):
        self.step = tf.Variable(0, dtype=tf.int64)
        self.weight = keras.Variable(np.zeros(shape), dtype="bfloat16")
        self.count = Count()
        items = {"step": self.step, "weight": self.weight, "count": self.count, **items}
        self.kept = memory_checkpoints.MemoryCheckpoints(
            memory, tf.train.Checkpoint(**items), directory, self.step
        )

    def go_to(self, step):
        self.step.assign(step)
        self.weight.assign(np.full(self.weight.shape, step))
        self.count.value = step
        self.kept({})

    def read(self):
        weights = keras.ops.convert_to_numpy(self.weight.value)
        return int(self.step), float(weights.min()), float(weights.max()), self.count.value


def test_the_newest_of_two_is_read(memory):
    assert memory.read() is None
    assert memory.find_step() == -1
    for step in range(1, 4):
        memory.write({"step": step}, {"a": np.full(5, step), "b": np.array(True), "c": np.ones(0)})

    facts, arrays = memory.read()
    assert facts == {"step": memory.find_step()} == {"step": 3}
    np.testing.assert_array_equal(arrays["a"], [3] * 5)
    assert (arrays["b"].shape, arrays["c"].shape) == ((), (0,))
    memory.write({"step": 4}, {"a": np.zeros(5)})
    memory.write({"step": 5}, {"a": np.zeros(5)})
    np.testing.assert_array_equal(arrays["a"], [3] * 5)  # What was read stays.


def test_a_kill_during_a_save_leaves_the_one_before(memory):
    for step in (1, 2):
        memory.write({"step": step}, {"a": np.full(5, step)})
    if not (pid := os.fork()):
        places = [0, 64]  # The header that says "incomplete", then the first array.
        real = os.pwrite

        def write(file, content, place):
            assert place == places.pop(0)
            if not places:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(file, content, place)

        os.pwrite = write
        memory.write({"step": 3}, {"a": np.full(5, 3)})
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL

    facts, arrays = memory.read()
    assert facts["step"] == 2
    np.testing.assert_array_equal(arrays["a"], [2] * 5)


def test_another_run_object_goes_on_from_memory(memory):
    Run(memory).go_to(7)
    run = Run(memory)

    assert run.kept.restore(oldest_step=7)
    assert run.read() == (7, 7.0, 7.0, 7)
    run.weight.assign_add(np.ones(run.weight.shape))  # Not into the memory.
    other = Run(memory)
    assert other.kept.restore(oldest_step=0)
    assert other.read() == (7, 7.0, 7.0, 7)


@pytest.mark.parametrize(
    ("differences", "oldest_step"),
    [
        ({}, 8),
        ({"directory": "other"}, 7),
        ({"shape": (3, 2)}, 7),
        ({"more": tf.Variable(1)}, 7),
        ({"more": Count()}, 7),
    ],
)
def test_what_is_too_old_or_of_another_run_is_not_restored(memory, differences, oldest_step):
    Run(memory).go_to(7)
    run = Run(memory, **differences)

    assert not run.kept.restore(oldest_step)
    assert run.read() == (0, 0.0, 0.0, 0)


def test_it_saves_at_its_interval_and_whenever_a_run_went_back(memory, monkeypatch):
    monkeypatch.setattr(memory_checkpoints, "EXPECTED_SECS", 1e9)
    run = Run(memory)  # Interruptions are so rare that the second save is far away.
    saved = []
    for step in (5, 6, 7, 4, 6):
        run.go_to(step)
        saved.append(memory.find_step())

    assert saved == [5, 5, 5, 4, 4]
    monkeypatch.setattr(memory_checkpoints, "EXPECTED_SECS", 0.0)
    often = Run(memory)
    often.kept.expect_interruptions([])
    for step in (1, 2, 3):
        often.go_to(step)
        assert memory.find_step() == step


def test_variables_that_an_evaluation_makes_are_kept(memory):
    run = Run(memory, more=tf.Module())
    run.go_to(1)
    run.kept._checkpoint.more.late = tf.Variable(5)
    run.kept.refresh({})
    run.go_to(0)

    _, arrays = memory.read()
    assert [int(value) for name, value in arrays.items() if "late" in name] == [5]


def test_what_can_not_be_kept_in_memory_is_left_to_the_files(memory):
    Run(memory, text=tf.Variable("a")).go_to(1)
    step = tf.Variable(0, dtype=tf.int64)
    growing = checkpoint_fit.HookedCheckpoint(lambda path: None, step=step)
    memory_checkpoints.MemoryCheckpoints(memory, growing, "run", step)({})

    assert memory.find_step() == -1
