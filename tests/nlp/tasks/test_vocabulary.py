import logging

import pytest

from quintain import errors
from quintain.nlp.data import tokenizers, wmt_dataloader
from quintain.nlp.tasks import vocabulary

_LINES = [f"number {i}\tZahl {i}\n" for i in range(200)]


@pytest.fixture
def train_data(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("".join(_LINES), encoding="utf-8")
    return wmt_dataloader.WMTDataConfig(input_path=str(path), is_training=True)


@pytest.fixture
def prepare(train_data):
    def call(model_path="", model_dir="", max_pairs=1000):
        return vocabulary.prepare(
            train_data,
            model_path=model_path,
            vocab_size=40,
            max_pairs=max_pairs,
            model_dir=str(model_dir),
        )

    return call


def test_a_vocabulary_is_trained_and_kept_in_the_directory(prepare, tmp_path):
    path = prepare(model_dir=tmp_path / "run")

    assert path == str(tmp_path / "run" / "vocabulary.model")
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["vocabulary.model"]


def test_a_kept_vocabulary_is_used_again_without_the_data(prepare, tmp_path):
    path = prepare(model_dir=tmp_path / "run")
    (tmp_path / "train.tsv").unlink()

    assert prepare(model_dir=tmp_path / "run") == path


def test_a_large_corpus_is_sampled_evenly(prepare, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        prepare(model_dir=tmp_path / "run", max_pairs=100)

    assert "from 100 pairs" in caplog.text


def test_training_twice_gives_the_same_file(prepare, tmp_path):
    first = prepare(model_dir=tmp_path / "first")
    second = prepare(model_dir=tmp_path / "second")

    with open(first, "rb") as a, open(second, "rb") as b:
        assert a.read() == b.read()


def test_a_given_vocabulary_is_copied_so_that_the_directory_is_complete(prepare, tmp_path):
    given = prepare(model_dir=tmp_path / "first")

    path = prepare(model_path=given, model_dir=tmp_path / "second")

    assert path == str(tmp_path / "second" / "vocabulary.model")


def test_a_given_vocabulary_is_used_in_place_without_a_directory(prepare, tmp_path):
    given = prepare(model_dir=tmp_path / "first")

    assert prepare(model_path=given) == given


def test_a_run_does_not_change_its_vocabulary(prepare, tmp_path):
    prepare(model_dir=tmp_path / "run")
    other = str(tmp_path / "other.model")
    tokenizers.train_sentencepiece(["quite another text"] * 20, other, vocab_size=16)

    with pytest.raises(errors.ConfigError, match="another vocabulary"):
        prepare(model_path=other, model_dir=tmp_path / "run")


def test_a_missing_vocabulary_file_is_an_error(prepare, tmp_path):
    with pytest.raises(errors.ConfigError, match=r"missing\.model.*no such file"):
        prepare(model_path=str(tmp_path / "missing.model"), model_dir=tmp_path / "run")

    assert not (tmp_path / "run").exists()


def test_neither_vocabulary_nor_directory_is_an_error(prepare):
    with pytest.raises(errors.ConfigError, match=r"sentencepiece_model_path.*--model_dir"):
        prepare()


def test_no_vocabulary_is_found_where_there_is_none(tmp_path):
    assert vocabulary.find(str(tmp_path)) is None
    assert vocabulary.find("") is None
