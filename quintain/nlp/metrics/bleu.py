"""BLEU as Tensor2Tensor computes it, and the corpus scores that papers quote.

`bleu_on_list` is the uncased, smoothed BLEU of Tensor2Tensor, kept so that curves can be compared
with older runs. It is not comparable with published numbers: for those use `corpus_scores`, which
asks the sacrebleu library and returns the signature that has to be quoted next to the number.
"""

import collections
import dataclasses
import functools
import math
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence

from quintain.files import file_io

MAX_ORDER = 4


@dataclasses.dataclass(frozen=True)
class CorpusScores:
    """Scores of one set of translations, with what is needed to reproduce them."""

    bleu: float
    """Case-sensitive sacreBLEU, in [0, 100]."""

    bleu_signature: str
    """How `bleu` was computed: number of references, tokenizer, smoothing, library version."""

    chrf: float
    """chrF (character n-gram F-score, order 6, beta 2), in [0, 100]."""

    chrf_signature: str
    """How `chrf` was computed."""


def corpus_scores(hypotheses: Sequence[str], references: Sequence[str]) -> CorpusScores:
    """Scores translations with the sacrebleu library, one for each reference, in the same order.

    Raises:
        ValueError: If the lengths differ or there is nothing to score. (sacrebleu itself would cut
            the longer list without a word.)

    Example:
        >>> scores = corpus_scores(["the cat sat on the mat"], ["the cat sat on the mat"])
        >>> round(scores.bleu, 2), round(scores.chrf, 2)
        (100.0, 100.0)
    """
    _check_same_length(references, hypotheses)
    # Imported here: sacrebleu takes a third of a second, and only evaluation needs it.
    from sacrebleu import metrics  # noqa: PLC0415

    bleu, chrf = metrics.BLEU(), metrics.CHRF()
    bleu_score = bleu.corpus_score(list(hypotheses), [list(references)])
    chrf_score = chrf.corpus_score(list(hypotheses), [list(references)])
    return CorpusScores(
        bleu=float(bleu_score.score),
        bleu_signature=str(bleu.get_signature()),
        chrf=float(chrf_score.score),
        chrf_signature=str(chrf.get_signature()),
    )


def bleu_on_list(
    ref_lines: Sequence[str], hyp_lines: Sequence[str], case_sensitive: bool = False
) -> float:
    """Computes Tensor2Tensor's BLEU, in [0, 100], of lines and their references in the same order.

    Raises:
        ValueError: If the lengths differ or there is nothing to score.

    Example:
        >>> bleu_on_list(["The cat sat on the mat."], ["the cat sat on the mat."])
        100.0
    """
    _check_same_length(ref_lines, hyp_lines)
    if not case_sensitive:
        ref_lines = [line.lower() for line in ref_lines]
        hyp_lines = [line.lower() for line in hyp_lines]
    return 100.0 * compute_bleu(
        [bleu_tokenize(line) for line in ref_lines], [bleu_tokenize(line) for line in hyp_lines]
    )


def bleu_wrapper(ref_filename: str, hyp_filename: str, case_sensitive: bool = False) -> float:
    """Computes Tensor2Tensor's BLEU, in [0, 100], of the lines of two files.

    Raises:
        ValueError: If the numbers of lines differ or there is nothing to score.
    """
    ref_lines, hyp_lines = (
        file_io.read_text(path).strip().splitlines() for path in (ref_filename, hyp_filename)
    )
    return bleu_on_list(ref_lines, hyp_lines, case_sensitive)


def compute_bleu(
    reference_corpus: Iterable[Sequence[str]],
    translation_corpus: Iterable[Sequence[str]],
    max_order: int = MAX_ORDER,
    use_bp: bool = True,
) -> float:
    """Computes BLEU, in [0, 1], of tokenised text, with one reference for each translation.

    An n-gram order with possible but no actual matches counts as `1 / (2^k * possible)`, where `k`
    is how many such orders came before and including it; an order longer than every translation is
    left out of the product, and the root is still the `max_order`-th. With `use_bp`, translations
    shorter than the references are punished.

    Raises:
        ValueError: If the corpora differ in length.

    Source:
        Papineni et al., 2002 (https://aclanthology.org/P02-1040); smoothing: Lin and Och, 2004
        (https://aclanthology.org/C04-1072), in the form Tensor2Tensor gave it.
    """
    matches, possible = [0] * max_order, [0] * max_order
    reference_length, translation_length = 0, 0
    for reference, translation in zip(reference_corpus, translation_corpus, strict=True):
        reference_length += len(reference)
        translation_length += len(translation)
        for order in range(1, max_order + 1):
            expected, actual = _count_ngrams(reference, order), _count_ngrams(translation, order)
            matches[order - 1] += (expected & actual).total()
            possible[order - 1] += actual.total()

    precisions = _smoothed_precisions(matches, possible)
    if not precisions:
        return 0.0
    geometric_mean = math.exp(sum(math.log(p) for p in precisions) / max_order)
    penalty = _brevity_penalty(translation_length, reference_length) if use_bp else 1.0
    return geometric_mean * penalty


def _count_ngrams(tokens: Sequence[str], order: int) -> collections.Counter[tuple[str, ...]]:
    return collections.Counter(zip(*(tokens[start:] for start in range(order)), strict=False))


def _smoothed_precisions(matches: Sequence[int], possible: Sequence[int]) -> list[float]:
    """Returns the precision of every order that has n-grams, all of them positive."""
    precisions, smoothing = [], 1.0
    for num_matches, num_possible in zip(matches, possible, strict=True):
        if num_possible == 0:
            continue
        if num_matches == 0:
            smoothing *= 2.0
            precisions.append(1.0 / (smoothing * num_possible))
        else:
            precisions.append(num_matches / num_possible)
    return precisions


def _brevity_penalty(translation_length: int, reference_length: int) -> float:
    if translation_length >= reference_length:
        return 1.0
    ratio = translation_length / reference_length
    # Below this the exponential underflows; the reference calls it 0.
    return math.exp(1.0 - 1.0 / ratio) if ratio >= 1e-6 else 0.0


def bleu_tokenize(string: str) -> list[str]:
    """Splits text into words, punctuation and symbols.

    Follows the `mteval-v14` script: a punctuation mark is split off unless it stands between
    digits (`1,000.5` is one token), a symbol always. A mark that follows a digit at the very end
    of the text stays with it (`in 1990.`), as in the script.

    Args:
        string: One line of text.

    Returns:
        Its tokens.

    Example:
        >>> bleu_tokenize("It's $1,000.5, really!")
        ['It', "'", 's', '$', '1,000.5', ',', 'really', '!']
    """
    unicode_regex = _unicode_regex()
    string = unicode_regex.nondigit_punct_re.sub(r"\1 \2 ", string)
    string = unicode_regex.punct_nondigit_re.sub(r" \1 \2", string)
    string = unicode_regex.symbol_re.sub(r" \1 ", string)
    return string.split()


class UnicodeRegex:
    """Patterns for all of Unicode's punctuation and symbols.

    Building them looks at every code point (0.2 s), so `bleu_tokenize` builds one on first use.

    Attributes:
        nondigit_punct_re: A character that is no digit, then a punctuation mark.
        punct_nondigit_re: A punctuation mark, then a character that is no digit.
        symbol_re: A symbol.
    """

    def __init__(self) -> None:
        punctuation = self.property_chars("P")
        self.nondigit_punct_re = re.compile(r"([^\d])([" + punctuation + r"])")
        self.punct_nondigit_re = re.compile(r"([" + punctuation + r"])([^\d])")
        self.symbol_re = re.compile("([" + self.property_chars("S") + "])")

    def property_chars(self, prefix: str) -> str:
        """Returns the characters of a Unicode category, as "P" or "Sm", escaped for `[...]`."""
        return "".join(
            re.escape(char)
            for char in map(chr, range(sys.maxunicode + 1))
            if unicodedata.category(char).startswith(prefix)
        )


def __getattr__(name: str) -> UnicodeRegex:
    """Finds `uregex`, the patterns that `bleu_tokenize` uses, which are built on first use."""
    if name == "uregex":
        return _unicode_regex()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _unicode_regex() -> UnicodeRegex:
    return UnicodeRegex()


def _check_same_length(references: Sequence[str], hypotheses: Sequence[str]) -> None:
    if len(references) != len(hypotheses) or not references:
        raise ValueError(
            "As many hypotheses as references, and at least one, are needed, but got "
            f"{len(hypotheses)} hypotheses and {len(references)} references."
        )
