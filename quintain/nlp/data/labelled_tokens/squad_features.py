"""Windows of paragraphs with a question before them, and answers from their logits.

Shapes:
    S  positions
    T  tokens of a paragraph
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from quintain.nlp.data.labelled_tokens import squad_files, token_examples

FIRST_ID: Final = 1_000_000_000
"""Id of the first window of a data set."""


_PlacedTokens = list[tuple[int, token_examples.Tokens]]


@dataclasses.dataclass(frozen=True)
class WindowSettings:
    """Sizes of windows."""

    seq_length: int
    """Positions of an example."""

    query_length: int
    """Most tokens of a question; longer ones are cut."""

    doc_stride: int
    """Tokens between the beginnings of two windows of a paragraph."""


@dataclasses.dataclass(frozen=True)
class Window:
    """A part of a paragraph that an example shows."""

    example: token_examples.Example
    """Its `input_word_ids`, `input_mask`, `input_type_ids` `[S]`; `unique_ids`, and
    `start_positions`, `end_positions` and `is_impossible` of the answer, `[1]`."""

    index: int
    """Place of its question among all."""

    first: int
    """Position of its first token of the paragraph."""

    starts: Sequence[int]
    """Characters of the paragraph where its tokens begin."""

    ends: Sequence[int]
    """Characters where they end."""

    is_central: Sequence[bool]
    """Whether no other window has more context around a token."""


def encode(
    questions: Sequence[squad_files.Question],
    tokenize: token_examples.Tokenizer,
    special: token_examples.SpecialIds,
    settings: WindowSettings,
) -> Iterator[Window]:
    """Yields the windows of questions: `[CLS] question [SEP] part of the paragraph [SEP]`.

    A window without the whole first answer has its positions at 0, at `[CLS]`.
    """
    unique_id = FIRST_ID
    for index, (question, query_tokens, context_tokens) in enumerate(
        _tokenize(questions, tokenize)
    ):
        query = [number for _, tokens in query_tokens for number in tokens.ids]
        query = query[: settings.query_length]
        ids = [number for _, tokens in context_tokens for number in tokens.ids]
        starts = [place + start for place, tokens in context_tokens for start in tokens.starts]
        ends = [place + end for place, tokens in context_tokens for end in tokens.ends]
        answer = _find_tokens(question, starts, ends)
        most = settings.seq_length - len(query) - 3
        parts = _cut(len(ids), most, settings.doc_stride)
        for number, part in enumerate(parts):
            whole = [special.cls, *query, special.sep, *ids[part.start : part.stop], special.sep]
            first = len(query) + 2
            has_answer = answer is not None and part.start <= answer[0] and answer[1] < part.stop
            shift = first - part.start
            positions = (answer[0] + shift, answer[1] + shift) if answer and has_answer else (0, 0)
            example = {
                "unique_ids": np.array([unique_id]),
                **token_examples.pad(whole, first, settings.seq_length),
                "start_positions": np.array(positions[:1]),
                "end_positions": np.array(positions[1:]),
                "is_impossible": np.array([int(not has_answer)]),
            }
            central = [_find_central(parts, token) == number for token in part]
            window = slice(part.start, part.stop)
            yield Window(example, index, first, starts[window], ends[window], central)
            unique_id += 1


def _tokenize(
    questions: Sequence[squad_files.Question], tokenize: token_examples.Tokenizer
) -> Iterator[tuple[squad_files.Question, _PlacedTokens, _PlacedTokens]]:
    """Yields questions with the tokens of the question and of the paragraph."""
    for chunk in token_examples.chunked(questions, 200):
        words = [
            token_examples.split_words(text)
            for question in chunk
            for text in (question.question, question.context)
        ]
        tokens = iter(tokenize([word for row in words for _, word in row]))
        rows = ([(place, next(tokens)) for place, _ in row] for row in words)
        for question in chunk:
            yield question, next(rows), next(rows)


def _find_tokens(
    question: squad_files.Question, starts: Sequence[int], ends: Sequence[int]
) -> tuple[int, int] | None:
    """Returns the first and the last token of the first answer."""
    if not question.answers:
        return None
    begin, text = question.answers[0]
    inside = [
        token
        for token, (start, end) in enumerate(zip(starts, ends, strict=True))
        if end > begin and start < begin + len(text) and end > start
    ]
    return (inside[0], inside[-1]) if inside else None


def _cut(num_tokens: int, most: int, stride: int) -> list[range]:
    parts = []
    start = 0
    while start < num_tokens:
        stop = min(start + most, num_tokens)
        parts.append(range(start, stop))
        if stop == num_tokens:
            break
        start += min(stop - start, stride)
    return parts


def _find_central(parts: Sequence[range], token: int) -> int:
    """Returns the window in which a token has most context, of equal ones the longest."""
    scores = [
        min(token - part.start, part.stop - 1 - token) + 0.01 * len(part) if token in part else -1
        for part in parts
    ]
    return max(range(len(parts)), key=scores.__getitem__)


class Answer(NamedTuple):
    """A possible answer."""

    text: str
    """Its text; empty for no answer."""

    start: int
    """Character of the paragraph where it begins."""

    end: int
    """Character where it ends."""

    start_logit: float
    """Logit of its beginning."""

    end_logit: float
    """Logit of its end."""

    @property
    def score(self) -> float:
        """The sum of both logits."""
        return self.start_logit + self.end_logit


class Ranking(NamedTuple):
    """Answers to a question."""

    best: str
    """The answer; empty for none."""

    answers: list[Answer]
    """The likeliest answers, the best first."""

    null_odds: float
    """Score of no answer less that of the best one; 0 where each question has one."""


@dataclasses.dataclass(frozen=True)
class RankingSettings:
    """Limits of answers, and the threshold of none."""

    n_best_size: int
    """Answers that are kept, and begins and ends that are looked at in each window."""

    max_answer_length: int
    """Most tokens of an answer."""

    has_null: bool
    """Whether a question may have no answer."""

    null_threshold: float
    """Null odds above which there is none."""


def rank(
    question: squad_files.Question,
    windows: Sequence[tuple[Window, np.ndarray, np.ndarray]],
    settings: RankingSettings,
) -> Ranking:
    """Ranks the answers to a question.

    Args:
        question: The question.
        windows: Its windows, with the logits `[S]` of begins and ends.
        settings: How to choose.
    """
    found: list[Answer] = []
    null = Answer("", 0, 0, 0.0, 0.0)
    least = np.inf
    for window, start_logits, end_logits in windows:
        score = float(start_logits[0]) + float(end_logits[0])
        if score < least:
            null, least = Answer("", 0, 0, float(start_logits[0]), float(end_logits[0])), score
        found += _find_answers(question, window, start_logits, end_logits, settings)
    if settings.has_null:
        found.append(null)
    by_text: dict[str, Answer] = {}
    for answer in sorted(found, key=lambda one: -one.score):
        if len(by_text) == settings.n_best_size:
            break
        by_text.setdefault(answer.text, answer)
    if settings.has_null:
        by_text.setdefault("", null)
    answers = list(by_text.values())
    best = next((answer for answer in answers if answer.text), None)
    if best is None:
        return Ranking("", answers, null.score if settings.has_null else 0.0)
    odds = null.score - best.score if settings.has_null else 0.0
    return Ranking("" if odds > settings.null_threshold else best.text, answers, odds)


def _find_answers(
    question: squad_files.Question,
    window: Window,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    settings: RankingSettings,
) -> Iterator[Answer]:
    """Yields the answers between the likeliest begins and ends of a window."""
    starts, ends = (
        np.argsort(-logits, kind="stable")[: settings.n_best_size] - window.first
        for logits in (start_logits, end_logits)
    )
    for start in starts.tolist():
        if not (0 <= start < len(window.starts) and window.is_central[start]):
            continue
        for end in ends.tolist():
            if start <= end < min(len(window.ends), start + settings.max_answer_length):
                begin, stop = window.starts[start], window.ends[end]
                yield Answer(
                    question.context[begin:stop],
                    begin,
                    stop,
                    float(start_logits[start + window.first]),
                    float(end_logits[end + window.first]),
                )
