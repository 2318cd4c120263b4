import pytest
import tensorflow as tf

from quintain.orbit.utils import epoch_helper


@pytest.fixture
def step():
    return tf.Variable(25, dtype=tf.int64)


def test_counts_epochs_and_batches_from_the_global_step(step):
    epochs = epoch_helper.EpochHelper(epoch_steps=10, global_step=step)
    assert epochs.current_epoch is None

    assert epochs.epoch_begin()
    step.assign(28)

    assert not epochs.epoch_begin()
    assert not epochs.epoch_end()
    assert (epochs.current_epoch, epochs.batch_index) == (2, 3)


def test_epoch_ends_at_a_multiple_of_its_length(step):
    epochs = epoch_helper.EpochHelper(epoch_steps=10, global_step=step)
    epochs.epoch_begin()
    step.assign(30)

    assert epochs.epoch_end()
    assert epochs.epoch_begin()
    assert epochs.current_epoch == 3


def test_end_without_begin_is_an_error(step):
    with pytest.raises(ValueError, match="No epoch is under way"):
        epoch_helper.EpochHelper(epoch_steps=10, global_step=step).epoch_end()


def test_epoch_without_steps_is_an_error(step):
    with pytest.raises(ValueError, match="`epoch_steps`: got 0"):
        epoch_helper.EpochHelper(epoch_steps=0, global_step=step)
