"""`quintain translate`: translates arguments or lines of standard input."""

import dataclasses
import json
import math
import sys
from typing import TYPE_CHECKING, Any

import click

from quintain import errors
from quintain.cli import line_windows, logs, options, tensorflow_import, text_lines
from quintain.cli.display import line_progress
from quintain.cli.lazy_group import FlagCommand
from quintain.cli.training import registered_models
from quintain.process import start_up

if TYPE_CHECKING:
    from quintain.serving import translator


@click.command(cls=FlagCommand)
@click.argument("text", nargs=-1)
@registered_models.model_options
@click.option("--beam-size", type=click.IntRange(min=1), help="Candidates kept while searching.")
@click.option("--alpha", type=float, help="Strength of the length normalisation; 0 is none.")
@click.option("--min-length", type=click.IntRange(min=0), help="Fewest tokens of a translation.")
@click.option(
    "--no-repeat-ngram-size",
    type=click.IntRange(min=0),
    metavar="N",
    help="No translation holds the same N tokens in a row twice.",
)
@click.option("--prefix", default="", metavar="TEXT", help="What every translation starts with.")
@click.option(
    "--prefix-column", is_flag=True, help="Lines may have a tab and a prefix of their own."
)
@click.option("--n-best", type=click.IntRange(min=1), help="Translations of each line.")
@click.option("--with-scores", is_flag=True, help="Write the score and a tab before each.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object for each line.")
@click.option(
    "--sampling-temperature",
    type=float,
    metavar="T",
    help="Draw tokens instead of searching, logits divided by T; 0 takes the most probable.",
)
@click.option("--top-k", type=click.IntRange(min=0), help="Draw from the K most probable tokens.")
@click.option("--top-p", type=float, help="Draw from the most probable tokens that make up P.")
@click.option("--seed", type=int, help="Equal seeds draw equal translations.")
@options.precision_option
@click.option("--skip-bad", is_flag=True, help="An empty line for each line that can't be read.")
@click.option(
    "--max-source-length",
    type=click.IntRange(min=1),
    help="Most tokens of a line; 1000, or the limit of an export, by default.",
)
@click.option("--batch-size", type=click.IntRange(min=1), default=64, show_default=True)
@click.option(
    "--window",
    type=click.IntRange(min=1),
    default=2_048,
    show_default=True,
    help="Lines read ahead; similar ones among them are translated together.",
)
@options.log_option
@registered_models.reads
def translate(
    text: tuple[str, ...],
    model_dir: str,
    checkpoint: str | None,
    alsologtostderr: bool,
    as_json: bool,
    with_scores: bool,
    skip_bad: bool,
    prefix_column: bool,
    window: int,
    n_best: int | None,
    **settings: Any,
) -> None:
    r"""Translate TEXTs, or each line of standard input, one line each.

    \b
    quintain translate --model-dir=runs/local "the third of May"
    quintain translate --model-dir=runs/local < source.txt > translation.txt

    Empty lines stay empty. A line that is not UTF-8 or is too long ends the translation after the
    lines before it; with --skip-bad its translation is an empty line, and it is reported. With
    --n-best=N there are N lines for each, which start with its number and a tab.
    """
    logs.set_up(is_verbose=alsologtostderr)
    if prefix_column and settings["prefix"]:
        raise errors.ConfigError(
            f"--prefix: got {settings['prefix']!r} beside --prefix-column; give one of the two."
        )
    if not text and sys.stdin.isatty():
        raise errors.ConfigError(
            "nothing to translate; give sentences as arguments, as in "
            'quintain translate --model-dir=DIR "one two", or lines on standard input.'
        )
    tensorflow_import.import_quietly()
    with start_up.without_collecting():
        from quintain.serving import translator

        model = translator.Translator.load(model_dir, checkpoint=checkpoint)
    given = {name: value for name, value in settings.items() if value is not None}
    if n_best is not None:
        given["num_outputs"] = n_best
    if ("top_k" in given or "top_p" in given) and "sampling_temperature" not in given:
        given["sampling_temperature"] = 1.0
    limit = model.choose_max_source_length(given.pop("max_source_length", None))
    sources = _Sources(model, limit, given.pop("prefix"), prefix_column)

    def translate_all(lines: line_windows.Lines) -> list[list[translator.Translation]]:
        sentences, prefixes = zip(*map(sources.split, lines), strict=True)
        return model.translate_with_scores(
            sentences,
            prefixes=prefixes if any(prefixes) else None,
            max_source_length=limit,
            **given,
        )

    lines = line_windows.LineWindows(
        answer=translate_all,
        check=sources.check,
        window=window,
        is_skipping=skip_bad,
        verb="translated",
        noun="translations",
        filler=[translator.Translation("", 0.0)],
    )
    source = text_lines.number(text) if text else text_lines.read_lines(sys.stdin.buffer)
    writer = _Writer(sources, as_json, with_scores, has_several=n_best is not None)
    with line_progress.LineProgress(None if text else line_progress.measure(sys.stdin)) as progress:
        for line, translations in lines.run(source):
            writer.write(line, translations)
            progress.show(line)
    lines.report()


@dataclasses.dataclass(frozen=True)
class _Sources:
    """Tells what lines hold, and which of them the model can't read."""

    model: "translator.Translator"
    limit: int
    prefix: str
    has_prefix_column: bool

    def split(self, line: text_lines.Line) -> tuple[str, str]:
        """Returns a sentence, and what its translation starts with."""
        if not self.has_prefix_column:
            return line.text, self.prefix
        sentence, _, prefix = line.text.partition("\t")
        return sentence, prefix

    def check(self, lines: line_windows.Lines) -> line_windows.Lines:
        """Returns lines, those with too many tokens or columns marked as bad."""
        sentences, prefixes = zip(*(self.split(line) for line in lines), strict=True)
        lengths = self.model.count_tokens(sentences)
        if self.has_prefix_column:
            starts = self.model.count_tokens(prefixes, is_target=True)
            lengths = [max(pair) for pair in zip(lengths, starts, strict=True)]
        return [self._mark(line, length) for line, length in zip(lines, lengths, strict=True)]

    def _mark(self, line: text_lines.Line, num_tokens: int) -> text_lines.Line:
        problem = line.problem
        if self.has_prefix_column and line.text.count("\t") > 1:
            problem = f"has {line.text.count(chr(9)) + 1} columns, expected a text and a prefix"
        elif num_tokens > self.limit:
            problem = f"has {num_tokens:,} tokens, expected at most {self.limit:,}"
        return text_lines.Line(line.number, "", problem) if problem else line


@dataclasses.dataclass(frozen=True)
class _Writer:
    """Writes translations to standard output."""

    sources: _Sources
    as_json: bool
    with_scores: bool
    has_several: bool

    def write(self, line: text_lines.Line, translations: "list[translator.Translation]") -> None:
        """Writes those of a line."""
        if self.as_json:
            click.echo(json.dumps(self._describe(line, translations), ensure_ascii=False))
            return
        for translation in translations if self.has_several else translations[:1]:
            columns = [str(line.number)] if self.has_several else []
            columns += [f"{translation.score:.4f}"] if self.with_scores else []
            # A translation is a line, whatever the vocabulary holds.
            click.echo("\t".join([*columns, " ".join(translation.text.splitlines())]))

    def _describe(
        self, line: text_lines.Line, translations: "list[translator.Translation]"
    ) -> dict[str, object]:
        if line.problem:
            return {"line": line.number, "error": line.problem, "translations": []}
        sentence, prefix = self.sources.split(line)
        return {
            "line": line.number,
            "source": sentence,
            **({"prefix": prefix} if self.sources.has_prefix_column else {}),
            "translations": [
                # JSON has no infinity, the score where nothing was found.
                {"text": way.text, "score": way.score if math.isfinite(way.score) else None}
                for way in translations
            ],
        }
