"""Searches with rules, compared with trying all sequences of a tiny vocabulary."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.modeling.ops import beam_search, decoding_rules

VOCAB_SIZE, MAX_LENGTH = 4, 5


def make_table(seed):
    return np.random.default_rng(seed).normal(size=[VOCAB_SIZE] * 2).astype(np.float32)


def has_repeat(ids, size):
    runs = [ids[start : start + size] for start in range(len(ids) - size + 1)]
    return len(set(runs)) < len(runs)


def try_all(table, first, *, eos_ids, alpha, min_length, size, prefix):
    """Returns all allowed sequences that end, with their scores, best first."""
    log_probs = table - np.log(np.exp(table).sum(-1, keepdims=True))
    scores = {}
    words = [word for word in range(VOCAB_SIZE) if word not in eos_ids]
    for length in range(MAX_LENGTH):
        for body in itertools.product(words, repeat=length):
            for end in eos_ids:
                ids = (*body, end)
                is_allowed = (
                    length >= min_length
                    and ids[: len(prefix)] == prefix
                    and not (size and has_repeat(ids, size))
                )
                if is_allowed:
                    total = sum(log_probs[a, b] for a, b in zip((first, *ids), ids, strict=False))
                    scores[ids] = total / ((5 + len(ids)) / 6) ** alpha
    return sorted(scores.items(), key=lambda item: -item[1])


@pytest.mark.parametrize("padded_decode", [False, True])
@pytest.mark.parametrize(
    ("eos_ids", "alpha", "min_length", "size", "prefix"),
    [
        ((1,), 0.6, 2, 0, ()),
        ((1,), 0.0, 4, 0, ()),
        ((1,), 0.6, 0, 1, ()),
        ((1,), 0.6, 2, 2, ()),
        ((1,), 1.0, 0, 3, ()),
        ((1,), 0.6, 0, 0, (2, 3)),
        ((1,), 0.6, 3, 2, (3,)),
        ((1, 3), 0.6, 1, 0, ()),
        ((1, 3), 0.0, 0, 2, (2,)),
    ],
)
def test_a_wide_beam_finds_what_trying_everything_finds(
    eos_ids, alpha, min_length, size, prefix, padded_decode
):
    table, first = make_table(3), [0, 2]
    forced = tf.constant([prefix, prefix], tf.int32) if prefix else None

    ids, scores = beam_search.sequence_beam_search(
        lambda ids, index, cache: (tf.gather(tf.constant(table), ids[:, -1]), cache),
        tf.constant(first, tf.int32),
        {},
        VOCAB_SIZE,
        250,
        alpha,
        MAX_LENGTH,
        list(eos_ids),
        padded_decode=padded_decode,
        min_length=min_length,
        no_repeat_ngram_size=size,
        prefix=forced,
    )

    for row, start in enumerate(first):
        best = try_all(
            table,
            start,
            eos_ids=eos_ids,
            alpha=alpha,
            min_length=min_length,
            size=size,
            prefix=prefix,
        )
        assert len(best) >= 3
        for place, (sequence, score) in enumerate(best[:8]):
            found = ids[row, place].numpy()[1 : len(sequence) + 1]
            assert tuple(found) == sequence
            np.testing.assert_allclose(scores[row, place], score, rtol=1e-5)


def test_every_example_may_have_its_own_limit():
    table = make_table(0)
    table[:, :2] = -np.inf

    ids, _ = beam_search.sequence_beam_search(
        lambda ids, index, cache: (tf.gather(tf.constant(table), ids[:, -1]), cache),
        tf.constant([0, 0, 0]),
        {},
        VOCAB_SIZE,
        2,
        0.0,
        tf.constant([1, 6, 3]),
        1,
    )

    assert np.count_nonzero(ids[:, 0], axis=1).tolist() == [1, 6, 3]


@pytest.mark.parametrize("name", ["min_length", "no_repeat_ngram_size"])
def test_negative_numbers_are_errors(name):
    with pytest.raises(errors.ConfigError, match=f"{name}: got -1"):
        decoding_rules.Rules((1,), **{name: -1})


def test_no_end_is_an_error():
    with pytest.raises(errors.ConfigError, match="eos_id"):
        decoding_rules.Rules(())
