import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.data import tokenizers
from quintain.nlp.data.masked import bert_vocabulary

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "be", "##st", "Be", "é"]
LINES = ["to be or not to be", "that is the question"] * 10


def write(path, tokens=TOKENS):
    path.write_text("".join(f"{token}\n" for token in tokens))
    return str(path)


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("v") / "v.model")
    tokenizers.train_sentencepiece(
        LINES, path, vocab_size=60, control_symbols=bert_vocabulary.SPECIAL_TOKENS
    )
    return path


def test_word_pieces_are_found(tmp_path):
    vocabulary = bert_vocabulary.load(write(tmp_path / "v.txt"), "WordPiece", lower_case=True)

    ids = vocabulary.tokenize(tf.constant(["BEST be [MASK]", "", "zz"]))

    assert ids.to_list() == [[5, 6, 5, 1, 1, 1], [], [1]]
    assert (vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id) == (2, 3, 4)
    assert vocabulary.is_special.tolist() == [True] * 5 + [False] * 4
    assert vocabulary.starts_word.tolist() == [True] * 6 + [False, True, True]


def test_case_counts_if_asked_for(tmp_path):
    vocabulary = bert_vocabulary.load(write(tmp_path / "v.txt"), "WordPiece", lower_case=False)

    assert vocabulary.tokenize(tf.constant(["Be be é"])).to_list() == [[7, 5, 8]]


def test_no_text_gives_a_special_token(model_path):
    vocabulary = bert_vocabulary.load(model_path, "SentencePiece", lower_case=False)

    ids = vocabulary.tokenize(tf.constant(["to [MASK] be [CLS] <pad> </s>", "\u4e2d"]))

    special = {0, 1, vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id}
    assert not special & set(ids.flat_values.numpy().tolist())
    assert vocabulary.unknown_id in ids[1].numpy()
    assert vocabulary.is_special[: vocabulary.mask_id + 1].all()
    assert vocabulary.is_special.sum() == 6


def test_pieces_know_where_words_start(model_path):
    vocabulary = bert_vocabulary.load(model_path, "SentencePiece", lower_case=True)

    ids = vocabulary.tokenize(tf.constant(["TO question"]))[0].numpy()

    assert vocabulary.starts_word[ids].sum() == 2
    assert ids[0] == vocabulary.tokenize(tf.constant(["to"]))[0].numpy()[0]


def test_a_vocabulary_survives_a_new_seed(model_path):
    vocabulary = bert_vocabulary.load(model_path, "SentencePiece", lower_case=True)
    before = vocabulary.tokenize(tf.constant(["to be"])).to_list()

    tf.random.set_seed(1)

    assert vocabulary.tokenize(tf.constant(["to be"])).to_list() == before


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        (["be", "[PAD]", "[UNK]"], errors.ConfigError, r"v.txt:1: got 'be', expected '\[PAD\]'"),
        (["[PAD]", "be"], errors.ConfigError, r"no token \[UNK\]"),
        (["[PAD]", "[UNK]", "a", "a"], errors.DataError, "v.txt:4: .* stands on line 3 already"),
        ([], errors.DataError, "'v.txt' is empty"),
    ],
)
def test_wrong_word_pieces_are_errors(tmp_path, tokens, error, message):
    path = write(tmp_path / "v.txt", tokens)

    with pytest.raises(error, match=message):
        bert_vocabulary.load(path, "WordPiece", lower_case=True)


def test_a_model_without_masks_says_how_to_get_them(tmp_path):
    path = str(tmp_path / "v.model")
    tokenizers.train_sentencepiece(LINES, path, vocab_size=40)
    vocabulary = bert_vocabulary.load(path, "SentencePiece", lower_case=True)

    with pytest.raises(errors.ConfigError, match=r"no token \[MASK\].*--control-symbols"):
        _ = vocabulary.mask_id


def test_a_model_taken_for_word_pieces_is_named(model_path):
    with pytest.raises(errors.QuintainError, match="set tokenization to 'SentencePiece'"):
        bert_vocabulary.load(model_path, "WordPiece", lower_case=True)
