import pathlib

import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.data import wmt_dataloader
from quintain.nlp.data.pairs import translation_records

_FORMAT = translation_records.RecordFormat("en", "de")
_NUMBERED = translation_records.RecordFormat("en", "de", has_unique_id=True)


@pytest.fixture
def write(tmp_path):
    def call(name, examples):
        path = str(tmp_path / name)
        options = "GZIP" if name.endswith(".gz") else ""
        with tf.io.TFRecordWriter(path, options=options) as writer:
            for example in examples:
                features = {}
                for key, value in example.items():
                    if isinstance(value, int):
                        int64_list = tf.train.Int64List(value=[value])
                        features[key] = tf.train.Feature(int64_list=int64_list)
                    else:
                        bytes_list = tf.train.BytesList(value=[value])
                        features[key] = tf.train.Feature(bytes_list=bytes_list)
                message = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(message.SerializeToString())
        return path

    return call


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_pairs_are_read_in_file_order(write, name):
    path = write(name, [{"en": b"two", "de": "zwölf".encode()}, {"en": b"one", "de": b"eins"}])

    assert translation_records.read_pairs([path], _FORMAT) == [("two", "zwölf"), ("one", "eins")]


def test_empty_sides_are_read_for_evaluation_only(write):
    path = write("a.tfrecord", [{"en": b"", "de": b"eins"}, {"en": b"two", "de": b"zwei"}])
    params = wmt_dataloader.WMTDataConfig(input_path=path, src_lang="en", tgt_lang="de")

    assert wmt_dataloader.read_pairs(params.replace(is_training=True)) == [("two", "zwei")]
    assert wmt_dataloader.read_pairs(params.replace(is_training=False))[0] == ("", "eins")


@pytest.mark.parametrize("unique_ids", [(0, 2), (0, 0), (1, 2)])
def test_wrong_numbering_is_an_error(write, unique_ids):
    path = write("a.tfrecord", [{"en": b"x", "de": b"y", "unique_id": i} for i in unique_ids])

    with pytest.raises(errors.DataError, match="the 2 records are not numbered from 0 to 1"):
        translation_records.read_pairs([path], _NUMBERED)


def test_a_missing_feature_is_an_error_that_names_the_file(write):
    path = write("a.tfrecord", [{"en": b"x", "fr": b"y"}])

    with pytest.raises(errors.DataError, match=r"a\.tfrecord: a record from 1 to 1024 cannot be"):
        translation_records.read_pairs([path], _FORMAT)


def test_text_that_is_not_utf8_is_an_error(write):
    path = write("a.tfrecord", [{"en": b"\xe4", "de": b"y"}])

    with pytest.raises(errors.DataError, match=r"'utf-8' codec .* Expected examples with UTF-8"):
        translation_records.read_pairs([path], _FORMAT)


def test_a_damaged_file_is_an_error(tmp_path):
    (tmp_path / "a.tfrecord").write_bytes(b"these are not records, but text")

    with pytest.raises(errors.DataError, match=r"a\.tfrecord: a record from 1 to 1024 cannot be"):
        translation_records.read_pairs([str(tmp_path / "a.tfrecord")], _FORMAT)


def test_damaged_records_are_left_out_where_the_config_says_so(write):
    pairs = [(b"a", b"b"), (b"\xff", b"c"), (b"d", b"e"), (b"torn", b"torn")]
    examples = [{"en": source, "de": target} for source, target in pairs]
    path = write("a.tfrecord", [{"en": b"x"}, *examples])
    data = pathlib.Path(path).read_bytes()
    pathlib.Path(path).write_bytes(data[:-5])

    assert translation_records.read_pairs([path], _FORMAT, skips_damaged=True) == [
        ("a", "b"),
        ("d", "e"),
    ]


def test_a_file_without_records_is_an_error(write):
    with pytest.raises(errors.DataError, match=r"a\.tfrecord: no records, the file is empty"):
        translation_records.read_pairs([write("a.tfrecord", [])], _FORMAT)


class _Characters:
    """Cuts text into its bytes; stands in for a vocabulary."""

    def tokenize(self, text):
        return tf.concat([tf.cast(tf.io.decode_raw(text, tf.uint8), tf.int32), [1]], axis=0)


def _check(path, max_length):
    translation_records.check_files(
        [path],
        _FORMAT,
        translation_records.PairTokenization(_Characters(), max_length),
    )


def test_a_file_with_one_usable_pair_passes(write):
    _check(write("a.tfrecord", [{"en": b"too long", "de": b"x"}, {"en": b"a", "de": b"b"}]), 2)


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([], "no records, the file is empty"),
        ([{"en": b"long", "de": b"x"}, {"en": b"", "de": b""}], "none of the first 2 pairs can be"),
        ([{"en": b"x"}], "one of the first records cannot be read"),
    ],
)
def test_a_file_that_would_give_an_endless_stream_of_nothing_is_an_error(write, examples, message):
    path = write("a.tfrecord", examples)

    with pytest.raises(errors.DataError, match=message):
        _check(path, 3)


def test_how_many_pairs_at_the_start_are_left_out_is_said(write, caplog):
    examples = [{"en": b"a", "de": b"b"}] * 3 + [{"en": b"too long", "de": b"x"}]

    _check(write("a.tfrecord", examples), 2)

    assert "1 of the first 4 (25.0 %)" in caplog.text


@pytest.mark.parametrize(("length", "is_cut"), [(200, False), (201, True)])
def test_a_text_that_can_only_be_too_long_is_not_cut_into_tokens(length, is_cut):
    tokenize = translation_records.PairTokenization(_Characters(), 2).tokenize

    tokens = tokenize({"inputs": tf.constant("\u00fc" * length), "targets": tf.constant("x")})

    assert tokens["inputs"].shape[0] == (1 if is_cut else 401)
    assert tokens["targets"].shape[0] == 2
