import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.data import bert_inputs

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "to", "be", "or", "not", "##be"]


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(TOKENS) + "\n")
    return str(path)


def cut_like_bert(lengths, num_tokens):
    """Drops a token of the longest segment, the last of equals, until all fit."""
    lengths = list(lengths)
    while sum(lengths) > num_tokens:
        longest = max(range(len(lengths)), key=lambda index: (lengths[index], index))
        lengths[longest] -= 1
    return lengths


@pytest.mark.parametrize("num_segments", [1, 2, 3])
def test_segments_are_cut_from_the_longest(num_segments):
    lengths = np.random.default_rng(num_segments).integers(0, 12, [200, num_segments])
    segments = [tf.ragged.range(lengths[:, index]) for index in range(num_segments)]

    trimmed = bert_inputs.trim(segments, 9)

    kept = np.stack([part.row_lengths().numpy() for part in trimmed], axis=1)
    assert kept.tolist() == [cut_like_bert(row, 9) for row in lengths]
    assert trimmed[0].to_list() == [list(range(count)) for count in kept[:, 0]]


def test_two_texts_are_two_segments(vocab_file):
    process = bert_inputs.TextProcessor(seq_length=10, vocab_file=vocab_file)

    inputs = process([tf.constant(["To be", ""]), tf.constant(["OR not tobe", "zzz"])])

    assert inputs["input_word_ids"].numpy().tolist() == [
        [2, 5, 6, 3, 7, 8, 5, 9, 3, 0],
        [2, 3, 1, 3, 0, 0, 0, 0, 0, 0],
    ]
    assert inputs["input_mask"].numpy().tolist() == [[1] * 9 + [0], [1] * 4 + [0] * 6]
    assert inputs["input_type_ids"].numpy().tolist() == [
        [0] * 4 + [1] * 5 + [0],
        [0, 0, 1, 1] + [0] * 6,
    ]


def test_odd_text_has_a_fixed_shape(vocab_file):
    process = bert_inputs.TextProcessor(seq_length=8, vocab_file=vocab_file)
    texts = [
        "",
        " \t ",
        "be " * 50_000,
        "\u0001\u0002",
        "שלום עליכם",
        "👩‍👩‍👧 be",
        "ᚠᚢᚦ",
        "[MASK] be",
    ]

    inputs = process([tf.constant(texts)])

    assert inputs["input_word_ids"].shape == (8, 8)
    assert inputs["input_mask"].numpy()[2].sum() == 8
    assert 4 not in inputs["input_word_ids"].numpy()


def test_a_single_example_has_no_batch(vocab_file):
    process = bert_inputs.TextProcessor(seq_length=4, vocab_file=vocab_file)

    assert process([tf.constant("be")])["input_word_ids"].numpy().tolist() == [2, 6, 3, 0]


def test_a_sequence_too_short_for_its_special_tokens_is_an_error(vocab_file):
    process = bert_inputs.TextProcessor(seq_length=3, vocab_file=vocab_file)

    with pytest.raises(errors.ConfigError, match="seq_length: got 3"):
        process([tf.constant(["be"]), tf.constant(["be"])])
