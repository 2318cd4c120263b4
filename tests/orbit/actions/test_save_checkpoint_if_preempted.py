import threading
import time

import pytest
import tensorflow as tf
from tensorflow.python.distribute.failure_handling import failure_handling_util

from quintain import orbit


@pytest.fixture
def make_action(tmp_path, monkeypatch):
    """Returns a function that builds the action for a machine with a fake watcher of notices."""

    # Of the platforms that TensorFlow knows, this one asks the watcher it is given.
    platform = failure_handling_util.PlatformDevice.GCE_GPU
    monkeypatch.setattr(failure_handling_util, "detect_platform", lambda: platform)

    def make(has_notice):
        step = tf.Variable(7, dtype=tf.int64)
        manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(step=step), str(tmp_path), max_to_keep=1
        )
        config = tf.distribute.experimental.TerminationConfig(
            termination_watcher_fn=has_notice, exit_fn=lambda: None, grace_period=0
        )
        return orbit.actions.SaveCheckpointIfPreempted(
            None, manager, step, termination_config=config
        )

    return make


def names(tmp_path):
    return sorted(path.name for path in tmp_path.glob("ckpt-*.index"))


def test_a_notice_saves_a_checkpoint_and_the_run_goes_on(make_action, tmp_path):
    noticed = threading.Event()

    def has_notice():
        noticed.set()
        return True

    with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
        action = make_action(has_notice)
        assert noticed.wait(60)
        deadline = time.monotonic() + 60
        while not names(tmp_path) and time.monotonic() < deadline:
            action({})
            time.sleep(0.001)
        action({})

    assert names(tmp_path) == ["ckpt-7.index"]


def test_without_a_notice_nothing_is_saved(make_action, tmp_path):
    with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
        action = make_action(lambda: False)
        action({})
        action({})

    assert names(tmp_path) == []
