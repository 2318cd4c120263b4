"""Report of a translation model's evaluation.

`translations/step-N.tsv` below the run's directory holds every sentence that was translated at step
N: its source, its reference and the translation, in the order of the data. `step-N.json` beside it
holds the scores with their signatures. A few of the pairs are shown in the terminal, the same in
every evaluation.
"""

import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.files import file_io, file_paths, whole_files
from quintain.nlp.data import tokenizers
from quintain.nlp.metrics import bleu

DIRECTORY: Final = "translations"
HEADER: Final = ("source", "reference", "hypothesis")
NUM_SHOWN: Final = 3
"""Translations that an evaluation shows."""

_SHOWN_CHARACTERS: Final = 300
_ESCAPES: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ESCAPED: Final = str.maketrans(_ESCAPES)
_MAX_VARIANTS: Final = 1_000
_JOINERS: Final = "\u200c\u200d"

# The command line shows what is logged here without being asked for the log.
_sample_logger = logging.getLogger("quintain.samples")


@dataclasses.dataclass(frozen=True)
class Scores:
    """Scores of one evaluation."""

    values: dict[str, float]
    """`sacrebleu_score` (case-sensitive), `bleu_score` (uncased, as Tensor2Tensor), `chrf_score`,
    all in [0, 100], and `exact_match`, the share of translations equal to their reference."""

    signatures: dict[str, str]
    """How sacrebleu computed the scores, by their names."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One translated sentence."""

    source: str
    """The sentence."""

    reference: str
    """What a person made of it."""

    hypothesis: str
    """What the model made of it."""


def detokenize(
    tokenizer: tokenizers.SentencePieceTokenizer, rows: Sequence[np.ndarray]
) -> list[str]:
    """Returns the text of each row of ids, up to its first EOS."""
    ids = tf.RaggedTensor.from_row_lengths(np.concatenate(rows), [len(row) for row in rows])
    texts = tokenizer.detokenize(ids).numpy()
    # Pieces of single bytes need not add up to characters.
    return [text.decode("utf-8", errors="replace") for text in texts]


def collect(
    tokenizer: tokenizers.SentencePieceTokenizer,
    pairs: Sequence[tuple[str, str]],
    outputs: Mapping[int, np.ndarray],
) -> list[Row]:
    """Returns what became of the pairs that were translated, in the order of the data.

    `outputs` are ids of the translations `[L]` by the numbers of their pairs.
    """
    unique_ids = sorted(outputs)
    hypotheses = detokenize(tokenizer, [outputs[unique_id] for unique_id in unique_ids])
    return [
        Row(*pairs[unique_id], hypothesis)
        for unique_id, hypothesis in zip(unique_ids, hypotheses, strict=True)
    ]


def score(rows: Sequence[Row]) -> Scores:
    """Scores translations, of which there must be one at least."""
    hypotheses, references = [row.hypothesis for row in rows], [row.reference for row in rows]
    scores = bleu.corpus_scores(hypotheses, references)
    return Scores(
        values={
            "sacrebleu_score": scores.bleu,
            "bleu_score": bleu.bleu_on_list(references, hypotheses),
            "chrf_score": scores.chrf,
            "exact_match": sum(map(str.__eq__, hypotheses, references)) / len(rows),
        },
        signatures={
            "sacrebleu_signature": scores.bleu_signature,
            "chrf_signature": scores.chrf_signature,
        },
    )


def publish(
    step: int | None,
    rows: Sequence[Row],
    scores: Scores,
    *,
    directory: str | None,
    is_shown: bool,
) -> None:
    """Writes the translations of an evaluation, if its step is known, and shows some."""
    path = None
    if directory is not None and step is not None:
        path = write(directory, step, rows, scores)
    if is_shown:
        show(step, rows, scores, path)


def write(directory: str, step: int, rows: Sequence[Row], scores: Scores) -> str:
    """Writes the translations and the scores of one evaluation; returns the path of the TSV file.

    A file appears only when it is complete. The same data evaluated again at the same step replaces
    the former files; other data (as `--mode=eval` may give) go to `step-N.2.tsv` and so on.
    """
    path = _choose_path(directory, step, rows)
    lines = ["\t".join(HEADER)]
    lines += ["\t".join(map(escape, dataclasses.astuple(row))) for row in rows]
    whole_files.write(path, "".join(f"{line}\n" for line in lines), has_rivals=True)
    found = {"step": step, "num_pairs": len(rows), **scores.values, **scores.signatures}
    text = json.dumps(found, indent=2)
    whole_files.write(f"{path.removesuffix('.tsv')}.json", f"{text}\n", has_rivals=True)
    return path


def _choose_path(directory: str, step: int, rows: Sequence[Row]) -> str:
    """Returns the first path that is free or holds translations of the same data."""
    for number in range(1, _MAX_VARIANTS):
        suffix = "" if number == 1 else f".{number}"
        path = file_paths.join(directory, f"step-{step}{suffix}.tsv")
        if not file_io.exists(path) or _is_same_data(path, rows):
            return path
    raise errors.DataError(
        f"{directory}: holds translations of step {step} of {_MAX_VARIANTS - 1} different corpora. "
        "Delete those that are not needed."
    )


def _is_same_data(path: str, rows: Sequence[Row]) -> bool:
    try:
        found = read(path)
    except errors.DataError:
        return True  # Not a file of ours any more, and in the way.
    return [(row.source, row.reference) for row in found] == [
        (row.source, row.reference) for row in rows
    ]


def read(path: str) -> list[Row]:
    """Reads the translations that `write` has written.

    Raises:
        DataError: If there is no such file, or it is another one.
    """
    try:
        lines = file_io.read_text(path).split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.DataError(f"{path}: cannot be read ({error}).") from error
    rows = [[unescape(part) for part in line.split("\t")] for line in lines[:-1]]
    if not rows or tuple(rows[0]) != HEADER:
        raise errors.DataError(f"{path}: does not begin with the line {' '.join(HEADER)}.")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(HEADER):
            raise errors.DataError(f"{path}:{number}: has {len(row)} columns, expected 3.")
    return [Row(*row) for row in rows[1:]]


def escape(text: str) -> str:
    r"""Returns text for a cell: tab, line feed, carriage return and backslash as `\t \n \r \\`."""
    return text.translate(_ESCAPED)


def unescape(text: str) -> str:
    """Returns the text that `escape` made a cell of."""
    parts = text.split("\\\\")
    for character in "\t\n\r":
        parts = [part.replace(_ESCAPES[character], character) for part in parts]
    return "\\".join(parts)


def choose_shown(num_rows: int) -> list[int]:
    """Returns the rows to show, spread over the data and the same for the same number of rows."""
    return sorted({i * num_rows // NUM_SHOWN for i in range(NUM_SHOWN)}) if num_rows else []


def show(step: int | None, rows: Sequence[Row], scores: Scores, path: str | None) -> None:
    """Shows a few translations in the terminal, and where all of them are."""
    title = "Translations" if step is None else f"Translations at step {step}"
    lines = [f"{title} ({len(rows)} in {path}):" if path else f"{title}:"]
    for index in choose_shown(len(rows)):
        row = rows[index]
        lines.append(f"  source      {_shorten(row.source)}")
        lines.append(f"  reference   {_shorten(row.reference)}")
        lines.append(f"  hypothesis  {_shorten(row.hypothesis)}")
        lines.append("")
    lines.append(f"  BLEU is {scores.signatures['sacrebleu_signature']}")
    _sample_logger.info("%s", "\n".join(lines))


def _shorten(text: str) -> str:
    """Returns text on one line, without characters that would act on a terminal."""
    shown = "".join(
        character if character.isprintable() or character in _JOINERS else "\ufffd"
        for character in escape(text)
    )
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}..."
