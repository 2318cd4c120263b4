"""Local files and directories only; the hub needs a network."""

import json
import sys

import pytest

from quintain import errors
from quintain.nlp.data import tokenizers, wmt_dataloader
from quintain.nlp.data.pairs import hub_pairs

_PAIRS = [("one", "eins"), ("two", "zwei"), ("three \u2028 x", "drei"), ("", "leer")]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library, if it is installed; it keeps its copies in a directory of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_DATASETS_OFFLINE", "1")
        yield pytest.importorskip("datasets")


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [{"translation": {"en": source, "de": target}} for source, target in _PAIRS]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def _read(name, *, src_lang="en", tgt_lang="de", **where):
    return hub_pairs.read_pairs(str(name), **where, src_lang=src_lang, tgt_lang=tgt_lang)


def test_a_file_with_nested_languages_is_read_in_order(library, lines):
    assert _read(lines) == _PAIRS
    params = wmt_dataloader.WMTDataConfig(
        hf_name=lines, src_lang="en", tgt_lang="de", is_training=True
    )
    assert wmt_dataloader.read_pairs(params) == _PAIRS[:3]
    assert _read(lines, src_lang="de", tgt_lang="en")[0] == ("eins", "one")
    assert _read(lines, split="train[1:3]") == _PAIRS[1:3]


def test_columns_of_their_own_are_read_as_well(library, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text('en,de\none,eins\n"two, too",zwei\n')

    assert _read(path) == [("one", "eins"), ("two, too", "zwei")]


def test_a_directory_that_the_library_saved_is_read(library, tmp_path):
    columns = {"en": ["one", "two"], "de": ["eins", "zwei"]}
    single = library.Dataset.from_dict(columns)
    single.save_to_disk(str(tmp_path / "single"))
    library.DatasetDict({"train": single, "test": single.select([1])}).save_to_disk(
        str(tmp_path / "several")
    )

    assert _read(tmp_path / "single") == [("one", "eins"), ("two", "zwei")]
    assert _read(tmp_path / "several", split="test") == [("two", "zwei")]
    with pytest.raises(errors.ConfigError, match=r"hf_split: got 'tset'.*test, train.*'test'"):
        _read(tmp_path / "several", split="tset")
    with pytest.raises(errors.ConfigError, match=r"hf_split: got '', expected one of test, train"):
        _read(tmp_path / "several")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"src_lang": "eng"}, r"src_lang: got 'eng', expected a language of .*: en, de\."),
        ({"tgt_lang": "fr"}, r"tgt_lang: got 'fr'"),
    ],
)
def test_a_language_that_is_not_there_is_an_error(library, lines, fields, message):
    with pytest.raises(errors.ConfigError, match=message):
        _read(lines, **fields)


def test_a_row_without_text_is_named(library, tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"en": "one", "de": "eins"}\n{"en": "two", "de": null}\n')

    with pytest.raises(errors.DataError, match=r"row 1 of .* has 'two' and None"):
        _read(path)


def test_what_is_not_there_is_an_error(library, tmp_path):
    with pytest.raises(errors.DataError, match=r"hf_name: '.*nothing' can't be loaded"):
        _read(tmp_path / "nothing")


@pytest.mark.slow
def test_training_batches_come_from_it(library, lines, tmp_path):
    vocabulary = str(tmp_path / "v.model")
    tokenizers.train_sentencepiece(
        [side for pair in _PAIRS for side in pair] * 5, vocabulary, vocab_size=30
    )
    params = wmt_dataloader.WMTDataConfig(
        hf_name=lines,
        src_lang="en",
        tgt_lang="de",
        is_training=True,
        global_batch_size=64,
        max_seq_length=16,
        sentencepiece_model_path=vocabulary,
    )

    batch = next(iter(wmt_dataloader.WMTDataLoader(params).load()))

    texts = tokenizers.SentencePieceTokenizer(vocabulary).detokenize(batch["targets"]).numpy()
    assert {text.decode() for text in texts} <= {target for _, target in _PAIRS[:3]}


def test_without_the_package_the_error_says_how_to_get_it(monkeypatch, lines):
    monkeypatch.setitem(sys.modules, "datasets", None)

    with pytest.raises(errors.ConfigError, match=r"pip install \"quintain\[datasets\]\""):
        _read(lines)
