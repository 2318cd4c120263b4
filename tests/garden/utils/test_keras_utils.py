import keras
import pytest
import tensorflow as tf

from quintain.garden.utils.misc import keras_utils, model_helpers


@pytest.fixture
def model():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    return model


def test_steps_and_epochs_are_timed(model, tmp_path):
    history = keras_utils.TimeHistory(batch_size=2, log_steps=2, logdir=str(tmp_path))

    model.fit(
        tf.zeros([8, 3]), tf.zeros([8, 1]), batch_size=2, epochs=2, verbose=0, callbacks=[history]
    )

    assert [stamp.batch_index for stamp in history.timestamp_log] == [0, 2, 4, 6, 8]
    assert (history.global_steps, len(history.epoch_runtime_log)) == (8, 2)
    assert history.average_examples_per_second == 2 * history.average_steps_per_second > 0
    assert history.get_examples_per_sec() > 0
    assert list(tmp_path.glob("events.*"))


def test_a_checkpoint_is_saved_at_the_end_of_an_epoch(model, tmp_path):
    step = tf.Variable(7, dtype=tf.int64)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(step=step),
        str(tmp_path),
        max_to_keep=1,
        step_counter=step,
        checkpoint_interval=1,
    )

    keras_utils.SimpleCheckpoint(manager).on_epoch_end(0)

    assert manager.latest_checkpoint.endswith("ckpt-7")


def test_a_threshold_is_reached_by_a_metric():
    assert model_helpers.past_stop_threshold(0.5, 0.5)
    assert not model_helpers.past_stop_threshold(None, 0.5)
    assert not model_helpers.past_stop_threshold(0.6, 0.5)
    with pytest.raises(ValueError, match="eval_metric: got 'high'"):
        model_helpers.past_stop_threshold(0.5, "high")


def test_synthetic_data_is_one_element_without_end():
    dataset = model_helpers.generate_synthetic_data(
        tf.TensorShape([2]), input_value=1.0, label_shape=tf.TensorShape([]), label_value=3
    )

    features, label = next(iter(dataset))
    assert features.numpy().tolist() == [1.0, 1.0]
    assert int(label) == 3
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
