"""Exact match and F1 of answers, as the official scripts of SQuAD 1.1 and 2.0 give them.

Source:
    Rajpurkar et al., 2016 (https://arxiv.org/abs/1606.05250) and 2018
    (https://arxiv.org/abs/1806.03822).
"""

import collections
import itertools
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)

Answers = Mapping[str, Sequence[str]]
"""Texts of the right answers to questions, by the questions' ids; none where there is no answer."""


def normalize(text: str) -> str:
    """Returns a text in lower case without punctuation, articles and needless spaces.

    Example:
        >>> normalize("The  U.S.A., an example")
        'usa example'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def match(expected: str, found: str) -> float:
    """Returns 1 for equal answers, else 0."""
    return float(normalize(expected) == normalize(found))


def overlap(expected: str, found: str) -> float:
    """Returns F1 of the words of two answers; of an empty one 1 if both are empty, else 0."""
    ours, theirs = normalize(expected).split(), normalize(found).split()
    if not ours or not theirs:
        return float(ours == theirs)
    common = (collections.Counter(ours) & collections.Counter(theirs)).total()
    return 2 * common / (len(ours) + len(theirs))


def score(answers: Answers, predictions: Mapping[str, str]) -> dict[str, float]:
    """Scores predictions as SQuAD 1.1.

    Returns:
        `exact_match` and `final_f1`, means over all questions, in `[0, 1]`; a question without a
        prediction counts 0.
    """
    return {
        name: _mean(_score_all(measure, answers, predictions).values(), len(answers))
        for name, measure in (("exact_match", match), ("final_f1", overlap))
    }


def score_with_no_answers(
    answers: Answers, predictions: Mapping[str, str], null_odds: Mapping[str, float]
) -> dict[str, float]:
    """Scores predictions as SQuAD 2.0.

    Args:
        answers: The right answers; none of a question means that it has none.
        predictions: Predicted answers, empty for none.
        null_odds: How much likelier it is that there is no answer, by question.

    Returns:
        `exact` and `f1` of all questions with a prediction, in percent, and their number `total`;
        the same of those that have an answer (`HasAns_exact`, ...) and that have none
        (`NoAns_...`). An answer whose null odds are above 1 counts as none. `final_exact` and
        `final_f1` are the best that a threshold of the odds gives, `final_exact_thresh` and
        `final_f1_thresh`. Where a question has an answer, `pr_exact_ap`, `pr_f1_ap` and
        `pr_oracle_ap` (all answers right) are average precisions as that threshold rises.
    """
    asked = {name: texts for name, texts in answers.items() if name in predictions}
    has_answer = {name: bool(texts) for name, texts in asked.items()}
    scores: dict[str, float] = {}
    best: dict[str, float] = {}
    curves: dict[str, Mapping[str, float]] = {"oracle": dict.fromkeys(asked, 1.0)}
    for short, measure in (("exact", match), ("f1", overlap)):
        raw = curves[short] = _score_all(measure, asked, predictions)
        kept = {
            name: float(not has_answer[name]) if null_odds[name] > 1.0 else value
            for name, value in raw.items()
        }
        for prefix, wanted in (("", None), ("HasAns_", True), ("NoAns_", False)):
            part = [kept[name] for name in kept if wanted in (None, has_answer[name])]
            if part or not prefix:
                scores[f"{prefix}{short}"] = 100 * _mean(part, len(part))
                scores[f"{prefix}total"] = len(part)
        best[f"final_{short}"], best[f"final_{short}_thresh"] = _find_threshold(
            raw, predictions, null_odds, has_answer
        )
    if any(has_answer.values()):
        best |= {
            f"pr_{name}_ap": _average_precision(curve, null_odds, has_answer)
            for name, curve in curves.items()
        }
    return {**scores, **best}


def _score_all(
    measure: Callable[[str, str], float], answers: Answers, predictions: Mapping[str, str]
) -> dict[str, float]:
    return {
        name: max(
            measure(text, predictions[name])
            for text in [text for text in texts if normalize(text)] or [""]
        )
        for name, texts in answers.items()
        if name in predictions
    }


def _mean(values: Iterable[float], count: int) -> float:
    return sum(values) / count if count else 0.0


def _find_threshold(
    raw: Mapping[str, float],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
    has_answer: Mapping[str, bool],
) -> tuple[float, float]:
    """Returns the best score, in percent, and the odds up to which answers then count."""
    total = best = float(sum(not value for value in has_answer.values()))
    threshold = 0.0
    for name in sorted(raw, key=lambda one: null_odds[one]):
        total += raw[name] if has_answer[name] else -bool(predictions[name])
        if total > best:
            best, threshold = total, null_odds[name]
    return 100 * _mean([best], len(raw)), threshold


def _average_precision(
    raw: Mapping[str, float], null_odds: Mapping[str, float], has_answer: Mapping[str, bool]
) -> float:
    """Returns the area under the precision over the recall of answers up to each odds, in percent.

    Questions of equal odds are answered together.
    """
    num_answers = sum(has_answer.values())
    total = area = 0.0
    answered = 0
    ordered = sorted(raw, key=null_odds.__getitem__)
    for _, group in itertools.groupby(ordered, null_odds.__getitem__):
        names = list(group)
        gained = sum(raw[name] for name in names if has_answer[name])
        total += gained
        answered += len(names)
        area += total / answered * gained / num_answers
    return 100 * area
