"""Writes the bundled corpora anew, as their grammars in `bundled_corpus` make them."""

import gzip
import pathlib
from typing import Final

from bundled_corpus import names_and_places, numbers_and_dates, questions, word_pieces

CORPORA: Final = pathlib.Path(__file__).parents[1] / "quintain/nlp/data/corpora"
DIRECTORY: Final = CORPORA / "numbers_and_dates"
_VOCABULARY_SIZE: Final = 2_000


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


def make_labelled_files() -> dict[str, bytes]:
    """Returns the files of the other corpora, by their paths in `CORPORA`."""
    ends = (*names_and_places.PERSON_ENDS, *names_and_places.PLACE_ENDS)
    halves = (*names_and_places.ONSETS, *names_and_places.RIMES)  # Each is in many names.
    files = {}
    for corpus, suffix, texts, parts in (
        ("names_and_places", "tsv", names_and_places.make_splits(), names_and_places.SYLLABLES),
        ("questions", "json", questions.make_splits(), halves),
    ):
        vocabulary = word_pieces.make(texts["train"], [*ends, *parts], size=_VOCABULARY_SIZE)
        files[f"{corpus}/vocabulary.txt"] = vocabulary.encode()
        files |= {f"{corpus}/{split}.{suffix}.gz": _pack(text) for split, text in texts.items()}
    return files


def _pack(text: str) -> bytes:
    """Returns a text compressed without a time, so that the same text gives the same file."""
    return gzip.compress(text.encode(), mtime=0)


if __name__ == "__main__":
    packed = {
        f"numbers_and_dates/{split}.tsv.gz": _pack(text.decode())
        for split, text in make_texts().items()
    }
    for name, content in {**packed, **make_labelled_files()}.items():
        (CORPORA / name).parent.mkdir(exist_ok=True)
        (CORPORA / name).write_bytes(content)
