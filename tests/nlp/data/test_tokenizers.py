import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from quintain import errors
from quintain.nlp.data import tokenizers
from quintain.nlp.data.corpora import bundled_corpora

_PAIRS = bundled_corpora.get_pairs("numbers_and_dates/validation")
_LINES = [side for pair in _PAIRS for side in pair]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("vocabulary")


@pytest.fixture(scope="module")
def model_path(directory):
    path = str(directory / "vocabulary.model")
    tokenizers.train_sentencepiece(_LINES, path, vocab_size=400)
    return path


@pytest.fixture(scope="module")
def tokenizer(model_path):
    return tokenizers.SentencePieceTokenizer(model_path)


def _train_elsewhere(path, **options):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_LINES), model_prefix=str(path), vocab_size=300, minloglevel=2,
        **options,
    )  # fmt: skip
    return f"{path}.model"


def test_every_sentence_survives_the_round_trip(tokenizer):
    ids = tokenizer.tokenize(tf.constant(_LINES))

    assert [text.decode() for text in tokenizer.detokenize(ids).numpy()] == _LINES


def test_every_sentence_ends_with_eos_and_has_no_padding(tokenizer):
    ids = tokenizer.tokenize(tf.constant([*_LINES[:20], ""]))

    assert ids.dtype == tf.int32
    assert (tokenizer.eos_id, tokenizer.vocab_size) == (1, 400)
    for row in ids:
        assert row[-1] == 1
        assert not tf.reduce_any(row[:-1] == 1)
        assert not tf.reduce_any(row == 0)
    assert ids[-1].numpy().tolist() == [1]


def test_a_single_sentence_gives_a_plain_vector(tokenizer):
    ids = tokenizer.tokenize(tf.constant(_LINES[0]))

    assert ids.numpy().tolist() == tokenizer.tokenize(tf.constant(_LINES[:1]))[0].numpy().tolist()


def test_text_after_the_first_eos_and_padding_are_left_out(tokenizer):
    ids = tokenizer.tokenize(tf.constant(["two houses"]))[0].numpy().tolist()
    padded = tf.constant(
        [[*ids, *ids, 0, 0], [*ids[:-1], 0, 0, *ids[:-1], 0, 0, 0, 0][: 2 * len(ids) + 2]]
    )

    first, second = tokenizer.detokenize(padded).numpy()

    assert first == b"two houses"
    assert second == b"two houses two houses"
    rows = [*padded.numpy(), np.array([], np.int32)]
    assert tokenizer.detokenize_rows(rows) == [first, second, b""]


@pytest.mark.parametrize("split_digits", [False, True])
def test_digits_are_tokens_of_their_own_where_asked(directory, split_digits):
    path = str(directory / f"digits{split_digits}.model")
    tokenizers.train_sentencepiece(_LINES, path, vocab_size=400, split_digits=split_digits)
    processor = sentencepiece.SentencePieceProcessor(model_file=path)

    pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]

    longest = max(sum(map(str.isdigit, piece)) for piece in pieces)
    assert (longest == 1) == split_digits


@pytest.mark.slow
def test_the_tokenizer_works_inside_a_saved_model(tokenizer, tmp_path):
    module = tf.Module()
    module.tokenizer = tokenizer
    module.run = tf.function(
        lambda text: tokenizer.detokenize(tokenizer.tokenize(text)),
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, str(tmp_path / "export"))

    loaded = tf.saved_model.load(str(tmp_path / "export"))

    assert loaded.run(tf.constant(_LINES[:3])).numpy().tolist() == [
        line.encode() for line in _LINES[:3]
    ]


def test_training_again_gives_the_same_bytes(directory, model_path):
    again = directory / "again" / "vocabulary.model"
    tokenizers.train_sentencepiece(iter(_LINES), str(again), vocab_size=400)

    with open(model_path, "rb") as file:
        assert again.read_bytes() == file.read()
    assert [path.name for path in again.parent.iterdir()] == ["vocabulary.model"]


def test_a_vocabulary_larger_than_the_text_is_made_smaller_with_a_warning(directory, caplog):
    path = str(directory / "large.model")
    tokenizers.train_sentencepiece(["to be or not to be"] * 5, path, vocab_size=5_000)

    assert tokenizers.SentencePieceTokenizer(path).vocab_size < 50
    assert "vocab_size: got 5000, but the text gives only" in caplog.text


def test_a_vocabulary_too_small_for_the_characters_is_an_error(directory):
    with pytest.raises(errors.ConfigError, match=r"vocab_size: got 10, .* different characters"):
        tokenizers.train_sentencepiece(_LINES, str(directory / "small.model"), vocab_size=10)

    assert not (directory / "small.model").exists()


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_no_text_is_an_error(directory, lines):
    with pytest.raises(errors.DataError, match="lines: no text to train a vocabulary from"):
        tokenizers.train_sentencepiece(lines, str(directory / "none.model"), vocab_size=100)


def test_rare_characters_get_a_token_unless_there_are_too_many(directory):
    lines = [*_LINES, "naïve"]
    for vocab_size, is_known in ((400, True), (250, False)):
        path = str(directory / f"rare{vocab_size}.model")
        tokenizers.train_sentencepiece(lines, path, vocab_size=vocab_size)
        ids = tokenizers.SentencePieceTokenizer(path).tokenize(tf.constant("ï"))
        assert (tokenizers.UNK_ID not in ids.numpy()) == is_known


def test_characters_without_a_token_are_reported(directory, caplog):
    caplog.set_level("INFO")
    path = str(directory / "coverage.model")
    tokenizers.train_sentencepiece(
        [*_LINES, "naïve"], path, vocab_size=300, character_coverage=0.999
    )

    assert "rare characters have no token and become unknown, such as" in caplog.text
    assert "ï" in caplog.text


def test_a_vocabulary_from_elsewhere_may_number_eos_differently(directory):
    path = _train_elsewhere(directory / "default")

    tokenizer = tokenizers.SentencePieceTokenizer(path)

    assert tokenizer.eos_id == 2
    ids = tokenizer.tokenize(tf.constant(["two houses"]))
    assert ids[0, -1] == 2
    assert tokenizer.detokenize(ids).numpy().tolist() == [b"two houses"]


def test_a_vocabulary_without_eos_is_an_error(directory):
    path = _train_elsewhere(directory / "no_eos", eos_id=-1)

    with pytest.raises(errors.ConfigError, match=r"no_eos\.model: the vocabulary has no EOS token"):
        tokenizers.SentencePieceTokenizer(path)


def test_an_ordinary_token_at_the_id_of_padding_is_an_error(directory):
    path = _train_elsewhere(
        directory / "zero", bos_id=-1, pad_id=-1, eos_id=1, unk_id=2, user_defined_symbols=["two"]
    )

    with pytest.raises(errors.ConfigError, match="id 0 is the ordinary token 'two'"):
        tokenizers.SentencePieceTokenizer(path)


@pytest.mark.parametrize("data", [b"", b"this is a text file\n"])
def test_a_file_that_is_no_model_is_an_error(tmp_path, data):
    (tmp_path / "x.model").write_bytes(data)

    with pytest.raises(errors.DataError, match=r"x\.model: is not a SentencePiece model"):
        tokenizers.SentencePieceTokenizer(str(tmp_path / "x.model"))


def test_a_missing_model_is_an_error(tmp_path):
    with pytest.raises(errors.DataError, match=r"gone\.model: the SentencePiece model cannot be"):
        tokenizers.SentencePieceTokenizer(str(tmp_path / "gone.model"))


def test_a_tokenizer_survives_the_setting_of_a_seed(tmp_path):
    path = str(tmp_path / "vocabulary.model")
    tokenizers.train_sentencepiece(["to be or not to be"] * 10, path, vocab_size=16)
    tokenizer = tokenizers.SentencePieceTokenizer(path)
    expected = tokenizer.tokenize(tf.constant(["to be"])).to_list()

    tf.random.set_seed(1)

    assert tokenizer.tokenize(tf.constant(["to be"])).to_list() == expected


def test_long_lines_are_cut_instead_of_left_out(directory):
    long = " ".join(_LINES * (10_000 // len(" ".join(_LINES)) + 1))
    path = str(directory / "long.model")

    tokenizers.train_sentencepiece([long], path, vocab_size=400)

    tokenizer = tokenizers.SentencePieceTokenizer(path)
    ids = tokenizer.tokenize(tf.constant(_LINES))
    assert [text.decode() for text in tokenizer.detokenize(ids).numpy()] == _LINES
    tokenizers.train_sentencepiece(["ab" * 50_000], path, vocab_size=20)


def test_text_of_control_characters_is_an_error(directory):
    with pytest.raises(errors.DataError, match="only spaces and control characters"):
        tokenizers.train_sentencepiece(["\0", "\0\1"], str(directory / "no.model"), vocab_size=20)
