import gzip

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.input import line_files
from quintain.nlp.data import pretrain_text_dataloader as loaders
from quintain.nlp.data import tokenizers
from quintain.nlp.data.masked import bert_vocabulary

LINES = [f"the {word} of number {number}" for number in range(40) for word in ("house", "tree")]


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("v") / "v.model")
    tokenizers.train_sentencepiece(
        LINES, path, vocab_size=60, control_symbols=bert_vocabulary.SPECIAL_TOKENS
    )
    return path


@pytest.fixture
def make_params(vocab_file, tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(LINES[:40]) + "\n\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("\n".join(LINES[40:]).encode()))

    def make(**fields):
        defaults = {
            "input_path": [str(tmp_path / "a.txt"), str(tmp_path / "b.txt.gz")],
            "is_training": False,
            "global_batch_size": 4,
            "seq_length": 32,
            "max_predictions_per_seq": 6,
            "use_next_sentence_label": False,
            "tokenization": "SentencePiece",
            "vocab_file_path": vocab_file,
        }
        return loaders.BertPretrainTextDataConfig(**(defaults | fields))

    return make


def load(params):
    return loaders.BertPretrainTextDataLoader(params).load()


def restore_ids(batch):
    """Returns the ids before they were masked."""
    ids = batch["input_word_ids"].numpy().copy()
    for row, position, word, weight in zip(
        np.repeat(np.arange(len(ids)), batch["masked_lm_ids"].shape[1]),
        batch["masked_lm_positions"].numpy().reshape(-1),
        batch["masked_lm_ids"].numpy().reshape(-1),
        batch["masked_lm_weights"].numpy().reshape(-1),
        strict=True,
    ):
        ids[row, position] = word if weight else ids[row, position]
    return ids


@pytest.mark.slow
def test_text_is_packed_and_masked(make_params, vocab_file):
    batches = list(load(make_params()))
    vocabulary = bert_vocabulary.load(vocab_file, "SentencePiece", lower_case=True)
    ids = np.concatenate([restore_ids(batch) for batch in batches])

    expected = vocabulary.tokenize(tf.constant(LINES)).flat_values.numpy()
    np.testing.assert_array_equal(ids[~vocabulary.is_special[ids]], expected)
    assert {batch["input_word_ids"].shape[1] for batch in batches} == {32}
    for batch in batches:
        np.testing.assert_array_equal(batch["input_mask"], restore_ids(batch) != 0)
    masks = np.concatenate([batch["input_word_ids"] for batch in batches]) == vocabulary.mask_id
    assert masks.any()


@pytest.mark.slow
def test_evaluation_is_masked_the_same_and_training_anew(make_params):
    first, second = (
        [batch["input_word_ids"].numpy().tolist() for batch in load(make_params())]
        for _ in range(2)
    )
    only_one = make_params(
        is_training=True, global_batch_size=1, shuffle_buffer_size=0, seq_length=4_000
    )
    passes = [batch["input_word_ids"].numpy() for batch in load(only_one).take(3)]

    assert first == second
    assert (passes[0] != passes[1]).any()


@pytest.mark.slow
def test_pairs_say_whether_they_belong_together(make_params):
    params = make_params(is_training=True, use_next_sentence_label=True, global_batch_size=64)

    batch = next(iter(load(params)))

    labels = batch["next_sentence_labels"].numpy()
    assert labels.shape == (64, 1)
    assert 10 < labels.sum() < 54
    assert batch["input_type_ids"].numpy().max() == 1
    assert batch["input_mask"].numpy().min() == 1


@pytest.mark.slow
def test_records_are_read(make_params, tmp_path):
    path = str(tmp_path / "text.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for line in LINES:
            value = tf.train.BytesList(value=[line.encode()])
            feature = {"body": tf.train.Feature(bytes_list=value)}
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())

    from_records = list(load(make_params(input_path=path, text_field_names=["body"])))
    from_lines = list(load(make_params()))

    assert len(from_records) == len(from_lines)
    np.testing.assert_array_equal(restore_ids(from_records[0]), restore_ids(from_lines[0]))


@pytest.mark.slow
def test_the_position_is_restored(make_params, tmp_path):
    dataset = load(make_params(is_training=True))
    iterator = iter(dataset)
    next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "position"))
    expected = [next(iterator)["input_word_ids"].numpy().tolist() for _ in range(3)]

    restored = iter(dataset)
    tf.train.Checkpoint(iterator=restored).read(path)

    assert [next(restored)["input_word_ids"].numpy().tolist() for _ in range(3)] == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text_field_names": []}, "text_field_names: got"),
        (
            {"text_field_names": ["a", "b"], "use_next_sentence_label": True},
            "text_field_names: got 2 fields, expected one",
        ),
        ({"vocab_file_path": ""}, "vocab_file_path: got ''"),
    ],
)
def test_wrong_settings_are_errors(make_params, fields, message):
    with pytest.raises(errors.ConfigError, match=message):
        load(make_params(**fields))


@pytest.mark.parametrize("name", ["bad.txt", "bad.txt.gz"])
@pytest.mark.parametrize(
    ("data", "place"),
    [(b"one\ntwo\ncaf\xe9\n", ":3: byte 0xe9"), (b"one\ntw\xf0\x9f\x98", ":2: byte 0xf0")],
)
def test_a_line_that_is_not_utf8_is_named(make_params, tmp_path, monkeypatch, name, data, place):
    monkeypatch.setattr(line_files, "_CHUNK_BYTES", 5)
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)

    with pytest.raises(errors.DataError, match=f"{name}{place} is not UTF-8"):
        load(make_params(input_path=str(path)))


@pytest.mark.slow
def test_characters_may_lie_across_the_pieces_that_are_read(make_params, tmp_path, monkeypatch):
    monkeypatch.setattr(line_files, "_CHUNK_BYTES", 3)
    (tmp_path / "a.txt").write_text("the house \U0001f600 of number 1\n" * 9)

    assert len(list(load(make_params(input_path=str(tmp_path / "a.txt"))))) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n", "there is no record to train on"),
        (" \n\u2028\n\x85", "there is no record to train on"),
        ("\n\x01\n\u200b\n", "whose text has no token of the vocabulary"),
    ],
)
def test_training_on_text_without_tokens_is_an_error(make_params, tmp_path, text, message):
    (tmp_path / "none.txt").write_text(text)
    params = make_params(input_path=str(tmp_path / "none.txt"), is_training=True)

    with pytest.raises(errors.DataError, match=message):
        load(params)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "use_pairs", "message"),
    [
        ("\n\n", False, "no token of the vocabulary"),
        ("\x01\n", True, "less than 29 tokens of the vocabulary"),
        ("the house of number 1\n", True, "less than 29 tokens of the vocabulary"),
    ],
)
def test_evaluation_on_too_little_text_is_an_error(make_params, tmp_path, text, use_pairs, message):
    (tmp_path / "none.txt").write_text(text)
    params = make_params(input_path=str(tmp_path / "none.txt"), use_next_sentence_label=use_pairs)

    with pytest.raises(errors.DataError, match=message):
        load(params)
