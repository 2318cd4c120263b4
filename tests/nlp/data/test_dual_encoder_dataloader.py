import gzip
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.data import data_loader_factory
from quintain.nlp.data import dual_encoder_dataloader as loaders

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "where", "is", "it", "here", "there", "no"]
PAIRS = [("where is it", "here"), ("is it here", "no"), ("where", "there it is")]
LEFT = [[2, 4, 5, 6, 3, 0], [2, 5, 6, 7, 3, 0], [2, 4, 3, 0, 0, 0]]
RIGHT = [[2, 7, 3, 0, 0, 0], [2, 9, 3, 0, 0, 0], [2, 8, 6, 5, 3, 0]]


def write_records(path, pairs, names=("left_input", "right_input")):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for pair in pairs:
            features = {
                name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
                for name, text in zip(names, pair, strict=True)
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


@pytest.fixture
def write(tmp_path):
    """Writes pairs to a file, whose name says how."""

    def write(name, pairs=PAIRS):
        path = tmp_path / name
        if ".tfrecord" in name:
            write_records(path, pairs)
        elif ".jsonl" in name:
            rows = [{"left_input": left, "right_input": right} for left, right in pairs]
            lines = "\n".join(map(json.dumps, rows)) + "\n\n"
            path.write_bytes(gzip.compress(lines.encode()) if ".gz" in name else lines.encode())
        else:
            rows = [("right_input", "left_input"), *((right, left) for left, right in pairs)]
            path.write_text("".join("\t".join(row) + "\n" for row in rows))
        return str(path)

    return write


@pytest.fixture
def make_params(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))

    def make(path, **fields):
        defaults = {
            "input_path": path,
            "vocab_file": str(tmp_path / "vocab.txt"),
            "seq_length": 6,
            "global_batch_size": 2,
            "is_training": False,
        }
        return loaders.DualEncoderDataConfig(**(defaults | fields))

    return make


def load(params):
    return data_loader_factory.get_data_loader(params).load()


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl", "a.jsonl.gz", "a.tfrecord"])
def test_every_format_gives_both_texts(write, make_params, name):
    batches = list(load(make_params(write(name))))

    assert [len(batch["left_mask"]) for batch in batches] == [2, 1]
    ids = {
        side: np.concatenate([batch[f"{side}_word_ids"] for batch in batches]).tolist()
        for side in ("left", "right")
    }
    assert ids == {"left": LEFT, "right": RIGHT}
    assert batches[1]["right_mask"].numpy().tolist() == [[1, 1, 1, 1, 1, 0]]
    assert batches[0]["left_type_ids"].dtype == tf.int32


def test_several_files_are_shuffled_in_training_and_each_pair_stays_together(write, make_params):
    paths = [write("a.jsonl", PAIRS[:2]), write("b.jsonl", PAIRS[2:])]
    batches = iter(load(make_params(paths, is_training=True, global_batch_size=3)))

    pairs = {
        (tuple(left), tuple(right))
        for batch in itertools.islice(batches, 20)
        for left, right in zip(
            batch["left_word_ids"].numpy(), batch["right_word_ids"].numpy(), strict=True
        )
    }

    assert pairs == {(tuple(left), tuple(right)) for left, right in zip(LEFT, RIGHT, strict=True)}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "left_input\tother\nx\ty\n", r"a\.tsv:1: the header has no column 'right_input'"),
        ("a.tsv", "left_input\tright_input\nx\ty\nx\n", r"a\.tsv:3: got 1 columns, expected the 2"),
        ("a.tsv", "left_input\tright_input\nx\t \n", r"a\.tsv:2: right_input: got ' ', expected a"),
        ("a.tsv", "left_input\tright_input\n", r"a\.tsv: no pairs of texts"),
        ("a.jsonl", '{"left_input": "x"}\n', r"a\.jsonl:1: has no 'right_input', only 'left_input"),
        ("a.jsonl", '\n{"left_input": 3, "right_input": "y"}', r"a\.jsonl:2: left_input: got 3, "),
        ("a.jsonl", '{"left_input"', r"a\.jsonl:1: is no JSON"),
        ("a.jsonl", "[1]", r"a\.jsonl:1: got \[1\], expected an object"),
    ],
)
def test_a_bad_line_is_named_before_anything_is_trained(
    tmp_path, make_params, name, content, message
):
    (tmp_path / name).write_text(content)

    with pytest.raises(errors.DataError, match=message):
        load(make_params(str(tmp_path / name)))


def test_a_record_without_text_is_named(write, make_params, tmp_path):
    empty = write("empty.tfrecord", [*PAIRS, ("where", " ")])
    write_records(tmp_path / "other.tfrecord", [("x", "y")], names=("left_input", "answer"))

    with pytest.raises(errors.DataError, match="record 4: right_input: got an empty text"):
        load(make_params(empty))
    with pytest.raises(errors.DataError, match=r"record 1 does not have .*'right_input'"):
        load(make_params(str(tmp_path / "other.tfrecord")))


def test_bad_lines_are_left_out_and_counted_if_so_wanted(tmp_path, make_params, caplog):
    path = tmp_path / "a.jsonl"
    path.write_text('{"left_input": "x"}\n{"left_input": "no", "right_input": "it"}\n')

    (batch,) = load(make_params(str(path), corrupt_records="skip"))

    assert batch["left_word_ids"].numpy()[0, 1] == WORDS.index("no")
    assert "left out 1 of 2 lines" in caplog.text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"left_text_fields": []}, "left_text_fields: got none"),
        ({"is_training": True, "global_batch_size": 1}, "global_batch_size: got 1, expected at le"),
        ({"vocab_file": ""}, "vocab_file: got ''"),
        ({"input_path": "bundled:numbers"}, "input_path: got 'bundled:numbers', expected one of"),
    ],
)
def test_a_config_that_can_t_train_is_refused(write, make_params, fields, message):
    with pytest.raises(errors.ConfigError, match=message):
        load(make_params(write("a.tsv"), **fields))
