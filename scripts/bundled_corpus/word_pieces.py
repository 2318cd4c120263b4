"""A WordPiece vocabulary: special tokens, characters, given pieces and frequent words."""

import collections
import re
from collections.abc import Iterable

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORDS = re.compile(r"\w+|[^\w\s]")


def make(text: str, pieces: Iterable[str], *, size: int) -> str:
    """Returns a vocabulary of at most `size` tokens, one a line, with case.

    Args:
        text: Text whose words are counted.
        pieces: Parts of words, which begin words as well, capitalised.
        size: Most tokens.
    """
    characters = sorted({character for character in text if not character.isspace()})
    counts = collections.Counter(_WORDS.findall(text))
    frequent = sorted(counts, key=lambda word: (-counts[word], word))
    parts = [form for piece in pieces for form in (f"##{piece}", piece.capitalize())]
    words = [word for word in frequent if counts[word] >= 10]
    inner = [f"##{one}" for one in characters if one.isalnum()]
    tokens = dict.fromkeys([*_SPECIAL, *characters, *inner, *words, *parts])
    return "".join(f"{token}\n" for token in list(tokens)[:size])
