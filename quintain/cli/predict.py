"""`quintain predict`: classifies arguments or lines of standard input."""

import dataclasses
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from quintain import errors
from quintain.cli import logs, options, tensorflow_import, text_lines
from quintain.cli.lazy_group import FlagCommand


@click.command(cls=FlagCommand)
@click.argument("text", nargs=-1)
@click.option(
    "--model_dir", required=True, metavar="DIR", help="Directory of a trained run or of an export."
)
@click.option("--checkpoint", metavar="PATH", help="Checkpoint to use; the newest one by default.")
@click.option("--batch_size", type=click.IntRange(min=1), default=64, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--skip_bad", is_flag=True, help="Print an empty line for a line that can't be read.")
@click.option("--alsologtostderr", is_flag=True, help="Show the log, TensorFlow's included.")
@options.traceback_option
def predict(
    text: tuple[str, ...],
    model_dir: str,
    checkpoint: str | None,
    batch_size: int,
    as_json: bool,
    skip_bad: bool,
    alsologtostderr: bool,
) -> None:
    r"""Predict TEXTs, or each line of standard input, one line each.

    A line of the output is the class and its probability, or the number of a regression. Of a model
    of pairs of texts, a line has both, with a tab between.

    \b
    quintain predict --model_dir=runs/languages "Wo ist der Bahnhof?"
    quintain predict --model_dir=runs/languages --json < texts.txt
    """
    logs.set_up(is_verbose=alsologtostderr)
    if not text and sys.stdin.isatty():
        raise errors.ConfigError(
            "nothing to predict; give texts as arguments, or lines on standard input."
        )
    tensorflow_import.import_quietly()
    from quintain.nlp import classifier

    model = classifier.Classifier.load(model_dir, checkpoint=checkpoint)
    numbered = itertools.starmap(text_lines.Line, enumerate(text, start=1))
    lines = numbered if text else text_lines.read_lines(sys.stdin.buffer)
    writer = _Writer(model, is_json=as_json)
    for chunk in _cut(lines, batch_size):
        rows = [_to_row(line, model.num_fields) for line in chunk]
        bad = next((place for place, row in enumerate(rows) if isinstance(row, str)), None)
        if bad is not None and not skip_bad:
            writer.write(rows[:bad])
            raise errors.DataError(
                f"line {chunk[bad].number}: {rows[bad]}. Mend the line, or give --skip_bad to "
                "leave such lines out."
            )
        for line, row in zip(chunk, rows, strict=True):
            if isinstance(row, str):
                click.echo(f"line {line.number}: {row}; skipped.", err=True)
        writer.write(rows)


def _cut(lines: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _to_row(line: text_lines.Line, num_fields: int) -> list[str] | str:
    """Returns the texts of a line, or what is wrong with it."""
    if line.problem:
        return line.problem
    row = [line.text] if num_fields == 1 else line.text.split("\t")
    if len(row) != num_fields:
        return f"has {len(row)} fields, expected {num_fields} with tabs between"
    return row


class _Writer:
    """Writes predictions to standard output."""

    def __init__(self, model: Any, *, is_json: bool) -> None:
        """Stores how to."""
        self._model = model
        self._is_json = is_json

    def write(self, rows: Sequence[list[str] | str]) -> None:
        """Predicts rows of texts and writes a line for each; an empty one for a bad row."""
        found = iter(self._model.classify([row for row in rows if not isinstance(row, str)]))
        for row in rows:
            click.echo("" if isinstance(row, str) else self._format(next(found)))

    def _format(self, prediction: Any) -> str:
        if prediction.label is None:
            content = {"score": prediction.score}
            return json.dumps(content) if self._is_json else f"{prediction.score:.6g}"
        if self._is_json:
            return json.dumps(dataclasses.asdict(prediction), ensure_ascii=False)
        return f"{prediction.label}\t{prediction.score:.4f}"
