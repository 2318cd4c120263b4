"""Directories that `save_to_disk` of the Hugging Face library `datasets` wrote.

The package is needed only here: `pip install "quintain[datasets]"`.
"""

import importlib
from typing import Any, Final

from quintain import errors
from quintain.files import file_io, file_paths
from quintain.input import file_marks

_MARK: Final = "dataset_info.json"
_MARK_OF_SPLITS: Final = "dataset_dict.json"


def is_saved(input_path: Any) -> bool:
    """True if a path is such a directory."""
    return isinstance(input_path, str) and any(
        file_io.exists(file_paths.join(input_path, mark)) for mark in (_MARK, _MARK_OF_SPLITS)
    )


def load(path: str) -> Any:
    """Returns the `datasets.Dataset` of a directory.

    Raises:
        ConfigError: If the package is missing.
        DataError: If it can't be loaded, or holds several splits.
    """
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise errors.ConfigError(
            f"input_path: {path!r} was written by the package datasets, which can't be imported "
            f'({error}). Install it with `pip install "quintain[datasets]"`.'
        ) from error
    try:
        dataset = library.load_from_disk(path)
    except Exception as error:  # Arrow and the package raise any class.
        raise errors.DataError(
            f"{path}: can't be loaded by the package datasets: {str(error).partition(chr(10))[0]} "
            "Write it anew with `save_to_disk`."
        ) from error
    if isinstance(dataset, library.DatasetDict):
        known = [file_paths.join(path, split) for split in sorted(dataset)]
        raise errors.DataError(
            f"input_path: {path!r} holds several splits. Give one: {errors.enumerate_some(known)}."
        )
    for file in dataset.cache_files:
        file_marks.note(file["filename"])
    return dataset
