import subprocess
import sys

import pytest
import tensorflow as tf
import tensorflow_text

from quintain.nlp.data import text_operations, tokenizers
from quintain.nlp.data.corpora import bundled_corpora

_PAIRS = bundled_corpora.get_pairs("numbers_and_dates/validation")
_LINES = [*(side for pair in _PAIRS[:40] for side in pair), "", "  two  spaces ", "日本 😀"]

_WITHOUT_THE_PACKAGE = """
import sys
from quintain.nlp.data import tokenizers
from quintain.nlp.tasks import masked_lm, translation
tokenizer = tokenizers.SentencePieceTokenizer(sys.argv[1])
ids = tokenizer.tokenize(["two houses"])
assert tokenizer.detokenize(ids).numpy().tolist() == [b"two houses"]
assert "tensorflow_text" not in sys.modules

import tensorflow_text
other = tensorflow_text.SentencepieceTokenizer(open(sys.argv[1], "rb").read(), add_eos=True)
assert other.tokenize(["two houses"]).to_list() == ids.to_list()
assert tokenizer.tokenize(["two houses"]).to_list() == ids.to_list()
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("vocabulary") / "vocabulary.model")
    tokenizers.train_sentencepiece(_LINES, path, vocab_size=200)
    return path


@pytest.mark.parametrize("add_eos", [False, True])
def test_pieces_are_those_of_tensorflow_text(path, add_eos):
    model = tokenizers.read_model(path)
    ours = text_operations.SentencePieces(model, add_eos=add_eos)
    theirs = tensorflow_text.SentencepieceTokenizer(model, add_eos=add_eos)
    ids = ours.tokenize(tf.constant(_LINES))

    assert ids.to_list() == theirs.tokenize(_LINES).to_list()
    assert ids.dtype == tf.int32
    assert ours.tokenize(tf.constant(_LINES[0])).numpy().tolist() == ids[0].numpy().tolist()
    assert ours.detokenize(ids).numpy().tolist() == theirs.detokenize(ids).numpy().tolist()


def test_other_operations_are_those_of_the_package():
    assert text_operations.case_fold_utf8 is tensorflow_text.case_fold_utf8
    with pytest.raises(AttributeError, match="nonsense"):
        _ = text_operations.nonsense


@pytest.mark.long("Exports are loaded by plain TensorFlow in every run")
@pytest.mark.slow
def test_cutting_text_into_pieces_imports_no_other_operations(path):
    program = [sys.executable, "-c", _WITHOUT_THE_PACKAGE, path]
    done = subprocess.run(program, capture_output=True, text=True, check=False)

    assert not done.returncode, done.stderr
