"""Sentence pairs of the Hugging Face library `datasets`, from its hub or from local files.

The package is needed only here: `pip install "quintain[datasets]"`.
"""

import importlib
from typing import Any, Final

from quintain import errors
from quintain.files import file_io, file_paths

Pair = tuple[str, str]

_BUILDERS: Final = {
    ".json": "json",
    ".jsonl": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
}
_NESTED: Final = "translation"
_CHUNK: Final = 10_000
_SAVED: Final = ("dataset_info.json", "dataset_dict.json")


def read_pairs(
    name: str,
    *,
    config: str = "",
    split: str = "",
    src_lang: str,
    tgt_lang: str,
) -> list[Pair]:
    """Reads all pairs of a dataset, in its order.

    The languages are either keys of a column `translation`, as in most corpora of the hub, or
    columns of their own.

    Args:
        name: A name on the hub, such as `wmt14`; a file (.jsonl, .json, .csv, .parquet, .arrow,
            compressed with gzip or not); or a directory, as `save_to_disk` writes it or with files
            in it.
        config: Which configuration of the dataset, such as `de-en`.
        split: Which split, such as `train[:1000]`; may be empty if there is only one.
        src_lang: Key or column of the source text.
        tgt_lang: Likewise of the target text.

    Raises:
        ConfigError: If the package is missing, or there is no such split or column.
        DataError: If the dataset can't be loaded, or a text is none.
    """
    dataset = _load(name, config, split)
    is_nested = _NESTED in dataset.column_names
    _check_columns(dataset, name, (src_lang, tgt_lang), is_nested=is_nested)
    pairs: list[Pair] = []
    for start in range(0, len(dataset), _CHUNK):
        chunk = dataset[start : start + _CHUNK]
        if is_nested:
            sides = [[row[key] for row in chunk[_NESTED]] for key in (src_lang, tgt_lang)]
        else:
            sides = [chunk[src_lang], chunk[tgt_lang]]
        for number, pair in enumerate(zip(*sides, strict=True), start=start):
            if not all(isinstance(text, str) for text in pair):
                raise errors.DataError(
                    f"hf_name: row {number} of {name!r} has {pair[0]!r} and {pair[1]!r} in "
                    f"{src_lang!r} and {tgt_lang!r}, expected text in both. Fix or remove the row."
                )
            pairs.append(pair)
    if not pairs:
        raise errors.DataError(f"hf_name: {name!r} has no rows in split {split!r}.")
    return pairs


def _load(name: str, config: str, split: str) -> Any:
    """Returns one split, as a `datasets.Dataset`."""
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise errors.ConfigError(
            f"hf_name: got {name!r}, but the package datasets can't be imported ({error}). "
            'Install it with `pip install "quintain[datasets]"`.'
        ) from error
    try:
        found = _load_any(library, name, config, split)
    except Exception as error:
        detail = str(error).strip().partition("\n")[0]
        raise errors.DataError(
            f"hf_name: {name!r} can't be loaded with config {config!r} and split {split!r} "
            f"({type(error).__name__}: {detail}). Check the name, hf_config, hf_split and the "
            "network."
        ) from error
    if not isinstance(found, library.DatasetDict):
        return found
    splits = sorted(found)
    if split and split not in splits:
        raise errors.ConfigError(
            f"hf_split: got {split!r}, expected one of {', '.join(splits)} of {name!r}."
            f"{errors.suggest(split, splits)}"
        )
    if not split and len(splits) > 1:
        raise errors.ConfigError(
            f"hf_split: got '', expected one of {', '.join(splits)} of {name!r}."
        )
    return found[split or splits[0]]


def _load_any(library: Any, name: str, config: str, split: str) -> Any:
    stem = name.removesuffix(".gz")
    builder = _BUILDERS.get(file_paths.suffix(stem))
    if file_io.isfile(name) and builder:
        # A file is one split, whose name nobody knows.
        part = split[split.index("[") :] if "[" in split else ""
        return library.load_dataset(builder, data_files=name, split=f"train{part}")
    if any(file_io.exists(file_paths.join(name, file)) for file in _SAVED):
        return library.load_from_disk(name)
    return library.load_dataset(name, config or None, split=split or None)


def _check_columns(dataset: Any, name: str, wanted: tuple[str, str], *, is_nested: bool) -> None:
    known = list(dataset.column_names)
    if is_nested and len(dataset):
        known = list(dataset[0][_NESTED])
    for field, column in zip(("src_lang", "tgt_lang"), wanted, strict=True):
        if column not in known:
            raise errors.ConfigError(
                f"{field}: got {column!r}, expected a language of {name!r}: {', '.join(known)}."
                f"{errors.suggest(column, known)}"
            )
