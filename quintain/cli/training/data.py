"""`quintain data`: prepares data for training."""

from typing import Any, Literal

import click

from quintain import errors
from quintain.cli import logs, options, output, tensorflow_import
from quintain.cli.lazy_group import FlagCommand, LazyGroup


@click.group(cls=LazyGroup)
def data() -> None:
    """Prepare data for training."""
    logs.set_up(is_verbose=False)


@data.command(cls=FlagCommand)
@click.argument("name", type=click.Choice(["flats", "shapes"]))
@click.option("--output", required=True, metavar="DIR", help="Directory to write.")
def example(name: str, output: str) -> None:
    r"""Write drawn data to try things with: NAME is `shapes` (images) or `flats` (a table).

    \b
    quintain data example shapes --output=shapes
    quintain data example flats --output=flats
    """
    tensorflow_import.import_quietly()
    from quintain.tabular import flats
    from quintain.vision import shapes

    (shapes if name == "shapes" else flats).write(output)
    click.echo(f"Wrote train and validation data to {output}.")


@data.command(cls=FlagCommand)
@click.option("--input", "input_path", metavar="FILES", help="Text or TSV files and patterns.")
@click.option("--tfds-name", metavar="NAME", help="TensorFlow Datasets entry, instead of --input.")
@click.option("--tfds-split", default="train", show_default=True, metavar="SPLIT")
@click.option("--tfds-data-dir", default="", metavar="DIR", help="Where the entry is prepared.")
@click.option("--features", metavar="NAMES", help="Its features with text, such as de,en.")
@click.option("--output", required=True, metavar="FILE", help="Model to write, such as v.model.")
@click.option("--vocab-size", type=click.IntRange(min=4), default=32_000, show_default=True)
@click.option(
    "--model-type", type=click.Choice(["bpe", "unigram"]), default="bpe", show_default=True
)
@click.option(
    "--character-coverage",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.9995,
    show_default=True,
    help="Share of the text whose characters get a token.",
)
@click.option("--max-lines", type=click.IntRange(min=1), help="Lines to train from, drawn from all")
@click.option(
    "--control-symbols",
    default="",
    metavar="TOKENS",
    help="Tokens that no text gives; BERT needs '[CLS],[SEP],[MASK]'.",
)
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
    quintain data sentencepiece --tfds-name=wmt14_translate/de-en --features=de,en \
        --output=vocab.model --max-lines=1000000
    """
    if bool(input_path) == bool(tfds_name):
        raise errors.ConfigError(
            f"--input: got {input_path!r}, and --tfds-name {tfds_name!r}; expected one of the two."
        )
    if tfds_name and not features:
        raise errors.ConfigError(
            "--features: missing; name the features of --tfds-name that hold text, such as de,en."
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


@data.command(cls=FlagCommand)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="[LANG=]FILES",
    help="Text files and patterns, a text a line; repeat it for several languages.",
)
@click.option("--output", required=True, metavar="PREFIX", help="Start of the files to write.")
@click.option("--vocab-file", required=True, metavar="FILE")
@click.option(
    "--tokenization",
    type=click.Choice(["SentencePiece", "WordPiece"]),
    default="SentencePiece",
    show_default=True,
    help="What kind of vocabulary it is.",
)
@click.option("--lower-case/--nolower-case", default=True, show_default=True)
@click.option("--seq-length", type=click.IntRange(min=8), default=512, show_default=True)
@click.option(
    "--max-predictions-per-seq", type=click.IntRange(min=1), default=76, show_default=True
)
@click.option(
    "--masking-rate", type=click.FloatRange(0, 1, min_open=True), default=0.15, show_default=True
)
@click.option("--whole-words", is_flag=True, help="Mask all tokens of a word together.")
@click.option("--next-sentence", is_flag=True, help="Write pairs of segments.")
@click.option(
    "--dupe-factor",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Times each sequence is written, with other masks.",
)
@click.option(
    "--smoothing",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    help="Exponent of a language's share; less than 1 writes small languages more often.",
)
@click.option("--num-shards", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--use-v2-feature-names", is_flag=True, help="Name features input_word_ids ...")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--skip-bad", is_flag=True, help="Leave out lines that are not UTF-8, and say which.")
def mlm(
    inputs: tuple[str, ...],
    output: str,
    vocab_file: str,
    tokenization: Literal["SentencePiece", "WordPiece"],
    lower_case: bool,
    max_predictions_per_seq: int,
    masking_rate: float,
    whole_words: bool,
    next_sentence: bool,
    **settings: Any,
) -> None:
    r"""Pack text files into TFRecords of masked words, to pretrain BERT on.

    \b
    quintain data mlm --input='wiki/*.txt.gz' --vocab-file=v.model --output=records/wiki
    quintain data mlm --input=de='de/*.txt' --input=fr='fr/*.txt' --smoothing=0.5 \
        --vocab-file=v.model --output=records/both --num-shards=8
    """
    tensorflow_import.import_quietly()
    from quintain.nlp.data.masked import bert_vocabulary, masking, mlm_records

    vocabulary = bert_vocabulary.load(
        vocab_file, tokenization, lower_case=lower_case, field="--vocab-file"
    )
    rules = masking.MaskingRules.from_vocabulary(
        vocabulary,
        max_predictions=max_predictions_per_seq,
        masking_rate=masking_rate,
        whole_words=whole_words,
    )
    report = mlm_records.write(
        mlm_records.parse_inputs(inputs),
        output,
        vocabulary=vocabulary,
        rules=rules,
        settings=mlm_records.RecordSettings(has_next_sentence=next_sentence, **settings),
    )
    for language, num_examples in report.num_examples.items():
        name = f"{language}: " if language else ""
        click.echo(f"{name}{report.num_texts[language]} texts, {num_examples} examples")
    if report.num_skipped:
        click.echo(f"Left out {report.num_skipped} lines that are not UTF-8.", err=True)
    first, last = report.paths[0], report.paths[-1]
    click.echo(
        f"Wrote {first if first == last else f'{first} to {last}'}; "
        f"{report.num_tokens / report.num_positions:.0%} of the positions are tokens."
    )


_vocabulary_options = options.combine(
    click.option("--vocab-file", required=True, metavar="FILE"),
    click.option(
        "--tokenization",
        type=click.Choice(["SentencePiece", "WordPiece"]),
        default="WordPiece",
        show_default=True,
        help="What kind of vocabulary it is.",
    ),
    click.option("--lower-case/--nolower-case", default=True, show_default=True),
)


@data.command(cls=FlagCommand)
@click.option("--input", "input_path", required=True, metavar="FILES", help="Files and patterns.")
@click.option("--output", required=True, metavar="FILE", help="TFRecord file to write.")
@_vocabulary_options
@click.option("--seq-length", type=click.IntRange(min=3), default=128, show_default=True)
@click.option(
    "--labels", default="", metavar="NAMES", help="All labels, in order; else those of the files."
)
def tagging(
    input_path: str,
    output: str,
    vocab_file: str,
    tokenization: Literal["SentencePiece", "WordPiece"],
    lower_case: bool,
    seq_length: int,
    labels: str,
) -> None:
    r"""Write sentences of labelled words as TFRecords, to train tagging on.

    \b
    quintain data tagging --input=train.conll --vocab-file=vocab.txt --output=train.tfrecord
    quintain data tagging --input='dev*.jsonl' --vocab-file=vocab.txt --output=dev.tfrecord \
        --labels=O,B-PER,I-PER

    A .jsonl file has {"words": [...], "labels": [...]} in each line; any other one a word a line,
    with its label in the last column, and an empty line after each sentence. The labels are
    printed as the config's task.class_names.
    """
    tensorflow_import.import_quietly()
    from quintain.input import input_files
    from quintain.nlp.data.corpora import bundled_corpora
    from quintain.nlp.data.labelled_tokens import tagged_sentences, token_examples
    from quintain.nlp.data.masked import bert_vocabulary

    paths = input_files.match_files(bundled_corpora.find_file(input_path), name="--input")
    vocabulary = bert_vocabulary.load(
        bundled_corpora.find_file(vocab_file),
        tokenization,
        lower_case=lower_case,
        field="--vocab-file",
    )
    sentences = list(tagged_sentences.read(paths))
    names = [name.strip() for name in labels.split(",") if name.strip()]
    names = names or tagged_sentences.find_labels(sentences)
    count = token_examples.write(
        output,
        tagged_sentences.encode(
            ((one.words, tagged_sentences.to_ids(one, names)) for one in sentences),
            token_examples.tokenizer_of(vocabulary),
            token_examples.SpecialIds.of(vocabulary),
            seq_length,
        ),
    )
    click.echo(f"{len(sentences):,} sentences, {count:,} examples")
    click.echo(f"Wrote {output}; task.class_names=[{','.join(names)}]")


@data.command(cls=FlagCommand)
@click.option("--input", "input_path", required=True, metavar="FILES", help="Files and patterns.")
@click.option("--output", required=True, metavar="FILE", help="TFRecord file to write.")
@_vocabulary_options
@click.option("--seq-length", type=click.IntRange(min=5), default=384, show_default=True)
@click.option("--query-length", type=click.IntRange(min=1), default=64, show_default=True)
@click.option("--doc-stride", type=click.IntRange(min=1), default=128, show_default=True)
@click.option("--version-2-with-negative", is_flag=True, help="Questions may have no answer.")
def squad(input_path: str, output: str, vocab_file: str, lower_case: bool, **settings: Any) -> None:
    r"""Write questions in JSON of SQuAD as TFRecords, to train question answering on.

    \b
    quintain data squad --input=train-v1.1.json --vocab-file=vocab.txt --output=train.tfrecord
    quintain data squad --input=train-v2.0.json --version-2-with-negative \
        --vocab-file=vocab.txt --output=train.tfrecord

    Training reads JSON as well; evaluation needs it.
    """
    tensorflow_import.import_quietly()
    from quintain.nlp.data import question_answering_dataloader
    from quintain.nlp.data.corpora import bundled_corpora
    from quintain.nlp.data.labelled_tokens import token_examples

    params = question_answering_dataloader.QADataConfig(
        input_path=bundled_corpora.find_file(input_path),
        vocab_file=bundled_corpora.find_file(vocab_file),
        do_lower_case=lower_case,
        **settings,
    )
    questions, windows = question_answering_dataloader.read_windows(params)
    count = token_examples.write(output, (window.example for window in windows))
    click.echo(f"{len(questions):,} questions, {count:,} windows")
    if cut := question_answering_dataloader.count_cut(questions, windows):
        click.echo(f"The answers to {cut:,} questions are in no window as a whole.", err=True)
    click.echo(f"Wrote {output}.")


@data.command(cls=FlagCommand)
@click.argument("paths", metavar="FILES...", nargs=-1, required=True)
@output.json_option
def check(paths: tuple[str, ...], as_json: bool) -> None:
    r"""Read TFRecord files to their ends, and count records and damaged files.

    What follows a damaged record in its file can't be read. With
    task.train_data.corrupt_records=skip a training leaves it out; otherwise it is an error. The
    exit code is 1 if a file is damaged.

    \b
    quintain data check 'records/wiki-*'
    """
    tensorflow_import.import_quietly()
    from quintain.input import input_files

    found = [input_files.count_records(path) for path in input_files.match_files(list(paths))]
    damaged = [one for one in found if one.fault is not None]
    num_records = sum(one.num_records for one in found)
    if as_json:
        output.print_json({"num_records": num_records, "files": found})
    else:
        for one in damaged:
            click.echo(f"{one.path}: record {one.num_records + 1}: {one.fault}")
        click.echo(f"{num_records:,} records in {len(found):,} files, {len(damaged):,} damaged")
    if damaged:
        raise click.exceptions.Exit(1)
