import os
import tracemalloc

import numpy as np
import pytest

from quintain.nlp.data.masked import disk_shuffle


def make(length, start=0):
    return np.arange(start, start + length, dtype=np.int32)


def test_a_spool_gives_its_sequences_in_order(tmp_path):
    spool = disk_shuffle.Spool(str(tmp_path / "a"))

    spool.write(make(length) for length in (3, 1, 2))

    assert [ids.tolist() for ids in spool.read()] == [[0, 1, 2], [0], [0, 1]]
    assert [ids.tolist() for ids in spool.read()] == [[0, 1, 2], [0], [0, 1]]
    assert (len(spool), spool.num_bytes) == (3, (3 + 6) * 4)
    assert os.path.getsize(tmp_path / "a") == spool.num_bytes


def test_an_empty_spool_has_nothing(tmp_path):
    spool = disk_shuffle.Spool(str(tmp_path / "a"))

    spool.write([])

    assert (len(spool), list(spool.read())) == (0, [])
    spool.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("held_bytes", [1, 100, 10**6])
def test_buckets_keep_what_is_thrown_into_them_in_order(tmp_path, held_bytes):
    buckets = disk_shuffle.Buckets(str(tmp_path), 100, bucket_bytes=40, held_bytes=held_bytes)

    for place in range(7):
        buckets.add(place % 2, disk_shuffle.Entry(place % 3, place, make(place)))
    found = [
        [(entry.group, entry.place, entry.ids.tolist()) for entry in bucket]
        for bucket in buckets.read()
    ]

    assert len(buckets) == 3
    assert found == [
        [(place % 3, place, list(range(place))) for place in range(first, 7, 2)] for first in (0, 1)
    ]
    assert list(tmp_path.iterdir()) == []


def shuffle(folder, num_sequences):
    """Does what a shuffle does, and returns the most memory that it took, in bytes."""
    folder.mkdir()
    tracemalloc.start()
    spool = disk_shuffle.Spool(str(folder / "spool"))
    spool.write(make(100, start) for start in range(num_sequences))
    sizes = {"bucket_bytes": 2**16, "held_bytes": 2**16}
    buckets = disk_shuffle.Buckets(str(folder), spool.num_bytes, **sizes)
    for place, ids in enumerate(spool.read()):
        buckets.add(place * 7 % len(buckets), disk_shuffle.Entry(0, place, ids))
    assert sum(map(len, buckets.read())) == num_sequences
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.slow
def test_memory_does_not_grow_with_what_is_shuffled(tmp_path):
    small, large = shuffle(tmp_path / "small", 500), shuffle(tmp_path / "large", 5_000)

    assert large < 1.5 * small
    assert large < 2**20 < 5_000 * 100 * 4
