import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.data.pairs import length_buckets


def test_the_reference_has_27_buckets_for_64_tokens():
    boundaries = length_buckets.get_boundaries(64)
    sizes = length_buckets.get_batch_sizes(boundaries, 24_576)

    assert (len(boundaries), boundaries[0], boundaries[-1]) == (27, 8, 65)
    assert boundaries == sorted(set(boundaries))
    assert (sizes[0], sizes[-1]) == (3_072, 378)


@pytest.mark.parametrize("max_length", [2, 8])
def test_short_maxima_have_one_bucket(max_length):
    assert length_buckets.get_boundaries(max_length) == [max_length + 1]


def test_a_budget_for_a_single_sentence_is_enough():
    assert length_buckets.get_batch_sizes([8, 13], 13) == [1, 1]


def test_a_smaller_budget_is_an_error():
    with pytest.raises(errors.ConfigError, match=r"token budget is too small .* which need 13"):
        length_buckets.get_batch_sizes([8, 13], 12)


def test_a_stream_is_batched_by_the_longer_side():
    lengths = [(3, 9), (2, 2), (9, 1), (4, 7), (10, 10), (3, 9)]
    examples = tf.data.Dataset.from_tensor_slices(lengths).map(
        lambda pair: {"inputs": tf.fill([pair[0]], 5), "targets": tf.fill([pair[1]], 6)}
    )

    batches = length_buckets.group_by_length(examples, boundaries=[8, 13], batch_sizes=[2, 3])

    shapes = [tuple(batch[name].shape for name in ("inputs", "targets")) for batch in batches]
    assert shapes == [((2, 4), (2, 7)), ((3, 10), (3, 10)), ((1, 3), (1, 9))]


def test_batches_are_padded_with_zeros():
    examples = tf.data.Dataset.from_tensor_slices([1, 3]).map(
        lambda length: {"inputs": tf.fill([length], 5), "targets": tf.fill([2], 6)}
    )

    (batch,) = length_buckets.group_by_length(examples, boundaries=[8], batch_sizes=[2])

    assert np.array_equal(batch["inputs"], [[5, 0, 0], [5, 5, 5]])
