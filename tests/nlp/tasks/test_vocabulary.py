import hashlib
import json
import logging
import os
import pathlib

import pytest
import sentencepiece

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
    def call(model_path="", model_dir="", max_pairs=1000, side="both"):
        return vocabulary.prepare(
            train_data,
            model_path=model_path,
            vocab_size=40,
            max_pairs=max_pairs,
            model_dir=str(model_dir),
            side=side,
        )

    return call


def test_a_vocabulary_is_trained_and_kept_in_the_directory(prepare, tmp_path):
    path = prepare(model_dir=tmp_path / "run")

    assert path == str(tmp_path / "run" / "vocabulary.model")
    names = sorted(file.name for file in (tmp_path / "run").iterdir())
    assert names == ["vocabulary.json", "vocabulary.model"]


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
    with pytest.raises(errors.ConfigError, match=r"sentencepiece_model_path.*--model-dir"):
        prepare()


def test_no_vocabulary_is_found_where_there_is_none(tmp_path):
    assert vocabulary.find(str(tmp_path)) is None
    assert vocabulary.find("") is None


def _get_pieces(path):
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    return {processor.id_to_piece(index) for index in range(processor.vocab_size())}


def test_each_side_has_the_pieces_of_its_own_language(prepare, tmp_path):
    source = prepare(model_dir=tmp_path / "run", side="source")
    target = prepare(model_dir=tmp_path / "run", side="target")

    assert os.path.basename(target) == "target_vocabulary.model"
    assert "Z" not in "".join(_get_pieces(source))
    assert "Z" in "".join(_get_pieces(target))
    record = json.loads((tmp_path / "run" / "vocabulary.json").read_text())
    assert record == {
        os.path.basename(path): hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
        for path in (source, target)
    }


@pytest.mark.parametrize("side", ["both", "target"])
def test_a_vocabulary_exchanged_later_is_an_error(prepare, tmp_path, side):
    path = prepare(model_dir=tmp_path / "run", side=side)
    other = tmp_path / "other.model"
    tokenizers.train_sentencepiece(["others", "altogether"] * 9, str(other), vocab_size=15)
    pathlib.Path(path).write_bytes(other.read_bytes())

    with pytest.raises(errors.DataError, match=r"is not the vocabulary that this run was trained"):
        prepare(model_dir=tmp_path / "run", side=side)
    with pytest.raises(errors.DataError, match=r"is not the vocabulary that this run was trained"):
        prepare(model_path=str(other), model_dir=tmp_path / "run", side=side)


def test_a_given_vocabulary_of_the_target_is_copied(prepare, tmp_path):
    given = prepare(model_dir=tmp_path / "first", side="target")

    path = prepare(model_path=given, model_dir=tmp_path / "second", side="target")

    assert path == str(tmp_path / "second" / "target_vocabulary.model")
    with pytest.raises(errors.ConfigError, match=r"task\.target_sentencepiece_model_path: got"):
        prepare(model_path="nowhere", model_dir=tmp_path / "second", side="target")


def test_a_record_that_is_damaged_is_an_error(prepare, tmp_path):
    prepare(model_dir=tmp_path / "run")
    (tmp_path / "run" / "vocabulary.json").write_text("{")

    with pytest.raises(errors.DamagedFileError, match=r"vocabulary\.json: can't be understood"):
        prepare(model_dir=tmp_path / "run")


def train(directory):
    """Leaves what a run has left that was trained."""
    (directory / "ckpt-4.index").touch()


@pytest.mark.parametrize("side", ["both", "target"])
def test_a_lost_vocabulary_is_trained_again_if_that_gives_the_same(prepare, tmp_path, side):
    run = tmp_path / "run"
    path = pathlib.Path(prepare(model_dir=run, side=side))
    train(run)
    before = path.read_bytes()
    path.unlink()
    assert prepare(model_dir=run, side=side) == str(path)
    assert path.read_bytes() == before

    path.unlink()
    (tmp_path / "train.tsv").write_text(
        "".join(_LINES).replace("number", "count").replace("Zahl", "Menge")
    )
    with pytest.raises(errors.DataError, match="is lost, and training it again gave another one"):
        prepare(model_dir=run, side=side)
    assert not path.exists()


def test_a_vocabulary_that_is_lost_with_its_hash_is_not_trained_again(prepare, tmp_path):
    run = tmp_path / "run"
    path = pathlib.Path(prepare(model_dir=run))
    path.unlink()
    (run / "vocabulary.json").unlink()
    prepare(model_dir=run)  # There are no weights yet.

    train(run)
    path.unlink()
    (run / "vocabulary.json").unlink()
    with pytest.raises(errors.DataError, match=r"is lost, and so is vocabulary\.json"):
        prepare(model_dir=run)


def test_a_lost_copy_is_made_again_of_the_same_vocabulary_only(prepare, tmp_path):
    given, run = tmp_path / "given.model", tmp_path / "run"
    pathlib.Path(prepare(model_dir=tmp_path / "other")).rename(given)
    path = pathlib.Path(prepare(str(given), model_dir=run))
    train(run)
    path.unlink()
    prepare(str(given), model_dir=run)
    assert path.read_bytes() == given.read_bytes()

    path.unlink()
    (tmp_path / "train.tsv").write_text(
        "".join(_LINES).replace("number", "count").replace("Zahl", "Menge")
    )
    another = prepare(model_dir=tmp_path / "another")
    with pytest.raises(errors.DataError, match=r"is lost, and task\.sentencepiece_model_path="):
        prepare(another, model_dir=run)


def test_starting_from_a_checkpoint_with_another_vocabulary_is_an_error(prepare, tmp_path):
    prepare(model_dir=tmp_path / "run")
    (tmp_path / "old").mkdir()
    other = str(tmp_path / "old" / "vocabulary.model")
    tokenizers.train_sentencepiece(["others", "altogether"] * 9, other, vocab_size=15)

    for checkpoint in (tmp_path / "old", tmp_path / "old" / "ckpt-7"):
        with pytest.raises(errors.ConfigError, match=r"sentencepiece_model_path='.*old/vocabulary"):
            vocabulary.check_same(str(tmp_path / "run"), str(checkpoint))
    vocabulary.check_same(str(tmp_path / "run"), str(tmp_path / "elsewhere"))
    vocabulary.check_same(str(tmp_path / "run"), str(tmp_path / "run" / "ckpt-1"))
