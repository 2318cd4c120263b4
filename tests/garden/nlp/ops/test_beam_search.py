import itertools

import numpy as np
import pytest
import tensorflow as tf

from quintain.nlp.modeling.ops import beam_search

VOCAB_SIZE = 4
EOS = 1
MAX_LENGTH = 4


def make_table(seed):
    """Random logits of the next id, by the two ids before it."""
    shape = (VOCAB_SIZE, VOCAB_SIZE, VOCAB_SIZE)
    return np.random.default_rng(seed).normal(scale=2.0, size=shape).astype(np.float32)


def score_sequences(table, first, alpha):
    """Returns every finished sequence with its score, best first, by trying all of them."""
    log_probs = table - np.log(np.exp(table).sum(-1, keepdims=True))
    scores = {}
    words = [word for word in range(VOCAB_SIZE) if word != EOS]
    for length in range(MAX_LENGTH):
        for body in itertools.product(words, repeat=length):
            sequence = (*body, EOS)
            total, before, last = 0.0, first, first
            for word in sequence:
                total += log_probs[before, last, word]
                before, last = last, word
            scores[sequence] = total / ((5 + len(sequence)) / 6) ** alpha
    return sorted(scores.items(), key=lambda item: -item[1])


def search(table, first, *, beam_size, alpha, padded_decode=False, eos_id=EOS, num_results=None):
    """Searches with a model that keeps the id before the last one in its cache."""

    def step(ids, index, cache):
        last = ids[:, -1]
        before = tf.where(index == 0, last, cache["before"][:, 0])
        logits = tf.gather_nd(tf.constant(table), tf.stack([before, last], axis=1))
        return logits, {"before": last[:, tf.newaxis]}

    return beam_search.sequence_beam_search(
        step,
        tf.constant(first, tf.int32),
        {"before": tf.zeros([len(first), 1], tf.int32)},
        VOCAB_SIZE,
        beam_size,
        alpha,
        MAX_LENGTH,
        eos_id,
        padded_decode=padded_decode,
        num_results=num_results,
    )


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_wide_beam_finds_what_trying_everything_finds(seed, alpha):
    table, first = make_table(seed), [0, 2, 3]

    ids, scores = search(table, first, beam_size=40, alpha=alpha)

    for row, start in enumerate(first):
        best = score_sequences(table, start, alpha)[:3]
        for place, (sequence, score) in enumerate(best):
            found = ids[row, place].numpy()[1 : len(sequence) + 1]
            assert tuple(found) == sequence
            np.testing.assert_allclose(scores[row, place], score, rtol=1e-5)


def test_results_start_with_the_initial_id_and_end_padded():
    ids, _ = search(make_table(0), [2, 3], beam_size=3, alpha=0.6)

    np.testing.assert_array_equal(ids[:, 0, 0], [2, 3])
    for row in ids.numpy().reshape(-1, ids.shape[-1]):
        end = list(row[1:]).index(EOS) + 1
        assert not row[end + 1 :].any()


@pytest.mark.long("Further seeds", but=["3-0"])
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_fixed_shapes_give_the_same_result(seed, beam_size):
    table = make_table(seed)

    ids, scores = search(table, [0, 3], beam_size=beam_size, alpha=0.6)
    fixed_ids, fixed_scores = tf.function(
        lambda: search(table, [0, 3], beam_size=beam_size, alpha=0.6, padded_decode=True)
    )()

    length = ids.shape[-1]
    np.testing.assert_array_equal(fixed_ids[..., :length], ids)
    assert not fixed_ids[..., length:].numpy().any()
    np.testing.assert_allclose(fixed_scores, scores, rtol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_is_the_same_when_only_the_best_is_wanted(seed):
    table, first = make_table(seed), [0, 2, 3]

    ids, scores = search(table, first, beam_size=4, alpha=0.6)
    best_ids, best_scores = search(table, first, beam_size=4, alpha=0.6, num_results=1)

    assert best_ids.shape[-1] <= ids.shape[-1]
    np.testing.assert_array_equal(best_ids[:, 0], ids[:, 0, : best_ids.shape[-1]])
    assert not ids[:, 0, best_ids.shape[-1] :].numpy().any()
    np.testing.assert_array_equal(best_scores[:, 0], scores[:, 0])


def test_a_beam_of_one_follows_the_most_probable_ids_that_do_not_end():
    table = make_table(5)
    table[..., EOS] = -np.inf
    before = last = 3
    expected = []
    for _ in range(MAX_LENGTH):
        before, last = last, int(table[before, last].argmax())
        expected.append(last)

    ids, _ = search(table, [3], beam_size=1, alpha=0.0)

    assert ids[0, 0, 1:].numpy().tolist() == expected


def test_unfinished_candidates_are_returned_where_nothing_finished():
    table = make_table(0)
    table[..., EOS] = -np.inf

    ids, scores = search(table, [0], beam_size=2, alpha=0.6)

    assert EOS not in ids.numpy()
    assert ids.shape[-1] == MAX_LENGTH + 1
    assert np.isfinite(scores).all()
    assert (scores.numpy() > beam_search.WORST_SCORE).all()


def test_several_ids_may_end_a_sequence():
    ids, _ = search(make_table(0), [0], beam_size=3, alpha=0.6, eos_id=[1, 2])

    for row in ids[0].numpy():
        body = row[1:]
        end = min(place for place, word in enumerate(body) if word in (1, 2))
        assert not body[end + 1 :].any()
