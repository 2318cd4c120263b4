import subprocess
import sys

import pytest

from quintain.nlp.metrics import bleu


def test_identical_text_scores_100():
    lines = ["the cat sat on the mat today", "a second line of text"]

    assert bleu.bleu_on_list(lines, lines) == pytest.approx(100.0)


def test_one_wrong_word_gives_the_reference_value():
    score = bleu.bleu_on_list(["the cat sat on the mat today"], ["the cat sat on a mat today"])

    assert score == pytest.approx(48.8923, abs=1e-4)


def test_a_translation_half_as_long_is_punished_for_brevity():
    score = bleu.bleu_on_list(["a b c d e f g h"], ["a b c d"])

    assert score == pytest.approx(36.7879, abs=1e-4)


def test_case_counts_only_when_asked():
    assert bleu.bleu_on_list(["A b c d"], ["a b c d"]) == pytest.approx(100.0)
    assert bleu.bleu_on_list(["A b c d"], ["a b c d"], case_sensitive=True) == pytest.approx(
        59.4604, abs=1e-4
    )


def test_an_empty_translation_scores_zero():
    assert bleu.bleu_on_list(["a b c d"], [""]) == 0.0


def test_orders_without_matches_are_smoothed():
    score = bleu.compute_bleu([["a", "b", "c", "d", "e"]], [["v", "w", "x", "y", "z"]])

    assert score == pytest.approx(0.05341, abs=1e-5)


def test_brevity_penalty_can_be_switched_off():
    reference, translation = [list("abcdefgh")], [list("abcd")]

    assert bleu.compute_bleu(reference, translation, use_bp=False) == pytest.approx(1.0)


def test_a_repeated_word_matches_only_as_often_as_in_the_reference():
    score = bleu.compute_bleu([["the", "cat"]], [["the", "the"]], max_order=1)

    assert score == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        ("1,000.5 items", ["1,000.5", "items"]),
        ("a+b=c", ["a", "+", "b", "=", "c"]),
        ("«déjà vu»", ["«", "déjà", "vu", "»"]),
        ("in 1990.", ["in", "1990."]),
        ("5€", ["5", "€"]),
    ],
)
def test_tokenizer_splits_punctuation_but_not_inside_numbers(text, tokens):
    assert bleu.bleu_tokenize(text) == tokens


@pytest.mark.slow
def test_property_chars_select_a_category():
    chars = bleu.UnicodeRegex().property_chars("Nd")

    assert "7" in chars
    assert "a" not in chars


def test_different_lengths_are_an_error_and_not_cut():
    with pytest.raises(ValueError, match="2 hypotheses and 1 references"):
        bleu.bleu_on_list(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="2 hypotheses and 1 references"):
        bleu.corpus_scores(["a", "b"], ["a"])


def test_nothing_to_score_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        bleu.corpus_scores([], [])


def test_corpus_scores_are_those_of_sacrebleu_with_its_signature():
    scores = bleu.corpus_scores(["the cat sat on a mat today"], ["The cat sat on the mat today"])

    assert 0 < scores.bleu < 48.9
    assert 0 < scores.chrf < 100
    assert "tok:13a" in scores.bleu_signature
    assert "nc:6" in scores.chrf_signature


@pytest.mark.slow
def test_importing_the_module_loads_neither_sacrebleu_nor_the_unicode_tables():
    code = (
        "import sys\n"
        "from quintain.nlp.metrics import bleu\n"
        "assert 'sacrebleu' not in sys.modules\n"
        "assert bleu._unicode_regex.cache_info().currsize == 0\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_files_are_scored_line_by_line(tmp_path):
    paths = tmp_path / "expected.txt", tmp_path / "found.txt"
    for path in paths:
        path.write_text("the cat sat on the mat\nIt is there\n")

    assert bleu.bleu_wrapper(*map(str, paths)) == pytest.approx(100.0)
    assert bleu.uregex is bleu.uregex
