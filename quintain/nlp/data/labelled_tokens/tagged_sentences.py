"""Sentences with a label for each word: files of columns or JSON Lines, and examples of them."""

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from quintain import errors
from quintain.input import line_files
from quintain.nlp.data.labelled_tokens import token_examples

IGNORED: Final = -1
"""Label of positions that are no first token of a word."""

OUTSIDE: Final = "O"
"""Label of words outside of entities."""

SUFFIXES: Final = (".conll", ".tsv", ".txt", ".jsonl")
"""Ends of the names of files of text, before a `.gz`."""

_DOCUMENT_START: Final = "-DOCSTART-"


@dataclasses.dataclass(frozen=True)
class TaggedSentence:
    """Words and their labels."""

    words: Sequence[str]
    """The words."""

    labels: Sequence[str]
    """A label for each."""

    where: str
    """File and line where it begins."""


def is_text(path: str) -> bool:
    """Returns whether a file holds sentences, by its name; others are records."""
    return path.removesuffix(".gz").endswith(SUFFIXES)


def read(paths: Sequence[str]) -> Iterator[TaggedSentence]:
    """Yields the sentences of files.

    A file that ends in `.jsonl` has a JSON object a line, with `words` and `labels`; any other one
    a word a line with its label in the last of several columns, and an empty line after each
    sentence. Columns are parted by tabs, or by spaces in lines without one. Sentences
    that begin with `-DOCSTART-` are left out.

    Raises:
        DataError: If a line is something else, or a file has no sentence; with file and line.
    """
    for path in paths:
        is_json = path.removesuffix(".gz").endswith(".jsonl")
        is_empty = True
        for sentence in _read_json(path) if is_json else _read_columns(path):
            is_empty = False
            yield sentence
        if is_empty:
            raise errors.DataError(f"{path}: no sentences, the file is empty. Check the path.")


def _read_columns(path: str) -> Iterator[TaggedSentence]:
    words: list[str] = []
    labels: list[str] = []
    start = 1
    for number, line in line_files.read(path):
        if line.strip():
            columns = [one.strip() for one in (line.split("\t") if "\t" in line else line.split())]
            if columns[0] == _DOCUMENT_START:
                continue
            if len(columns) < 2 or not columns[0] or not columns[-1]:
                raise errors.DataError(
                    f"{path}:{number}: got {line_files.shorten(line)!r}, expected a word and its "
                    "label, with a tab or spaces between. Add the label, or remove the line."
                )
            start = start if words else number
            words.append(columns[0])
            labels.append(columns[-1])
        elif words:
            yield TaggedSentence(words, labels, f"{path}:{start}")
            words, labels = [], []
    if words:
        yield TaggedSentence(words, labels, f"{path}:{start}")


def _read_json(path: str) -> Iterator[TaggedSentence]:
    for number, line in line_files.read(path):
        if not line.strip():
            continue
        words: Any = None
        labels: Any = None
        with contextlib.suppress(ValueError, TypeError, LookupError, RecursionError):
            found = json.loads(line)
            words, labels = found["words"], found["labels"]
        is_fitting = isinstance(words, list) and isinstance(labels, list) and bool(words)
        is_fitting = is_fitting and len(words) == len(labels)
        is_fitting = is_fitting and all(isinstance(one, str) for one in [*words, *labels])
        if not is_fitting:
            raise errors.DataError(
                f"{path}:{number}: got {line_files.shorten(line)!r}, expected an object with "
                '"words" and as many "labels", both lists of strings. Mend or remove the line.'
            )
        yield TaggedSentence(words, labels, f"{path}:{number}")


def find_labels(sentences: Iterable[TaggedSentence]) -> list[str]:
    """Returns all labels: `O` first, then by entity, `B-` before `I-`."""
    found = {label for sentence in sentences for label in sentence.labels}
    return sorted(found, key=lambda one: (one != OUTSIDE, one.partition("-")[2], one))


def to_ids(sentence: TaggedSentence, class_names: Sequence[str]) -> list[int]:
    """Returns the numbers of a sentence's labels.

    Raises:
        DataError: If one is no class, with file and line.
    """
    try:
        return [class_names.index(label) for label in sentence.labels]
    except ValueError:
        place = next(
            place for place, label in enumerate(sentence.labels) if label not in class_names
        )
        label, word = sentence.labels[place], sentence.words[place]
        raise errors.DataError(
            f"{sentence.where}: the sentence labels {word!r} as {label!r}, expected one of "
            f"{', '.join(class_names)}.{errors.suggest(label, class_names)} Mend the label, or add "
            "it to the class names."
        ) from None


def encode(
    sentences: Iterable[tuple[Sequence[str], Sequence[int]]],
    tokenize: token_examples.Tokenizer,
    special: token_examples.SpecialIds,
    seq_length: int,
) -> Iterator[token_examples.Example]:
    """Yields the examples of sentences: words, and the numbers of their labels.

    The first token of each word has its label, all other positions `IGNORED`. A sentence of too
    many tokens is cut between words. A word that alone has too many tokens, or none, becomes the
    unknown token.

    Returns:
        `input_word_ids`, `input_mask`, `input_type_ids`, `label_ids` `[S]`; and `sentence_id` and
        `sub_sentence_id` `[1]`, the numbers of the sentence and of its part.
    """
    sentence_id = 0
    most = seq_length - 2
    for chunk in token_examples.chunked(sentences):
        tokens = iter(tokenize([word for words, _ in chunk for word in words]))
        for words, labels in chunk:
            parts: list[tuple[list[int], list[int]]] = [([], [])]
            for _, label in zip(words, labels, strict=True):
                ids = next(tokens).ids
                ids = ids if 0 < len(ids) <= most else [special.unknown]
                if len(parts[-1][0]) + len(ids) > most:
                    parts.append(([], []))
                parts[-1][0].extend(ids)
                parts[-1][1].extend([label] + [IGNORED] * (len(ids) - 1))
            for number, (ids, marks) in enumerate(parts):
                whole = [special.cls, *ids, special.sep]
                label_ids = np.full(seq_length, IGNORED)
                label_ids[1 : len(marks) + 1] = marks
                yield {
                    **token_examples.pad(whole, seq_length, seq_length),
                    "label_ids": label_ids,
                    "sentence_id": np.array([sentence_id]),
                    "sub_sentence_id": np.array([number]),
                }
            sentence_id += 1
