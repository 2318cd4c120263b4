"""Training of a SentencePiece vocabulary from files or a TensorFlow Datasets entry.

`quintain data sentencepiece` is its command line.
"""

import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import sentencepiece
import tensorflow as tf

from quintain import errors
from quintain.files import file_io, whole_files
from quintain.input import input_files, input_sources, line_files, tfds_source
from quintain.nlp.data import tokenizers
from quintain.orbit import iterators
from quintain.reference import reference_names
from quintain.settings import config_definitions as cfg

DEFAULT_VOCAB_SIZE: Final = 32_000
DEFAULT_COVERAGE: Final = 0.9995
_SAMPLE_SEED: Final = 0

__getattr__ = reference_names.refusing(__name__)

ModelType = Literal["bpe", "unigram"]


def read_lines(input_path: str | Sequence[str]) -> Iterator[str]:
    """Yields the lines of text files, and both sides of the lines of TSV files.

    Args:
        input_path: Files and patterns: a comma-separated string or a list. Names ending in `.gz`
            are compressed; `.tsv` and `.tsv.gz` files hold a sentence in each column.

    Raises:
        DataError: If a file is missing, or a line is not UTF-8.
    """
    for path in input_files.match_files(input_path, name="input"):
        is_table = path.endswith((".tsv", ".tsv.gz"))
        for _, text in line_files.read(path):
            yield from text.split("\t") if is_table else [text]


def read_tfds_lines(
    tfds_name: str, tfds_split: str, features: Sequence[str], *, tfds_data_dir: str = ""
) -> Iterator[str]:
    """Yields the texts of an entry of TensorFlow Datasets, such as `wmt14_translate/de-en`.

    Features are those with text, such as `de` and `en`; the split may be `train[:10%]`.

    Raises:
        ConfigError: If the entry, the split or a feature does not exist.
        DataError: If the entry is not prepared.
    """
    params = cfg.DataConfig(
        tfds_name=tfds_name, tfds_split=tfds_split, tfds_data_dir=tfds_data_dir, is_training=False
    )
    (source,) = input_sources.get_sources(params)
    builder = tfds_source.build_builder(source, params)
    known = list(builder.info.features)
    for name in features:
        if name not in known:
            raise errors.ConfigError(
                f"features: got {name!r}, expected features of {tfds_name!r}: {', '.join(known)}."
                f"{errors.suggest(name, known)}"
            )
    dataset = tfds_source.read(builder, source, params, seed=None)
    texts = dataset.map(lambda example: tf.stack([example[name] for name in features]))
    for example in iterators.create_numpy(texts):
        for text in example:
            yield text.decode("utf-8")


def sample(lines: Iterable[str], max_lines: int | None) -> list[str]:
    """Returns at most `max_lines` of the lines that are not blank, each with the same chance.

    The same lines, which are read once, give the same sample. None keeps all.

    Source:
        Vitter, 1985, "Random Sampling with a Reservoir", algorithm R.
    """
    kept: list[str] = []
    random_numbers = random.Random(_SAMPLE_SEED)
    for number, line in enumerate(line for line in lines if line.strip()):
        if max_lines is None or number < max_lines:
            kept.append(line)
        elif (place := random_numbers.randint(0, number)) < max_lines:
            kept[place] = line
    return kept


def train(
    lines: Iterable[str],
    output: str,
    *,
    vocab_size: int = DEFAULT_VOCAB_SIZE,
    model_type: ModelType = "bpe",
    character_coverage: float = DEFAULT_COVERAGE,
    max_lines: int | None = None,
    control_symbols: Sequence[str] = (),
) -> tuple[str, str]:
    """Trains a vocabulary with padding 0, end of sentence 1, unknown 2 and no beginning.

    Both files appear only when they are complete.

    Args:
        lines: Sentences, of all languages that share the vocabulary.
        output: Model to write; `.model` is added to a name without it.
        vocab_size: Tokens wanted.
        model_type: How tokens are chosen.
        character_coverage: Share of the text whose characters get a token, in `(0, 1]`.
        max_lines: Most lines to train from, drawn from all. None takes all.
        control_symbols: Tokens that no text gives, such as BERT's.

    Returns:
        The paths of the model and of its list of tokens, which ends in `.vocab`.

    Raises:
        ConfigError: If `vocab_size` is too small for the characters of the text.
        DataError: If there is no text.
    """
    base = output.removesuffix(".model")
    model_path, vocab_path = f"{base}.model", f"{base}.vocab"
    tokenizers.train_sentencepiece(
        sample(lines, max_lines),
        model_path,
        vocab_size=vocab_size,
        model_type=model_type,
        character_coverage=character_coverage,
        control_symbols=control_symbols,
    )
    _write_vocab(model_path, vocab_path)
    return model_path, vocab_path


def train_sentencepiece(
    file_path: str,
    model_path: str,
    vocab_size: int,
    character_coverage: float,
    model_type: ModelType,
) -> None:
    """Trains a vocabulary from the lines of a text file; see `train`.

    `model_path` is the model to write, without `.model`.
    """
    lines = file_io.read_text(file_path).splitlines()
    train(
        lines,
        model_path,
        vocab_size=vocab_size,
        model_type=model_type,
        character_coverage=character_coverage,
    )


def dump_chars_to_textfile(
    dataset: tf.data.Dataset, data_keys: Sequence[str], max_char: int = -1
) -> str:
    """Writes sentences of a dataset to the lines of a temporary file, and returns its path.

    Args:
        dataset: Mappings of names to `[]` strings.
        data_keys: What is written, in the order of the lines.
        max_char: Bytes after which nothing is written any more; -1 writes all.
    """
    num_bytes = 0
    with tempfile.NamedTemporaryFile(suffix=".txt", delete=False) as file:
        for example in iterators.create_numpy(dataset):
            if 0 < max_char < num_bytes:
                break
            for key in data_keys:
                num_bytes += file.write(example[key] + b"\n")
    return file.name


def _write_vocab(model_path: str, vocab_path: str) -> None:
    """Writes a line `token<TAB>score` for every token, in the order of their ids."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=file_io.read_bytes(model_path))
    lines = [
        f"{processor.id_to_piece(index)}\t{processor.get_score(index):g}\n"
        for index in range(processor.vocab_size())
    ]
    whole_files.write(vocab_path, "".join(lines))
