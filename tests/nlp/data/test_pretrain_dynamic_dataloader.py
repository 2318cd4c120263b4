import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.data import pretrain_dynamic_dataloader as loaders


def write(path, lengths, num_masked=2, padding=0):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number, length in enumerate(lengths):
            integers = {
                "input_word_ids": [number + 1] * length + [0] * (padding - length),
                "input_mask": [1] * length + [0] * (padding - length),
                "input_type_ids": [0] * max(length, padding),
                "position_ids": list(range(max(length, padding))),
                "masked_lm_positions": [1, 0],
                "masked_lm_ids": [9, -1],
                "next_sentence_labels": [number % 2],
            }
            features = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
                for name, values in integers.items()
            }
            weights = tf.train.FloatList(value=[1.0] * num_masked)
            features["masked_lm_weights"] = tf.train.Feature(float_list=weights)
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    return str(path)


def make_params(path, **fields):
    defaults = {
        "input_path": path,
        "global_batch_size": 4,
        "seq_bucket_lengths": [4, 8, 12],
        "use_v2_feature_names": True,
        "use_position_id": True,
    }
    return loaders.BertPretrainDataConfig(**(defaults | fields))


def load(params, *context):
    return loaders.PretrainingDynamicDataLoader(params).load(*context)


@pytest.mark.slow
@pytest.mark.parametrize("padding", [0, 12])
def test_sequences_are_padded_to_the_shortest_length_that_holds_them(tmp_path, padding):
    path = write(tmp_path / "a.tfrecord", [3, 4, 5, 8, 9, 12, 1], padding=padding)

    batches = list(load(make_params(path, is_training=False)))

    shapes = sorted(tuple(batch["input_word_ids"].shape) for batch in batches)
    assert shapes == [(2, 8), (2, 12), (3, 4)]
    for batch in batches:
        lengths = batch["input_mask"].numpy().sum(axis=1)
        positions = batch["position_ids"].numpy().max(axis=1)
        np.testing.assert_array_equal(positions, lengths - 1)
        assert batch["masked_lm_ids"].numpy().tolist() == [[9, 0]] * len(lengths)
        assert batch["masked_lm_weights"].numpy().tolist() == [[1.0, 0.0]] * len(lengths)
        assert batch["next_sentence_labels"].shape == (len(lengths), 1)


@pytest.mark.slow
def test_replicas_get_batches_of_one_length_in_a_step(tmp_path):
    lengths = np.random.default_rng(0).integers(1, 13, 200).tolist()
    path = write(tmp_path / "a.tfrecord", lengths)
    context = tf.distribute.InputContext(num_replicas_in_sync=2)

    batches = list(load(make_params(path), context).take(40))

    widths = [batch["input_word_ids"].shape[1] for batch in batches]
    assert widths[::2] == widths[1::2]
    assert set(widths) == {4, 8, 12}
    assert {batch["input_word_ids"].shape[0] for batch in batches} == {2}


def test_a_sequence_that_is_too_long_is_an_error(tmp_path):
    path = write(tmp_path / "a.tfrecord", [13])

    with pytest.raises(tf.errors.InvalidArgumentError, match="longer than the longest, 12"):
        list(load(make_params(path, is_training=False)))


@pytest.mark.parametrize("lengths", [[], [8, 4], [4, 4]])
def test_lengths_are_in_order(lengths):
    with pytest.raises(errors.ConfigError, match="seq_bucket_lengths: got"):
        load(make_params("x", seq_bucket_lengths=lengths))
