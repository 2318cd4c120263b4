import importlib
import pathlib
import sys

import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.data import tokenizers, train_sentencepiece

LINES = [f"the number {number} and the letter {chr(97 + number % 26)}" for number in range(300)]


def test_both_columns_of_a_table_are_read(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"one\teins\r\ntwo\tzwei\n")
    (tmp_path / "b.txt").write_bytes("\ufeffthree\tdrei\n".encode())

    lines = train_sentencepiece.read_lines(f"{tmp_path}/a.tsv,{tmp_path}/b.txt")

    assert list(lines) == ["one", "eins", "two", "zwei", "three\tdrei"]


def test_a_line_that_is_no_text_is_named(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\ntw\xff\n")

    with pytest.raises(errors.DataError, match=r"a\.txt:2: byte 0xff is not UTF-8"):
        list(train_sentencepiece.read_lines(f"{tmp_path}/a.txt"))


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"no gzip")

    with pytest.raises(errors.DataError, match=r"a\.gz: is not a complete gzip file"):
        list(train_sentencepiece.read_lines(f"{tmp_path}/a.gz"))


def test_texts_of_an_entry_are_read(tmp_path, request):
    sys.path.insert(0, str(request.path.parent / "pairs"))
    try:
        pairs = [("one", "eins"), ("two", "zwei"), ("three", "drei")]
        importlib.import_module("tiny_translate").prepare(str(tmp_path), pairs)
    finally:
        sys.path.pop(0)

    lines = train_sentencepiece.read_tfds_lines(
        "tiny_translate", "train", ["de", "en"], tfds_data_dir=str(tmp_path)
    )

    assert sorted(lines) == ["drei", "eins", "one", "three", "two", "zwei"]
    wrong = train_sentencepiece.read_tfds_lines(
        "tiny_translate", "train", ["fr"], tfds_data_dir=str(tmp_path)
    )
    with pytest.raises(errors.ConfigError, match="features: got 'fr', expected features of"):
        next(wrong)


def test_a_sample_is_drawn_evenly_and_always_the_same():
    lines = [*map(str, range(1_000)), " ", ""]

    sample = train_sentencepiece.sample(lines, 200)

    assert sample == train_sentencepiece.sample(lines, 200)
    assert len(set(sample)) == 200
    # Four standard deviations of the mean of 200 drawn from 0 to 999 without replacement.
    assert abs(sum(map(int, sample)) / 200 - 499.5) < 4 * 288.7 / 200**0.5
    assert train_sentencepiece.sample(lines, None) == lines[:1_000]


def test_a_vocabulary_has_the_special_tokens_of_the_models(tmp_path):
    model_path, vocab_path = train_sentencepiece.train(
        LINES, str(tmp_path / "v"), vocab_size=80, max_lines=200
    )

    tokenizer = tokenizers.SentencePieceTokenizer(model_path)
    assert (model_path, vocab_path) == (f"{tmp_path}/v.model", f"{tmp_path}/v.vocab")
    assert tokenizer.eos_id == 1
    assert len((tmp_path / "v.vocab").read_text().splitlines()) == tokenizer.vocab_size
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.model", "v.vocab"]


def test_no_text_is_an_error(tmp_path):
    with pytest.raises(errors.DataError, match="no text to train a vocabulary from"):
        train_sentencepiece.train(["", " "], str(tmp_path / "v"))


def test_a_vocabulary_is_trained_from_a_part_of_a_dataset(tmp_path):
    sentences = [f"word{number} and more words" for number in range(50)]
    dataset = tf.data.Dataset.from_tensor_slices({"en": sentences, "de": sentences})

    path = train_sentencepiece.dump_chars_to_textfile(dataset, ("en", "de"), max_char=1000)
    train_sentencepiece.train_sentencepiece(path, str(tmp_path / "m"), 30, 1.0, "bpe")

    lines = pathlib.Path(path).read_text().splitlines()
    assert lines[:2] == [sentences[0]] * 2
    assert 1000 < sum(len(line) + 1 for line in lines) < 1100
    assert (tmp_path / "m.model").exists()
