import gzip
import importlib
import sys

import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.data import pretrain_text_dataloader
from quintain.nlp.data import sentence_prediction_dataloader as loaders

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "very"]
ROWS = [("good", "1", "0"), ("very bad", "0", "1"), ("very good", "1", "2")]


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(TOKENS) + "\n")
    return str(path)


@pytest.fixture
def make_params(vocab_file, tmp_path):
    def make(**fields):
        defaults = {
            "input_path": str(tmp_path / "data.tsv"),
            "is_training": False,
            "global_batch_size": 2,
            "seq_length": 5,
            "text_fields": ["text"],
            "vocab_file": vocab_file,
        }
        return loaders.SentencePredictionTextDataConfig(**(defaults | fields))

    return make


def write_tsv(path, rows, header=("text", "label", "example_id")):
    lines = ["\t".join(row) for row in ([header] if header else []) + list(rows)]
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def write_records(path, examples):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for example in examples:
            features = {}
            for name, value in example.items():
                values = value if isinstance(value, list) else [value]
                if isinstance(values[0], bytes):
                    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
                elif isinstance(values[0], float):
                    feature = tf.train.Feature(float_list=tf.train.FloatList(value=values))
                else:
                    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
                features[name] = feature
            proto = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(proto.SerializeToString())
    return str(path)


def read(params):
    return list(loaders.SentencePredictionTextDataLoader(params).load().unbatch())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["data.tsv", "data.tsv.gz"])
def test_rows_become_examples(make_params, tmp_path, name):
    path = write_tsv(tmp_path / name, ROWS)

    examples = read(make_params(input_path=path, include_example_id=True))

    assert [example["input_word_ids"].numpy().tolist() for example in examples] == [
        [2, 5, 3, 0, 0],
        [2, 7, 6, 3, 0],
        [2, 7, 5, 3, 0],
    ]
    assert [int(example["label"]) for example in examples] == [1, 0, 1]
    assert [int(example["example_id"]) for example in examples] == [0, 1, 2]
    assert examples[0]["label"].dtype == tf.int32


@pytest.mark.slow
def test_files_without_a_header_blank_lines_and_windows_ends_are_read(make_params, tmp_path):
    (tmp_path / "data.tsv").write_bytes(b"\xef\xbb\xbf1\tgood\r\n\r\n0\tbad\r\n")

    examples = read(make_params(column_names=["label", "text"]))

    assert [int(example["label"]) for example in examples] == [1, 0]
    assert examples[1]["input_word_ids"].numpy().tolist() == [2, 6, 3, 0, 0]


@pytest.mark.slow
def test_labels_may_be_numbers_or_names(make_params, tmp_path):
    path = write_tsv(tmp_path / "a.tsv", [("good", "0.25")], ("text", "label"))
    (number,) = read(make_params(input_path=path, label_type="float"))
    path = write_tsv(tmp_path / "b.tsv", [("good", "yes"), ("bad", "no")], ("text", "label"))
    names = read(make_params(input_path=path, label_names=["no", "yes"]))

    assert float(number["label"]) == 0.25
    assert [int(example["label"]) for example in names] == [1, 0]


@pytest.mark.slow
def test_records_of_text_are_read(make_params, tmp_path):
    path = write_records(
        tmp_path / "a.tfrecord",
        [{"a": b"good", "b": b"bad", "label": 1}, {"a": b"very good", "b": b"", "label": 0}],
    )

    first, second = read(make_params(input_path=path, text_fields=["a", "b"]))

    assert first["input_word_ids"].numpy().tolist() == [2, 5, 3, 6, 3]
    assert first["input_type_ids"].numpy().tolist() == [0, 0, 0, 1, 1]
    assert second["input_word_ids"].numpy().tolist() == [2, 7, 5, 3, 3]
    assert int(second["label"]) == 0


def make_id_params(path, **fields):
    return loaders.SentencePredictionDataConfig(
        input_path=path, seq_length=3, global_batch_size=2, is_training=False, **fields
    )


def make_ids(**others):
    return {"input_ids": [2, 4, 3], "input_mask": [1, 1, 1], "segment_ids": [0, 0, 1], **others}


def test_records_of_ids_are_read(tmp_path):
    path = write_records(tmp_path / "a.tfrecord", [make_ids(label_ids=1, example_id=7)])
    params = make_id_params(
        path, include_example_id=True, label_name=["label_ids", "next_sentence_labels"]
    )

    (batch,) = loaders.SentencePredictionDataLoader(params).load()

    assert {name: value.numpy().tolist() for name, value in batch.items()} == {
        "input_word_ids": [[2, 4, 3]],
        "input_mask": [[1, 1, 1]],
        "input_type_ids": [[0, 0, 1]],
        "label_ids": [1],
        "next_sentence_labels": [1],
        "example_id": [7],
    }
    assert batch["input_word_ids"].dtype == tf.int32


def test_records_may_have_numbers_as_labels(tmp_path):
    path = write_records(tmp_path / "a.tfrecord", [make_ids(score=0.5)])
    params = make_id_params(path, label_type="float", label_field="score")

    (batch,) = loaders.SentencePredictionDataLoader(params).load()

    assert batch["score"].numpy().tolist() == [0.5]


@pytest.mark.parametrize(
    ("rows", "fields", "message"),
    [
        ([*ROWS, ("bad", "2", "3")], {}, r"data.tsv:5: label: got 2, expected a class from 0 to 1"),
        ([("bad", "-1", "3")], {}, r"data.tsv:2: label: got -1"),
        ([("bad", "one", "3")], {}, r"data.tsv:2: label: got 'one', expected a whole number"),
        ([("bad", "nan", "3")], {"label_type": "float"}, r"data.tsv:2: label: got 'nan', expected"),
        (
            [("bad", "nejative", "3")],
            {"label_names": ["positive", "negative"]},
            r"data.tsv:2: label: got 'nejative', expected one of .* Did you mean 'negative'",
        ),
        ([("bad", "1")], {}, r"data.tsv:2: got 2 columns, expected the 3 of text, label"),
        ([], {}, r"data.tsv: no examples"),
    ],
)
def test_wrong_rows_are_named_by_file_and_line(make_params, tmp_path, rows, fields, message):
    write_tsv(tmp_path / "data.tsv", rows)
    loader = loaders.SentencePredictionTextDataLoader(make_params(**fields))

    with pytest.raises(errors.DataError, match=message):
        loader.check_labels(2)


def test_a_line_that_is_not_utf8_is_named(make_params, tmp_path):
    (tmp_path / "data.tsv").write_bytes(b"text\tlabel\ngood\t1\nb\xff\t0\n")
    loader = loaders.SentencePredictionTextDataLoader(make_params())

    with pytest.raises(errors.DataError, match=r"data.tsv:3: byte 0xff is not UTF-8"):
        loader.check_labels(2)


def test_wrong_records_are_named_by_file_and_record(tmp_path):
    good = [make_ids(label_ids=1)] * 1_500
    path = write_records(tmp_path / "a.tfrecord", [*good, make_ids(label_ids=2)])
    other = write_records(tmp_path / "b.tfrecord", [*good[:5], make_ids(label=1)])
    empty = write_records(tmp_path / "c.tfrecord", [])
    (tmp_path / "d.tfrecord").write_bytes(b"no records at all")

    def check(path, **fields):
        loaders.SentencePredictionDataLoader(make_id_params(path, **fields)).check_labels(2)

    check(write_records(tmp_path / "good.tfrecord", good))
    with pytest.raises(errors.DataError, match=r"a.tfrecord: record 1501: label_ids: got 2"):
        check(path)
    with pytest.raises(errors.DataError, match=r"b.tfrecord: record 6 does not have.*label_ids"):
        check(other)
    with pytest.raises(errors.DataError, match=r"c.tfrecord: no examples"):
        check(empty)
    with pytest.raises(errors.DataError, match=r"d.tfrecord: (record 1|cannot)"):
        check(str(tmp_path / "d.tfrecord"))


def test_records_of_another_length_are_named(tmp_path):
    path = write_records(tmp_path / "a.tfrecord", [make_ids(label_ids=1)])
    params = make_id_params(path).replace(seq_length=4)

    with pytest.raises(errors.DataError, match=r"record 1 does not have.*input_ids.*\[4\]"):
        loaders.SentencePredictionDataLoader(params).check_labels(2)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"text_fields": None}, errors.ConfigError, "text_fields: got None"),
        ({"text_fields": ["txt"]}, errors.DataError, "no column 'txt'.*Did you mean 'text'"),
        ({"column_names": ["a", "label"]}, errors.ConfigError, "column_names: got .*'text'"),
        ({"vocab_file": ""}, errors.ConfigError, "vocab_file: got ''"),
        ({"vocab_file": "/nowhere/v"}, errors.DataError, "vocab_file: no file '/nowhere/v'"),
        ({"tokenization": "SentencePiece"}, errors.DataError, "is not a SentencePiece model"),
    ],
)
def test_wrong_settings_are_errors(make_params, tmp_path, fields, error, message):
    write_tsv(tmp_path / "data.tsv", ROWS)

    with pytest.raises(error, match=message):
        read(make_params(**fields))


def test_a_label_name_is_a_pair():
    params = make_id_params("x", label_name=["one"])

    with pytest.raises(errors.ConfigError, match="label_name: got"):
        loaders.SentencePredictionDataLoader(params)


@pytest.mark.slow
def test_training_goes_on_without_end(make_params, tmp_path):
    write_tsv(tmp_path / "data.tsv", ROWS)
    params = make_params(is_training=True)

    batches = list(loaders.SentencePredictionTextDataLoader(params).load().take(20))

    assert {batch["label"].shape[0] for batch in batches} == {2}


@pytest.fixture(scope="module")
def tfds_dir(tmp_path_factory, request):
    directory = str(tmp_path_factory.mktemp("tfds"))
    sys.path.insert(0, str(request.path.parents[2] / "input"))
    try:
        importlib.import_module("tiny_tfds").prepare(directory)
    finally:
        sys.path.pop(0)
    return directory


@pytest.mark.slow
def test_entries_are_read(make_params, tfds_dir):
    entry = {"tfds_name": "tiny_pairs", "tfds_split": "test", "tfds_data_dir": tfds_dir}

    examples = read(make_params(input_path="", label_field="number", **entry))
    texts = pretrain_text_dataloader.BertPretrainTextDataLoader(
        pretrain_text_dataloader.BertPretrainTextDataConfig(
            is_training=False,
            global_batch_size=1,
            seq_length=8,
            max_predictions_per_seq=2,
            use_next_sentence_label=False,
            vocab_file_path=make_params().vocab_file,
            **entry,
        )
    )

    assert sorted(int(example["number"]) for example in examples) == list(range(100, 105))
    assert {name for example in examples for name in example} == {
        "input_word_ids", "input_mask", "input_type_ids", "number",
    }  # fmt: skip
    assert next(iter(texts.load()))["input_word_ids"].shape == (1, 8)
    with pytest.raises(errors.ConfigError, match=r"got 'numbr'.*Did you mean 'number'"):
        read(make_params(input_path="", label_field="numbr", **entry))


@pytest.mark.slow
def test_lines_of_odd_spaces_are_blank(make_params, tmp_path):
    blank = ["", " ", "\u2028", "\x85", "\r", "\x1c", "\u3000"]
    lines = [*blank, "text\tlabel", *blank, "good\t1", *blank, "bad\u2028good\t0"]
    (tmp_path / "data.tsv").write_bytes("\n".join(lines).encode())
    params = make_params()

    loaders.SentencePredictionTextDataLoader(params).check_labels(2)

    assert [int(example["label"]) for example in read(params)] == [1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("is_tsv", [True, False])
def test_damaged_rows_are_left_out_where_the_config_says_so(make_params, tmp_path, is_tsv):
    if is_tsv:
        path = write_tsv(
            tmp_path / "data.tsv", [ROWS[0], ("no label",), (*ROWS[1], "more"), ROWS[2]]
        )
    else:
        whole = [{"text": b"good", "label": 1}, {"text": b"bad", "label": 1}]
        path = write_records(tmp_path / "a.tfrecord", [{"text": b"no label"}, *whole, whole[0]])
        (tmp_path / "a.tfrecord").write_bytes((tmp_path / "a.tfrecord").read_bytes()[:-5])
    params = make_params(input_path=path, corrupt_records="skip")

    loaders.SentencePredictionTextDataLoader(params).check_labels(num_classes=2)

    assert [int(example["label"]) for example in read(params)] == [1, 1]
