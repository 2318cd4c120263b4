"""`quintain predict`: classifies arguments or lines of standard input."""

import dataclasses
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click

from quintain import errors
from quintain.cli import line_progress, logs, options, tensorflow_import, text_lines
from quintain.cli.lazy_group import FlagCommand


@click.command(cls=FlagCommand)
@click.argument("text", nargs=-1)
@click.option(
    "--model_dir", required=True, metavar="DIR", help="Directory of a trained run or of an export."
)
@click.option("--checkpoint", metavar="PATH", help="Checkpoint to use; the newest one by default.")
@click.option("--batch_size", type=click.IntRange(min=1), default=64, show_default=True)
@click.option(
    "--window",
    type=click.IntRange(min=1),
    default=2_048,
    show_default=True,
    help="Lines read ahead; similar ones among them are predicted together.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--skip_bad", is_flag=True, help="Print an empty line for a line that can't be read.")
@click.option("--alsologtostderr", is_flag=True, help="Show the log, TensorFlow's included.")
@options.traceback_option
def predict(
    text: tuple[str, ...],
    model_dir: str,
    checkpoint: str | None,
    batch_size: int,
    window: int,
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

    An empty line is a text like any other. A line that is not UTF-8, or of the wrong number of
    texts, ends the prediction after the lines before it; with --skip_bad its line of the output is
    empty, and it is reported.
    """
    logs.set_up(is_verbose=alsologtostderr)
    if not text and sys.stdin.isatty():
        raise errors.ConfigError(
            "nothing to predict; give texts as arguments, or lines on standard input."
        )
    tensorflow_import.import_quietly()
    from quintain.nlp import classifier

    model = classifier.Classifier.load(model_dir, checkpoint=checkpoint)
    lines = _Lines(model, window=window, batch_size=batch_size, is_skipping=skip_bad)
    source = text_lines.number(text) if text else text_lines.read_lines(sys.stdin.buffer)
    with line_progress.LineProgress(None if text else line_progress.measure(sys.stdin)) as progress:
        for line, prediction in lines.predict(source):
            click.echo(_describe(line, prediction) if as_json else _format(prediction))
            progress.show(line)
    lines.report()


@dataclasses.dataclass
class _Lines:
    """Predicts lines, a window at a time."""

    model: Any
    window: int
    batch_size: int
    is_skipping: bool
    num_skipped: int = 0
    num_read: int = 0

    def predict(self, lines: Iterable[text_lines.Line]) -> Iterator[tuple[text_lines.Line, Any]]:
        """Yields lines in order, each with its prediction, or None if it is bad.

        Raises:
            DataError: At a bad line, after all before it, unless bad lines are skipped.
        """
        checked = (_check_fields(line, self.model.num_fields) for line in lines)
        while chunk := self._read_window(checked):
            bad = chunk[-1] if chunk[-1].problem and not self.is_skipping else None
            usable = [line for line in chunk if not line.problem]
            rows = [_split(line, self.model.num_fields) for line in usable]
            found = iter(self.model.classify(rows, self.batch_size))
            for line in chunk[: -1 if bad else None]:
                self.num_read += 1
                if line.problem:
                    self.num_skipped += 1
                    click.echo(f"line {line.number}: {line.problem}; skipped.", err=True)
                yield line, None if line.problem else next(found)
            if bad:
                raise errors.DataError(
                    f"line {bad.number}: {bad.problem}. The {self.num_read:,} lines before it are "
                    "predicted. Mend the line, or give --skip_bad to leave such lines out."
                )

    def report(self) -> None:
        """Says how many lines were skipped."""
        if self.num_skipped:
            click.echo(
                f"{self.num_skipped:,} of {self.num_read:,} lines were skipped; their predictions "
                "are empty.",
                err=True,
            )

    def _read_window(self, lines: Iterator[text_lines.Line]) -> list[text_lines.Line]:
        """Returns the next lines, up to a bad one if that is the end."""
        chunk: list[text_lines.Line] = []
        for line in itertools.islice(lines, self.window):
            chunk.append(line)
            if line.problem and not self.is_skipping:
                break
        return chunk


def _check_fields(line: text_lines.Line, num_fields: int) -> text_lines.Line:
    """Returns a line, marked as bad if it has another number of texts."""
    found = len(_split(line, num_fields))
    if line.problem or found == num_fields:
        return line
    problem = f"has {found} fields, expected {num_fields} with tabs between"
    return text_lines.Line(line.number, line.text, problem)


def _split(line: text_lines.Line, num_fields: int) -> list[str]:
    return [line.text] if num_fields == 1 else line.text.split("\t")


def _format(prediction: Any) -> str:
    """Returns a prediction as a line; an empty one for a bad line."""
    if prediction is None:
        return ""
    if prediction.label is None:
        return f"{prediction.score:.6g}"
    return f"{prediction.label}\t{prediction.score:.4f}"


def _describe(line: text_lines.Line, prediction: Any) -> str:
    """Returns a prediction as JSON."""
    content: dict[str, Any] = {"line": line.number}
    if prediction is None:
        content["error"] = line.problem
    elif prediction.label is None:
        content["score"] = prediction.score
    else:
        content.update(dataclasses.asdict(prediction))
    return json.dumps(content, ensure_ascii=False)
