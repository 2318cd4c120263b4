"""`quintain translate`: translates arguments or lines of standard input."""

import sys
from typing import Any

import click

from quintain import errors
from quintain.cli import logs, options, tensorflow_import
from quintain.cli.lazy_group import FlagCommand


@click.command(cls=FlagCommand)
@click.argument("text", nargs=-1)
@click.option("--model_dir", required=True, metavar="DIR", help="Directory of a trained run.")
@click.option("--checkpoint", metavar="PATH", help="Checkpoint to use; the newest one by default.")
@click.option("--beam_size", type=click.IntRange(min=1), help="Candidates kept while searching.")
@click.option("--alpha", type=float, help="Strength of the length normalisation.")
@click.option("--batch_size", type=click.IntRange(min=1), default=64, show_default=True)
@click.option("--alsologtostderr", is_flag=True, help="Show the log, TensorFlow's included.")
@options.traceback_option
def translate(
    text: tuple[str, ...], model_dir: str, batch_size: int, alsologtostderr: bool, **search: Any
) -> None:
    r"""Translate TEXTs, or each line of standard input, one line each.

    \b
    quintain translate --model_dir=runs/local "the third of May"
    quintain translate --model_dir=runs/local < source.txt > translation.txt
    """
    logs.set_up(is_verbose=alsologtostderr)
    if not text and sys.stdin.isatty():
        raise errors.ConfigError(
            "nothing to translate; give sentences as arguments, as in "
            'quintain translate --model_dir=DIR "one two", or lines on standard input.'
        )
    tensorflow_import.import_quietly()
    import quintain.nlp.experiments  # noqa: F401 - registers the experiments of the package
    from quintain.nlp import translator

    model = translator.Translator.from_model_dir(model_dir, **search)
    for translation in model.translate_stream(text or _read_lines(), batch_size):
        click.echo(translation)


def _read_lines() -> Any:
    """Yields the lines of standard input, which must be UTF-8."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise errors.DataError(
                f"standard input, line {number}: not UTF-8 at byte {error.start}."
            ) from error
