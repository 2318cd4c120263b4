import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.autograph.impl import api

from quintain.nlp.data.pairs import packed_pairs


def test_batches_are_full_and_leftovers_join_the_next_longer_bucket():
    sizes = packed_pairs._plan_batches(np.array([7, 4, 0, 5]), [5, 4, 3, 2])

    # 5 of bucket 0; its other 2 and 2 of bucket 1; 2 left, empty bucket 2 can't fill; 7 by twos.
    assert sizes.tolist() == [5, 4, 2, 2, 2, 1]


def test_the_last_batches_are_evened_out():
    sizes = packed_pairs._plan_batches(np.array([0, 21]), [9, 10])

    assert sizes.tolist() == [7, 7, 7]


def test_a_single_long_pair_gets_company_from_the_batch_before():
    sizes = packed_pairs._plan_batches(np.array([0, 30, 1]), [40, 30, 10])

    assert sizes.tolist() == [21, 10]


@pytest.mark.parametrize("seed", range(5))
def test_every_pair_is_planned_once_and_no_batch_is_too_large(seed):
    rng = np.random.default_rng(seed)
    limits = sorted(rng.integers(1, 50, 8).tolist(), reverse=True)
    counts = rng.integers(0, 200, 8)

    sizes = packed_pairs._plan_batches(counts, limits)

    assert sizes.sum() == counts.sum()
    assert sizes.min() >= 1
    buckets = np.repeat(np.arange(8), counts)
    ends = np.cumsum(sizes)
    for start, end in zip(ends - sizes, ends, strict=True):
        assert end - start <= limits[buckets[end - 1]]


def test_no_pipeline_is_converted(monkeypatch):
    """AutoGraph takes longer than to build all the rest, and the package's code needs none."""
    converted = []
    monkeypatch.setattr(api, "_convert_actual", lambda function, *_: converted.append(function))
    ids = tf.ragged.constant([[3, 4, 1], [5, 1]], tf.int32)
    packed = packed_pairs.PackedPairs(ids, ids, np.arange(2))

    packed_pairs.build_evaluation_examples(packed, has_unique_id=True)
    packed_pairs.build_static_training_dataset(packed, batch_size=1, padded_length=4, seed=1)
    packed_pairs.build_example_dataset(packed, seed=1)
    packed_pairs.build_dynamic_training_dataset(packed, boundaries=[8], batch_sizes=[2, 1], seed=1)

    assert converted == []
