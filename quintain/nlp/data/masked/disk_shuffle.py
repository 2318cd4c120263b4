"""External shuffle: more sequences of tokens than memory holds, through files.

Sequences are first kept in the order in which they come (`Spool`). When it is known how many there
are, each is thrown into one of several buckets (`Buckets`), and each bucket fits into memory, where
it is shuffled. As every sequence falls into any bucket with the same chance, the buckets one after
the other are a shuffle of the whole.
"""

import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]

_INT_BYTES: Final = 4


class Entry(NamedTuple):
    """A sequence in a bucket."""

    group: int
    """Number of what it belongs to, such as its language."""

    place: int
    """Its place in the spool of the group."""

    ids: Ids
    """`[L]` int32, its tokens."""


class Spool:
    """Sequences in a file, in order."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._num_written = 0
        self._num_bytes = 0

    def __len__(self) -> int:
        """Number of sequences."""
        return self._num_written

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return self._num_bytes

    def write(self, sequences: Iterable[Ids]) -> None:
        """Writes all sequences, which must not be empty, in place of those that were there."""
        self._num_written = self._num_bytes = 0
        with open(self._path, "wb") as file:
            for ids in sequences:
                self._num_bytes += file.write(np.array([len(ids), *ids], np.int32).tobytes())
                self._num_written += 1

    def read(self) -> Iterator[Ids]:
        """Yields the sequences, one in memory at a time."""
        with open(self._path, "rb") as file:
            while len(length := _read_ints(file, 1)):
                yield _read_ints(file, int(length[0]))

    def remove(self) -> None:
        """Deletes the file."""
        os.remove(self._path)


def _read_ints(file: BinaryIO, count: int) -> Ids:
    return np.frombuffer(file.read(count * _INT_BYTES), np.int32)


class Buckets:
    """Files that sequences are thrown into, and read from again one file at a time."""

    def __init__(
        self,
        directory: str,
        num_bytes: int,
        *,
        bucket_bytes: int,
        held_bytes: int,
    ) -> None:
        """Chooses how many buckets there are, in an existing directory.

        Args:
            directory: Where their files are.
            num_bytes: About how much will be added.
            bucket_bytes: About how much a bucket should hold.
            held_bytes: Most that waits in memory to be written.
        """
        self._directory = directory
        self._held: list[list[bytes]] = [[] for _ in range(1 + num_bytes // bucket_bytes)]
        self._held_bytes = held_bytes
        self._num_waiting = 0

    def __len__(self) -> int:
        """Number of buckets."""
        return len(self._held)

    def add(self, bucket: int, entry: Entry) -> None:
        """Throws a sequence into a bucket."""
        row = np.array([entry.group, entry.place, len(entry.ids), *entry.ids], np.int32)
        self._held[bucket].append(row.tobytes())
        self._num_waiting += row.nbytes
        if self._num_waiting >= self._held_bytes:
            self._flush()

    def read(self) -> Iterator[list[Entry]]:
        """Yields the sequences of each bucket, in the order in which they were added to it."""
        self._flush()
        for bucket in range(len(self)):
            path = self._get_path(bucket)
            if not os.path.exists(path):
                continue
            data = np.fromfile(path, np.int32)
            os.remove(path)
            entries, start = [], 0
            while start < len(data):
                group, place, length = (int(value) for value in data[start : start + 3])
                entries.append(Entry(group, place, data[start + 3 : start + 3 + length]))
                start += 3 + length
            yield entries

    def _flush(self) -> None:
        for bucket, rows in enumerate(self._held):
            if rows:
                # Opened for this moment only: there may be more buckets than files may be open.
                with open(self._get_path(bucket), "ab") as file:
                    file.writelines(rows)
                rows.clear()
        self._num_waiting = 0

    def _get_path(self, bucket: int) -> str:
        return os.path.join(self._directory, f"bucket-{bucket:05d}")
