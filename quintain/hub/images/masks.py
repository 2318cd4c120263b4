"""Masks: PNG files whose pixels are the numbers of classes.

Shapes:
    H  height
    W  width
"""

import dataclasses
import zlib
from typing import Final

import tensorflow as tf

from quintain import errors
from quintain.files import file_io

_HEADER_BYTES: Final = 33
"""Signature of a PNG and its first chunk."""

_GRAY, _PALETTE = 0, 3


@dataclasses.dataclass(frozen=True)
class Header:
    """Header of a mask."""

    start: bytes
    """Beginning of the file, by which its pixels are decoded as numbers and not as colours."""

    scale: int
    """Factor of the decoded numbers: those of less than 8 bits are spread over 0 to 255."""

    size: tuple[int, int]
    """Height and width."""


def read_header(path: str) -> Header:
    """Reads the header of a mask.

    Raises:
        DataError: If it is no PNG of numbers.
    """
    start = file_io.read_bytes(path)[:_HEADER_BYTES]
    if len(start) < _HEADER_BYTES or not start.startswith(b"\x89PNG") or start[12:16] != b"IHDR":
        raise errors.DataError(f"{path}: is no PNG file, as masks have to be.")
    depth, kind = start[24], start[25]
    if kind not in (_GRAY, _PALETTE) or depth > 8:
        raise errors.DataError(
            f"{path}: has colours or 16 bits, expected a mask: a PNG file of gray or of a palette "
            "with up to 8 bits, whose pixels are the numbers of classes."
        )
    # Without its palette, of which decoders make colours, the pixels of a file are its indices.
    chunk = start[12:25] + bytes([_GRAY]) + start[26:29]
    return Header(
        start[:12] + chunk + zlib.crc32(chunk).to_bytes(4, "big"),
        255 // (2**depth - 1),
        (int.from_bytes(start[20:24], "big"), int.from_bytes(start[16:20], "big")),
    )


def decode(path: tf.Tensor, start: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """Returns the classes `[H, W, 1]` int32 of a file; see `Header`."""
    rest = tf.strings.substr(tf.io.read_file(path), _HEADER_BYTES, -1)
    return tf.cast(tf.io.decode_png(start + rest, channels=1), tf.int32) // scale
