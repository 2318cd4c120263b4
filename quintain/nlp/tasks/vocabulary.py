"""The vocabulary of a translation run: the one that was given, or one trained from the data.

Either way the run's directory ends up with a copy, `vocabulary.model`, so that the directory alone
is enough to resume, evaluate and translate. Where the target language has a vocabulary of its own,
its copy is `target_vocabulary.model`. `vocabulary.json` holds their hashes: the weights depend on
every token, and a file exchanged later is an error instead of nonsense.
"""

import hashlib
import json
import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from quintain import errors
from quintain.checkpoints import checkpoints
from quintain.files import file_io, file_paths, whole_files
from quintain.nlp.data import tokenizers, wmt_dataloader
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.data.masked import bert_vocabulary

FILE_NAME = "vocabulary.model"
WORDS_FILE_NAME: Final = "vocabulary.txt"
TARGET_FILE_NAME: Final = "target_vocabulary.model"
RECORD_NAME: Final = "vocabulary.json"

Side = Literal["both", "source", "target"]
"""Which language a vocabulary is of."""

_logger = logging.getLogger(__name__)


def find(model_dir: str, side: Side = "both") -> str | None:
    """Returns the path of the vocabulary in a run's directory, or None if there is none."""
    path = file_paths.join(model_dir, get_file_name(side)) if model_dir else ""
    return path if path and file_io.exists(path) else None


def prepare(
    train_data: wmt_dataloader.WMTDataConfig,
    *,
    model_path: str,
    vocab_size: int,
    max_pairs: int,
    model_dir: str,
    side: Side = "both",
) -> str:
    """Returns the path of the run's vocabulary, training or copying it first where needed.

    A vocabulary that the directory holds already is used again, because the weights beside it were
    trained with it.

    Args:
        train_data: What to train a vocabulary from.
        model_path: SentencePiece model to use instead; may be empty.
        vocab_size: Tokens of the vocabulary to train.
        max_pairs: Most pairs to train it from; of more, as many are taken, evenly spread.
        model_dir: Directory to keep it in; may be empty if `model_path`, which is returned, is not.
        side: Which language it is of. One of both is trained from both.

    Raises:
        ConfigError: As `check_given`, or if `model_path` differs from the vocabulary that the run
            started with.
        DataError: If the kept file is not the one that the run started with, or if that is lost and
            the data give another one.
    """
    kept = find(model_dir, side)
    if kept:
        check_kept(kept)
    check_given(model_path, model_dir, side)
    if model_path:
        return keep(model_path, model_dir, field=_field(side), name=get_file_name(side))
    if kept:
        return kept
    pairs = wmt_dataloader.read_pairs(train_data)
    sample = pairs[:: math.ceil(len(pairs) / max_pairs)]
    _logger.info(
        "Training a vocabulary of %d tokens from %d pairs (%s).", vocab_size, len(sample), side
    )
    sides = {"both": slice(0, 2), "source": slice(0, 1), "target": slice(1, 2)}[side]
    lines = (text for pair in sample for text in pair[sides])
    return train(lines, model_dir, name=get_file_name(side), vocab_size=vocab_size)


def train_bundled(data: Any, model_dir: str, *, vocab_size: int) -> None:
    """Trains the BERT vocabulary of a run, unless its directory has one, on a bundled corpus.

    Args:
        data: Training data, with the corpus as `input_path`, and `lower_case`.
        model_dir: Directory of the run; nothing is trained without one.
        vocab_size: Tokens of the vocabulary.
    """
    if not model_dir or find(model_dir):
        return
    pairs = bundled_corpora.get_pairs(bundled_corpora.find_name(data.input_path))
    texts = (text for pair in pairs for text in pair)
    train(
        (text.casefold() if data.lower_case else text for text in texts),
        model_dir,
        name=FILE_NAME,
        vocab_size=vocab_size,
        control_symbols=bert_vocabulary.SPECIAL_TOKENS,
    )


def train(
    lines: Iterable[str],
    model_dir: str,
    *,
    name: str,
    vocab_size: int,
    control_symbols: Sequence[str] = (),
) -> str:
    """Trains the vocabulary that a run's directory lacks, and returns its path.

    Args:
        lines: What to train it from.
        model_dir: The directory.
        name: Name of the file.
        vocab_size: Its tokens.
        control_symbols: Tokens that no text gives, such as `[CLS]`.

    Raises:
        DataError: If weights in the directory were trained with another one.
    """
    path = file_paths.join(model_dir, name)
    has_weights, expected = _find_bond(path)
    if has_weights and expected is None:
        raise errors.DataError(
            f"{path}: is lost, and so is {RECORD_NAME}, by which it would be known again. The "
            "weights of the checkpoints here mean nothing with another vocabulary. Copy it back, "
            "or begin anew in another model directory."
        )
    tokenizers.train_sentencepiece(
        lines, path, vocab_size=vocab_size, control_symbols=control_symbols
    )
    if expected not in (None, found := _hash(path)):
        file_io.remove(path)
        raise errors.DataError(
            f"{path}: is lost, and training it again gave another one ({found}): the data are not "
            f"those that it was trained from. {_explain_record(expected)}"
        )
    _record(path)
    return path


def check_given(model_path: str, model_dir: str, side: Side = "both") -> None:
    """Checks that a vocabulary can be used, or that there is a directory to train one for.

    Raises:
        ConfigError: If `model_path` does not exist, or has no EOS, or an ordinary token at id 0; or
            if both are empty.
        DataError: If it is no SentencePiece model.
    """
    if model_path and not file_io.exists(model_path):
        raise errors.ConfigError(
            f"{_field(side)}: got {model_path!r}, but there is no such file. Leave it empty to "
            "train a vocabulary from the training data."
        )
    if model_path:
        tokenizers.load_model(model_path)
    elif not model_dir:
        raise errors.ConfigError(
            f"{_field(side)}: got '', and there is no directory to keep a vocabulary "
            "trained from `task.train_data` in. Give the path of a SentencePiece model, or a model "
            "directory (`--model-dir`, or `logging_dir` where the task is built in Python)."
        )


def get_file_name(side: Side) -> str:
    """Returns the name of a vocabulary in a run's directory."""
    return TARGET_FILE_NAME if side == "target" else FILE_NAME


def get_copy_name(tokenization: str) -> str:
    """Returns the name of the copy of a given vocabulary: of pieces, or `WordPiece`."""
    return WORDS_FILE_NAME if tokenization == "WordPiece" else FILE_NAME


def _field(side: Side) -> str:
    return f"task.{'target_' if side == 'target' else ''}sentencepiece_model_path"


def check_kept(path: str) -> None:
    """Checks that a vocabulary in a run's directory is still the one that the run started with.

    Raises:
        DataError: If the hash on record is another.
    """
    expected = _read_record(file_paths.dirname(path)).get(file_paths.basename(path))
    if expected is not None and _hash(path) != expected:
        raise errors.DataError(
            f"{path}: is not the vocabulary that this run was trained with. "
            f"{_explain_record(expected)}"
        )


def _find_bond(path: str) -> tuple[bool, str | None]:
    """Returns whether there are weights that need a vocabulary, and its hash, if that is known."""
    directory = file_paths.dirname(path)
    if not checkpoints.list_checkpoints(directory):
        return False, None
    return True, _read_record(directory).get(file_paths.basename(path))


def _explain_record(expected: str | None) -> str:
    return (
        f"The weights mean nothing with another one. {RECORD_NAME} has the SHA-256 of the right "
        f"one, {expected}: copy that back."
    )


def check_same(model_dir: str, checkpoint: str) -> None:
    """Checks that a checkpoint to start from was trained with a run's vocabularies.

    A checkpoint without a vocabulary beside it is not checked.

    Raises:
        ConfigError: If the vocabularies differ.
    """
    sides: tuple[Side, ...] = ("source", "target")
    for side in sides:
        ours = find(model_dir, side)
        if ours:
            check_same_copy(ours, checkpoint, names=[get_file_name(side)], field=_field(side))


def _record(path: str) -> None:
    directory = file_paths.dirname(path)
    record = {**_read_record(directory), file_paths.basename(path): _hash(path)}
    text = f"{json.dumps(record, indent=2)}\n"
    whole_files.write(file_paths.join(directory, RECORD_NAME), text, has_rivals=True)


def _read_record(directory: str) -> dict[str, str]:
    """Returns the hashes of the vocabularies of a run; none for runs of earlier versions."""
    path = file_paths.join(directory, RECORD_NAME)
    if not file_io.exists(path):
        return {}
    record: dict[str, str] = whole_files.read_json(path)
    if not isinstance(record, dict):
        raise whole_files.damaged(path, f"got {record!r}, expected names and hashes")
    return record


def _hash(path: str) -> str:
    return hashlib.sha256(file_io.read_bytes(path)).hexdigest()


def keep(path: str, model_dir: str, *, field: str, name: str) -> str:
    """Copies a given vocabulary to a run's directory, if it has one, and returns the path to use.

    The copy gets the `name`; `field` is the config field that gives the path, for messages.

    Raises:
        ConfigError: If there is no vocabulary, or the directory holds another one, which the
            weights beside it depend on.
        DataError: If the copy is lost or changed, and this is another one.
    """
    kept = file_paths.join(model_dir, name) if model_dir else ""
    is_kept = bool(kept) and file_io.exists(kept)
    if not path or not file_io.exists(path):
        if is_kept:
            check_kept(kept)
            return kept
        raise errors.ConfigError(
            f"{field}: got {path!r}, expected the file of a vocabulary"
            + (", but there is no such file." if path else ".")
        )
    if not model_dir:
        return path
    if not is_kept:
        _, expected = _find_bond(kept)
        if expected not in (None, _hash(path)):
            raise errors.DataError(
                f"{kept}: is lost, and {field}={path!r} is not what it was copied from. "
                f"{_explain_record(expected)}"
            )
        whole_files.write(kept, file_io.read_bytes(path), has_rivals=True)
        _record(kept)
        return kept
    check_kept(kept)
    if file_io.read_bytes(kept) != file_io.read_bytes(path):
        raise errors.ConfigError(
            f"{field}: got {path!r}, but the run in {model_dir!r} was started with another "
            f"vocabulary ({name}), which its weights depend on. Use the same vocabulary, "
            "or another model directory."
        )
    return kept


def check_same_copy(
    path: str,
    checkpoint: str,
    *,
    field: str,
    names: Sequence[str] = (FILE_NAME, WORDS_FILE_NAME),
) -> None:
    """Checks that a checkpoint to start from was trained with a vocabulary.

    A checkpoint without a copy of its vocabulary beside it, under one of `names`, is not checked.

    Raises:
        ConfigError: If the vocabularies differ; it names the field that gives the path.
    """
    directory = checkpoint if file_io.isdir(checkpoint) else file_paths.dirname(checkpoint)
    copies = [file_paths.join(directory, name) for name in names]
    theirs = next((copy for copy in copies if file_io.exists(copy)), None)
    if theirs and file_io.read_bytes(theirs) != file_io.read_bytes(path):
        raise errors.ConfigError(
            f"task.init_checkpoint: got {checkpoint!r}, which was trained with the vocabulary "
            f"{theirs!r}, but this run has another one, so that its tokens would mean something "
            f"else. Set {field}={theirs!r}, in a new model directory."
        )
