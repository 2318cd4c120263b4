"""Damage of TFRecord files, found by lengths alone, without reading records.

TensorFlow takes the last bytes of a file for its end if they are too few for the header of a
record. So it reads a cut file, or a short text, without an error.
"""

import gzip
import struct
import time
import zlib
from typing import Any, Final

from quintain.files import file_io

_GZIP_MAGIC: Final = b"\x1f\x8b"
_HEADER: Final = struct.Struct("<QI")
"""Length of a record, and the checksum of the 8 bytes of it; a checksum follows the record."""


def is_gzip(path: str) -> bool:
    """Returns whether a file begins as those that are compressed with gzip."""
    with file_io.open(path, "rb") as file:
        return file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC


def is_record_file(path: str) -> bool:
    """Returns whether a file, not compressed, begins with the header of a record."""
    with file_io.open(path, "rb") as file:
        return _read_length(file.read(_HEADER.size)) is not None


def find_fault(path: str, *, deadline: float = float("inf")) -> str | None:
    """Returns what is wrong with a file, compressed with gzip or not; None if nothing is found.

    Args:
        path: A local file.
        deadline: When to stop looking, by `time.monotonic`.
    """
    try:
        with file_io.open(path, "rb") as plain:
            file = gzip.GzipFile(fileobj=plain) if is_gzip(path) else plain
            return _walk(file, deadline)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return f"is damaged or cut ({error})"


def _walk(file: Any, deadline: float) -> str | None:
    """Goes from header to header."""
    number = start = 0
    while header := file.read(_HEADER.size):
        number += 1
        length = _read_length(header)
        if length is None and number == 1:
            return "is no TFRecord file, or damaged or cut: it begins with no whole header"
        if length is None:
            return f"record {number}, at byte {start}, is damaged or cut"
        end = start + _HEADER.size + length + 4
        file.seek(end - 1)
        if not file.read(1):
            return f"record {number}, at byte {start}, is cut"
        if time.monotonic() > deadline:
            return None
        start = end
    return None


def _read_length(header: bytes) -> int | None:
    """Returns the length in a header; None if it is cut or damaged."""
    if len(header) < _HEADER.size:
        return None
    length, checksum = _HEADER.unpack(header)
    return int(length) if checksum == _masked_checksum(header[:8]) else None


def _masked_checksum(content: bytes) -> int:
    """Returns the masked CRC-32C of some bytes.

    Source:
        TensorFlow's "TFRecords format details"; the polynomial is that of RFC 3720.
    """
    checksum = 0xFFFFFFFF
    for byte in content:
        checksum = checksum >> 8 ^ _CHECKSUMS[(checksum ^ byte) & 0xFF]
    checksum ^= 0xFFFFFFFF
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _divide(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_CHECKSUMS: Final = tuple(map(_divide, range(256)))
