import itertools
import types

import numpy as np
import pytest
import tensorflow as tf

from quintain.nlp.data.masked import text_packing

VOCABULARY = types.SimpleNamespace(cls_id=2, sep_id=3)


def make_stream(texts):
    signature = tf.TensorSpec([None], tf.int32)
    return tf.data.Dataset.from_generator(lambda: iter(texts), output_signature=signature)


def make_texts(count=50, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(10, 99, generator.integers(1, 30)).tolist() for _ in range(count)]


def test_whole_texts_are_packed_and_none_is_lost():
    texts = make_texts()

    packed = [part.tolist() for part in text_packing.pack(texts, seq_length=16, sep_id=3)]

    assert max(map(len, packed)) <= 16
    assert all(part[-1] == 3 for part in packed)
    tokens = [token for part in packed for token in part if token != 3]
    assert tokens == list(itertools.chain.from_iterable(texts))


def test_the_end_of_a_document_ends_a_sequence():
    packed = text_packing.pack([[5], [], [], [6], [7]], seq_length=16, sep_id=3)

    assert [part.tolist() for part in packed] == [[5, 3], [6, 3, 7, 3]]


@pytest.mark.slow
def test_a_stream_is_cut_into_full_sequences():
    texts = make_texts()

    stream = text_packing.pack_stream(make_stream(texts), seq_length=16, vocabulary=VOCABULARY)
    sequences = [part.tolist() for part in stream.as_numpy_iterator()]

    assert all(part[0] == 2 and len(part) == 16 for part in sequences)
    assert all(part[len([token for token in part if token]) - 1] == 3 for part in sequences)
    tokens = [token for part in sequences for token in part if token >= 10]
    assert tokens == list(itertools.chain.from_iterable(texts))
    num_padding = sum(part.count(0) for part in sequences[:-1])
    assert num_padding <= 2 * len(sequences)


def test_a_stream_without_text_gives_nothing():
    stream = text_packing.pack_stream(make_stream([[]]), seq_length=16, vocabulary=VOCABULARY)

    assert list(stream) == []


@pytest.mark.slow
def test_the_position_in_a_stream_is_restored(tmp_path):
    texts = tf.data.Dataset.range(1, 200).map(lambda n: tf.fill([n % 7 + 1], tf.cast(n, tf.int32)))
    stream = text_packing.pack_stream(texts, seq_length=8, vocabulary=VOCABULARY)
    iterator = iter(stream)
    for _ in range(5):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "position"))
    expected = [next(iterator).numpy().tolist() for _ in range(5)]

    restored = iter(stream)
    tf.train.Checkpoint(iterator=restored).read(path).assert_consumed()

    assert [next(restored).numpy().tolist() for _ in range(5)] == expected


@pytest.fixture(scope="module")
def pairs():
    parts = np.arange(400 * 10).reshape(400, 10).astype(np.int32) + 10
    outputs = text_packing.pair_parts(
        tf.constant(parts), tf.constant([0, 7]), vocabulary=VOCABULARY
    )
    return parts, {name: value.numpy() for name, value in outputs.items()}


def test_pairs_are_two_segments(pairs):
    _, outputs = pairs
    ids, types_ = outputs["input_word_ids"], outputs["input_type_ids"]

    assert ids.shape == (400, 13)
    assert (ids[:, 0] == 2).all()
    assert (ids[:, -1] == 3).all()
    assert ((ids == 3).sum(axis=1) == 2).all()
    middle = (ids == 3).argmax(axis=1)
    assert middle.min() >= 2
    assert middle.max() <= 10
    np.testing.assert_array_equal(types_, np.arange(13) > middle[:, np.newaxis])


def test_half_of_the_pairs_belong_together(pairs):
    parts, outputs = pairs
    labels = outputs["next_sentence_labels"][:, 0]
    seconds = outputs["input_word_ids"][:, -2]

    follows = seconds == parts[:, -1]

    np.testing.assert_array_equal(labels == 0, follows)
    assert abs(labels.mean() - 0.5) < 5 * 0.5 / 20
