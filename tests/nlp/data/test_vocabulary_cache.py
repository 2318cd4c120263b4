import pytest

from quintain.nlp.data import tokenizers

_LINES = [f"the number {number} and {number % 7} others" for number in range(500)]


@pytest.fixture(name="directory")
def _directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache ü"))
    monkeypatch.setattr(tokenizers, "_CACHED_CHARACTERS", 1_000)
    return tmp_path / "cache ü" / "quintain" / "vocabularies"


def _train(path, lines=_LINES, **options):
    tokenizers.train_sentencepiece(lines, str(path), **{"vocab_size": 60, **options})
    return path.read_bytes()


def test_a_second_run_on_a_text_takes_the_vocabulary_of_the_first(directory, tmp_path, monkeypatch):
    first = _train(tmp_path / "first.model")
    monkeypatch.setattr(tokenizers, "_train", lambda *_: pytest.fail("it was trained again"))

    assert _train(tmp_path / "second.model") == first
    assert len(list(directory.iterdir())) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"lines": [*_LINES, "one more"]},
        {"vocab_size": 61},
        {"model_type": "bpe"},
        {"split_digits": True},
        {"control_symbols": ["[CLS]"]},
    ],
)
def test_another_text_or_option_gives_another_vocabulary(directory, tmp_path, change):
    first = _train(tmp_path / "first.model")

    assert _train(tmp_path / "second.model", **change) != first
    assert len(list(directory.iterdir())) == 2


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda _: b""])
def test_a_damaged_file_is_trained_anew(directory, tmp_path, damage):
    first = _train(tmp_path / "first.model")
    (path,) = directory.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))

    assert _train(tmp_path / "second.model") == first
    assert path.read_bytes() == whole


def test_trains_where_nothing_can_be_kept(tmp_path, directory):
    directory.parent.parent.mkdir()
    directory.parent.write_text("a file")

    assert _train(tmp_path / "first.model")
    assert not directory.exists()


def test_the_vocabulary_of_a_small_text_is_not_kept(directory, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizers, "_CACHED_CHARACTERS", 1_000_000)
    _train(tmp_path / "first.model")

    assert not directory.exists()
