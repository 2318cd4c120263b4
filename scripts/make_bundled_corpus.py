"""Writes the bundled corpus anew, as its grammar in `bundled_corpus` makes it."""

import gzip
import pathlib
from typing import Final

from bundled_corpus import numbers_and_dates

DIRECTORY: Final = pathlib.Path(__file__).parents[1] / "quintain/nlp/data/corpora/numbers_and_dates"


def make_texts() -> dict[str, bytes]:
    """Returns the lines of each split, `source<TAB>target` in UTF-8."""
    splits = {
        "train": numbers_and_dates.train_pairs(),
        "validation": numbers_and_dates.validation_pairs(),
        "test": numbers_and_dates.test_pairs(),
    }
    return {
        split: "".join(f"{source}\t{target}\n" for source, target in pairs).encode()
        for split, pairs in splits.items()
    }


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    for name, text in make_texts().items():
        # Without a time, so that the same text gives the same file.
        (DIRECTORY / f"{name}.tsv.gz").write_bytes(gzip.compress(text, mtime=0))
