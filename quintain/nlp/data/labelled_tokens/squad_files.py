"""Questions on paragraphs, in the JSON files of SQuAD 1.1 and 2.0."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quintain import errors
from quintain.input import line_files


@dataclasses.dataclass(frozen=True)
class Question:
    """A question on a paragraph."""

    qas_id: str
    """Its id in the file."""

    question: str
    """The question."""

    context: str
    """The paragraph."""

    answers: Sequence[tuple[int, str]] = ()
    """Right answers, and the characters of the paragraph where they begin."""


def is_json(path: str) -> bool:
    """Returns whether a file holds questions, by its name; others are records."""
    return path.removesuffix(".gz").endswith(".json")


def read(paths: Sequence[str], *, is_training: bool, has_null: bool) -> list[Question]:
    """Returns the questions of files.

    Args:
        paths: Files of JSON.
        is_training: Whether each needs an answer; of several, the first one counts.
        has_null: Whether there are questions without an answer, as in SQuAD 2.0.

    Raises:
        DataError: If a file is something else or has no questions, or an answer is not where its
            paragraph should have it; with the question's id.
    """
    questions: list[Question] = []
    for path in paths:
        try:
            found = json.loads("\n".join(line for _, line in line_files.read(path)))
        except (ValueError, RecursionError) as error:
            raise errors.DataError(
                f"{path}: is not JSON ({error}). Give a file in the format of SQuAD."
            ) from error
        before = len(questions)
        for where, context, entry in _find_entries(path, found):
            question = _build(f"{path}: {where}", context, entry)
            if is_training and not question.answers and not has_null:
                raise errors.DataError(
                    f"{path}: {where}: the question {question.qas_id!r} has no answer. Give it "
                    "one, or set version_2_with_negative."
                )
            questions.append(question)
        if len(questions) == before:
            raise errors.DataError(f"{path}: no questions, the file is empty. Check the path.")
    return questions


def _find_entries(path: str, found: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields place, paragraph and question of each entry."""
    for number, article in enumerate(_list(path, "", found, "data")):
        where = f"data[{number}]"
        for place, paragraph in enumerate(_list(path, where, article, "paragraphs")):
            inner = f"{where}.paragraphs[{place}]"
            for index, entry in enumerate(_list(path, inner, paragraph, "qas")):
                yield f"{inner}.qas[{index}]", paragraph.get("context"), entry


def _list(path: str, where: str, found: Any, name: str) -> list[Any]:
    value = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(value, list):
        raise errors.DataError(
            f"{path}: {where or 'the file'} has no list {name!r}, as files of SQuAD have. Give "
            'JSON of the form {"data": [{"paragraphs": [{"context": ..., "qas": [...]}]}]}.'
        )
    return value


def _build(where: str, context: Any, entry: Any) -> Question:
    entry = entry if isinstance(entry, Mapping) else {}
    fields = (context, entry.get("id"), entry.get("question"))
    given = [] if entry.get("is_impossible") else entry.get("answers", [])
    try:
        answers = [(answer["answer_start"], answer["text"]) for answer in given]
        is_fitting = all(isinstance(one, str) for one in fields)
        is_fitting = is_fitting and all(
            isinstance(start, int) and isinstance(text, str) and text for start, text in answers
        )
    except (TypeError, LookupError):
        is_fitting, answers = False, []
    if not is_fitting:
        raise errors.DataError(
            f"{where}: expected `context`, `id` and `question`, all strings, and `answers` with "
            "`text` and `answer_start`. Mend or remove the question."
        )
    context, qas_id, question = map(str, fields)
    for start, text in answers:
        if start < 0 or context[start : start + len(text)] != text:
            raise errors.DataError(
                f"{where}: the answer {text[:60]!r} to {qas_id!r} is not at character {start} of "
                "its paragraph. Mend `answer_start`, which counts from 0."
            )
    return Question(qas_id, question, context, answers)
