"""Strings of Python as tensors, with an error for what is no text."""

from collections.abc import Sequence

import tensorflow as tf

from quintain import errors


def build(texts: Sequence[str] | Sequence[Sequence[str]]) -> tf.Tensor:
    """Returns texts as strings `[B]`, or rows of F texts as `[B, F]`.

    Raises:
        DataError: If one of them has half a surrogate pair, as broken JSON and file names give; it
            says which, counted from 1.
    """
    for number, text in enumerate(texts, start=1):
        if not is_valid(text):
            raise errors.DataError(f"text {number}: is not valid Unicode.")
    return tf.constant(texts, tf.string)


def is_valid(text: str | Sequence[str]) -> bool:
    """Returns whether a text, or a row of them, can be written as UTF-8."""
    try:
        "".join(text).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
