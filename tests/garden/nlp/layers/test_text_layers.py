import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.modeling import layers

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "d", "##ef", "abc", "xy"]


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n")
    return str(path)


@pytest.mark.parametrize("kind", ["BertTokenizer", "FastWordpieceBertTokenizer"])
def test_texts_become_pieces_of_words(kind, vocab_file):
    texts = tf.constant(["abc def", "ABC? d"])
    tokenizer = getattr(layers, kind)(vocab_file=vocab_file, lower_case=True)
    with_offsets = getattr(layers, kind)(
        vocab_file=vocab_file, lower_case=True, tokenize_with_offsets=True
    )

    ids, first, last = with_offsets(texts)

    assert tokenizer(texts).to_list() == ids.to_list() == [[[7], [5, 6]], [[7], [1], [5]]]
    assert tokenizer(texts).dtype == tf.int32
    assert (first.to_list()[0], last.to_list()[0]) == ([[0], [4, 5]], [[3], [5, 7]])
    assert int(tokenizer.vocab_size) == 9
    assert tokenizer.get_special_tokens_dict() == {
        "vocab_size": 9,
        "start_of_sequence_id": 2,
        "end_of_segment_id": 3,
        "padding_id": 0,
        "mask_id": 4,
    }


@pytest.mark.parametrize(
    ("truncator", "ids"),
    [("round_robin", [2, 7, 5, 3, 5, 5, 3]), ("waterfall", [2, 7, 5, 6, 5, 3, 3])],
)
def test_segments_are_packed(truncator, ids, vocab_file):
    tokenizer = layers.BertTokenizer(vocab_file=vocab_file, lower_case=True)
    special = tokenizer.get_special_tokens_dict()
    pack = layers.BertPackInputs(7, special_tokens_dict=special, truncator=truncator)

    segments = [tokenizer(tf.constant([text])) for text in ("abc def d", "d d d")]
    found = pack(segments)

    assert found["input_word_ids"].numpy().tolist() == [ids]
    assert layers.BertPackInputs.from_config(pack.get_config()).get_config() == pack.get_config()
    short = pack(segments[1])
    assert short["input_mask"].numpy().tolist() == [[1, 1, 1, 1, 1, 0, 0]]
    assert short["input_type_ids"].numpy().tolist() == [[0] * 7]


def test_sentencepiece_models_tokenize(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one two three\ntwo three four\n" * 20)
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(tmp_path / "model"),
        vocab_size=16,
        user_defined_symbols="[CLS],[SEP]",
        minloglevel=2,
    )
    path = str(tmp_path / "model.model")
    tokenizer = layers.SentencepieceTokenizer(
        lower_case=True, model_file_path=path, strip_diacritics=True
    )

    upper, plain = tokenizer(tf.constant(["TWO thrée", "two three"])).to_list()

    assert upper == plain
    special = tokenizer.get_special_tokens_dict()
    assert special["vocab_size"] == 16
    assert {"start_of_sequence_id", "end_of_segment_id"} < set(special)
    ids, first, last = layers.SentencepieceTokenizer(
        lower_case=False, model_file_path=path, tokenize_with_offsets=True
    )(tf.constant(["two"]))
    assert ids.shape[0] == 1
    assert np.all(last.values > first.values)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layers.BertPackInputs(7, start_of_sequence_id=1), "end_of_segment_id: got None"),
        (
            lambda: layers.BertPackInputs(7, padding_id=0, special_tokens_dict={}),
            "special_tokens_dict: got it beside ids",
        ),
        (lambda: layers.BertPackInputs(7, truncator="random"), "truncator: got 'random'"),
        (lambda: layers.SentencepieceTokenizer(lower_case=True), "expected one of the two"),
        (
            lambda: layers.SentencepieceTokenizer(
                lower_case=True,
                model_file_path="m",
                tokenize_with_offsets=True,
                strip_diacritics=True,
            ),
            "tokenize_with_offsets: got True with strip_diacritics",
        ),
    ],
)
def test_options_that_exclude_each_other_are_an_error(make, message):
    with pytest.raises(errors.ConfigError, match=message):
        make()
