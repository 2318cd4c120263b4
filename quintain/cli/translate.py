"""`quintain translate`: translates arguments or lines of standard input."""

import dataclasses
import json
import math
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
    "--model_dir", required=True, metavar="DIR", help="Directory of a trained run or an export."
)
@click.option("--checkpoint", metavar="PATH", help="Checkpoint to use; the newest one by default.")
@click.option("--beam_size", type=click.IntRange(min=1), help="Candidates kept while searching.")
@click.option("--alpha", type=float, help="Strength of the length normalisation; 0 is none.")
@click.option("--min_length", type=click.IntRange(min=0), help="Fewest tokens of a translation.")
@click.option(
    "--no_repeat_ngram_size",
    type=click.IntRange(min=0),
    metavar="N",
    help="No translation holds the same N tokens in a row twice.",
)
@click.option("--prefix", default="", metavar="TEXT", help="What every translation starts with.")
@click.option("--n_best", type=click.IntRange(min=1), help="Translations of each line.")
@click.option("--with_scores", is_flag=True, help="Write the score and a tab before each.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object for each line.")
@click.option(
    "--sampling_temperature",
    type=float,
    metavar="T",
    help="Draw tokens instead of searching, logits divided by T; 0 takes the most probable.",
)
@click.option("--top_k", type=click.IntRange(min=0), help="Draw from the K most probable tokens.")
@click.option("--top_p", type=float, help="Draw from the most probable tokens that make up P.")
@click.option("--seed", type=int, help="Equal seeds draw equal translations.")
@click.option(
    "--precision", type=click.Choice(["float32", "bfloat16"]), help="Float type of the decoder."
)
@click.option("--skip_bad", is_flag=True, help="An empty line for each line that can't be read.")
@click.option(
    "--max_source_length",
    type=click.IntRange(min=1),
    help="Most tokens of a line; 1000, or the limit of an export, by default.",
)
@click.option("--batch_size", type=click.IntRange(min=1), default=64, show_default=True)
@click.option(
    "--window",
    type=click.IntRange(min=1),
    default=2_048,
    show_default=True,
    help="Lines read ahead; similar ones among them are translated together.",
)
@click.option("--alsologtostderr", is_flag=True, help="Show the log, TensorFlow's included.")
@options.traceback_option
def translate(
    text: tuple[str, ...],
    model_dir: str,
    checkpoint: str | None,
    alsologtostderr: bool,
    as_json: bool,
    with_scores: bool,
    skip_bad: bool,
    window: int,
    n_best: int | None,
    **settings: Any,
) -> None:
    r"""Translate TEXTs, or each line of standard input, one line each.

    \b
    quintain translate --model_dir=runs/local "the third of May"
    quintain translate --model_dir=runs/local < source.txt > translation.txt

    Empty lines stay empty. A line that is not UTF-8 or is too long ends the translation after the
    lines before it; with --skip_bad its translation is an empty line, and it is reported. With
    --n_best=N there are N lines for each, which start with its number and a tab.
    """
    logs.set_up(is_verbose=alsologtostderr)
    if not text and sys.stdin.isatty():
        raise errors.ConfigError(
            "nothing to translate; give sentences as arguments, as in "
            'quintain translate --model_dir=DIR "one two", or lines on standard input.'
        )
    tensorflow_import.import_quietly()
    from quintain.nlp import translator

    given = {name: value for name, value in settings.items() if value is not None}
    if n_best is not None:
        given["num_outputs"] = n_best
    if ("top_k" in given or "top_p" in given) and "sampling_temperature" not in given:
        given["sampling_temperature"] = 1.0
    model = translator.Translator.load(model_dir, checkpoint=checkpoint)
    given["max_source_length"] = model.choose_max_source_length(given.get("max_source_length"))
    lines = _Lines(model, window=window, is_skipping=skip_bad, settings=given)
    source = text_lines.number(text) if text else text_lines.read_lines(sys.stdin.buffer)
    writer = _Writer(as_json=as_json, with_scores=with_scores, has_several=n_best is not None)
    with line_progress.LineProgress(None if text else line_progress.measure(sys.stdin)) as progress:
        for line, translations in lines.translate(source):
            writer.write(line, translations)
            progress.show(line)
    lines.report()


@dataclasses.dataclass
class _Lines:
    """Translates lines, a window at a time."""

    model: Any
    window: int
    is_skipping: bool
    settings: dict[str, Any]
    num_skipped: int = 0
    num_read: int = 0

    def translate(
        self, lines: Iterable[text_lines.Line]
    ) -> Iterator[tuple[text_lines.Line, list[Any]]]:
        """Yields lines and their translations in order.

        Raises:
            DataError: At a bad line, after all before it, unless bad lines are skipped.
        """
        waiting: list[text_lines.Line] = []
        for line in lines:
            waiting.append(line)
            is_end = bool(line.problem) and not self.is_skipping
            if len(waiting) == self.window or is_end:
                yield from self._translate_window(waiting)
                waiting = []
        yield from self._translate_window(waiting)

    def report(self) -> None:
        """Says how many lines were skipped."""
        if self.num_skipped:
            click.echo(
                f"{self.num_skipped:,} of {self.num_read:,} lines were skipped; their translations "
                "are empty.",
                err=True,
            )

    def _translate_window(
        self, lines: list[text_lines.Line]
    ) -> Iterator[tuple[text_lines.Line, list[Any]]]:
        checked = self._check_lengths(lines)
        first_bad = next((place for place, line in enumerate(checked) if line.problem), None)
        usable = checked
        if first_bad is not None and not self.is_skipping:
            usable = checked[:first_bad]
        arguments = dict(self.settings)
        prefix = arguments.pop("prefix", "")
        found = self.model.translate_with_scores(
            [line.text for line in usable],
            prefixes=[prefix] * len(usable) if prefix else None,
            **arguments,
        )
        for line, translations in zip(usable, found, strict=True):
            self.num_read += 1
            if line.problem:
                self.num_skipped += 1
                click.echo(f"line {line.number}: {line.problem}; skipped.", err=True)
            yield line, translations
        if len(usable) < len(checked):
            bad = checked[len(usable)]
            raise errors.DataError(
                f"line {bad.number}: {bad.problem}. The {self.num_read:,} lines before it are "
                "translated. Mend the line, or give --skip_bad to leave such lines out."
            )

    def _check_lengths(self, lines: list[text_lines.Line]) -> list[text_lines.Line]:
        """Returns lines, those with too many tokens marked as bad."""
        limit = self.settings["max_source_length"]
        lengths = self.model.count_tokens([line.text for line in lines])
        return [
            line
            if length <= limit
            else text_lines.Line(
                line.number, "", f"has {length:,} tokens, expected at most {limit:,}"
            )
            for line, length in zip(lines, lengths, strict=True)
        ]


@dataclasses.dataclass(frozen=True)
class _Writer:
    """Writes translations to standard output."""

    as_json: bool
    with_scores: bool
    has_several: bool

    def write(self, line: text_lines.Line, translations: list[Any]) -> None:
        """Writes those of a line."""
        if self.as_json:
            click.echo(json.dumps(self._describe(line, translations), ensure_ascii=False))
            return
        for translation in translations if self.has_several else translations[:1]:
            columns = [str(line.number)] if self.has_several else []
            columns += [f"{translation.score:.4f}"] if self.with_scores else []
            # A translation is a line, whatever the vocabulary holds.
            click.echo("\t".join([*columns, " ".join(translation.text.splitlines())]))

    def _describe(self, line: text_lines.Line, translations: list[Any]) -> dict[str, Any]:
        if line.problem:
            return {"line": line.number, "error": line.problem, "translations": []}
        return {
            "line": line.number,
            "source": line.text,
            "translations": [
                # JSON has no infinity, the score where nothing was found.
                {"text": way.text, "score": way.score if math.isfinite(way.score) else None}
                for way in translations
            ],
        }
