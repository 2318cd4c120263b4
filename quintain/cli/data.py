"""`quintain data`: prepares data for training."""

from typing import Any

import click

from quintain import errors
from quintain.cli import logs, options, tensorflow_import
from quintain.cli.lazy_group import FlagCommand


@click.group()
def data() -> None:
    """Prepare data for training."""
    logs.set_up(is_verbose=False)


@data.command(cls=FlagCommand)
@click.option("--input", "input_path", metavar="FILES", help="Text or TSV files and patterns.")
@click.option("--tfds_name", metavar="NAME", help="TensorFlow Datasets entry, instead of --input.")
@click.option("--tfds_split", default="train", show_default=True, metavar="SPLIT")
@click.option("--tfds_data_dir", default="", metavar="DIR", help="Where the entry is prepared.")
@click.option("--features", metavar="NAMES", help="Its features with text, such as de,en.")
@click.option("--output", required=True, metavar="FILE", help="Model to write, such as v.model.")
@click.option("--vocab_size", type=click.IntRange(min=4), default=32_000, show_default=True)
@click.option(
    "--model_type", type=click.Choice(["bpe", "unigram"]), default="bpe", show_default=True
)
@click.option(
    "--character_coverage",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9995,
    show_default=True,
    help="Share of the text whose characters get a token.",
)
@click.option("--max_lines", type=click.IntRange(min=1), help="Lines to train from, drawn from all")
@click.option(
    "--control_symbols",
    default="",
    metavar="TOKENS",
    help="Tokens that no text gives; BERT needs '[CLS],[SEP],[MASK]'.",
)
@options.traceback_option
def sentencepiece(
    input_path: str | None,
    tfds_name: str | None,
    tfds_split: str,
    tfds_data_dir: str,
    features: str | None,
    output: str,
    control_symbols: str,
    **settings: Any,
) -> None:
    r"""Train a SentencePiece vocabulary: OUTPUT.model and OUTPUT.vocab.

    \b
    quintain data sentencepiece --input='corpus.*.txt.gz' --output=vocab.model
    quintain data sentencepiece --tfds_name=wmt14_translate/de-en --features=de,en \
        --output=vocab.model --max_lines=1000000
    """
    if bool(input_path) == bool(tfds_name):
        raise errors.ConfigError(
            f"--input: got {input_path!r}, and --tfds_name {tfds_name!r}; expected one of the two."
        )
    if tfds_name and not features:
        raise errors.ConfigError(
            "--features: missing; name the features of --tfds_name that hold text, such as de,en."
        )
    tensorflow_import.import_quietly()
    from quintain.nlp.data import train_sentencepiece

    if input_path:
        lines = train_sentencepiece.read_lines(input_path)
    else:
        names = [name.strip() for name in (features or "").split(",") if name.strip()]
        lines = train_sentencepiece.read_tfds_lines(
            tfds_name or "", tfds_split, names, tfds_data_dir=tfds_data_dir
        )
    symbols = [name.strip() for name in control_symbols.split(",") if name.strip()]
    paths = train_sentencepiece.train(lines, output, control_symbols=symbols, **settings)
    click.echo(f"Wrote {' and '.join(paths)}.")
