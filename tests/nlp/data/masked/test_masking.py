"""Rates are compared with their expectation; bounds are five standard deviations."""

import math

import numpy as np
import pytest
import tensorflow as tf

from quintain.nlp.data.masked import masking

NUM_SPECIAL, VOCAB_SIZE, MASK_ID = 5, 105, 4
CLS_ID, SEP_ID = 2, 3


def make_rules(max_predictions=20, **fields):
    is_ordinary = np.arange(VOCAB_SIZE) >= NUM_SPECIAL
    starts_word = np.arange(VOCAB_SIZE) % 3 != 0
    return masking.MaskingRules(MASK_ID, is_ordinary, starts_word, max_predictions, **fields)


def make_ids(num_sequences=2_000, length=100, num_padding=20, seed=0):
    ids = np.random.default_rng(seed).integers(NUM_SPECIAL, VOCAB_SIZE, [num_sequences, length])
    ids[:, 0], ids[:, length // 2], ids[:, length - num_padding - 1] = CLS_ID, SEP_ID, SEP_ID
    ids[:, length - num_padding :] = 0
    return ids.astype(np.int32)


def within(rate, expected, count):
    return abs(rate - expected) < 5 * math.sqrt(expected * (1 - expected) / count)


@pytest.fixture(scope="module")
def masked():
    ids = make_ids()
    outputs = masking.mask_words(tf.constant(ids), make_rules(), tf.constant([1, 2]))
    return ids, {name: value.numpy() for name, value in outputs.items()}


def test_fifteen_percent_of_the_tokens_are_chosen(masked):
    _, outputs = masked

    assert (outputs["masked_lm_weights"].sum(axis=1) == round(77 * 0.15)).all()


def test_every_place_has_the_same_chance(masked):
    ids, outputs = masked
    chosen = outputs["masked_lm_positions"][outputs["masked_lm_weights"] == 1]

    counts = np.bincount(chosen, minlength=100)[ids[0] >= NUM_SPECIAL]

    expected = len(chosen) / 77
    assert (np.abs(counts - expected) < 5 * math.sqrt(expected)).all()


def test_eighty_percent_become_masks_and_ten_another_token(masked):
    ids, outputs = masked
    weights = outputs["masked_lm_weights"] == 1
    rows = np.nonzero(weights)[0]
    after = outputs["input_word_ids"][rows, outputs["masked_lm_positions"][weights]]
    before = outputs["masked_lm_ids"][weights]

    count = len(before)
    is_mask, is_same = after == MASK_ID, after == before

    assert count == 2_000 * 12
    assert within(is_mask.mean(), 0.8, count)
    # A hundredth of the random tokens is the right one by chance.
    assert within(is_same.mean(), 0.1 + 0.1 / 100, count)
    drawn = after[~is_mask & ~is_same]
    assert drawn.min() >= NUM_SPECIAL
    assert len(np.unique(drawn)) == 100
    np.testing.assert_array_equal(before, ids[rows, outputs["masked_lm_positions"][weights]])


def test_special_tokens_are_never_chosen_and_the_rest_stays(masked):
    ids, outputs = masked
    is_special = ids < NUM_SPECIAL

    np.testing.assert_array_equal(outputs["input_word_ids"][is_special], ids[is_special])
    weights = outputs["masked_lm_weights"] == 1
    assert (outputs["masked_lm_ids"][weights] >= NUM_SPECIAL).all()
    changed = outputs["input_word_ids"] != ids
    rows, places = np.nonzero(changed)
    is_listed = (outputs["masked_lm_positions"][rows] == places[:, np.newaxis]) & weights[rows]
    assert is_listed.any(axis=1).all()


def test_positions_are_in_order_and_what_is_left_over_has_no_weight(masked):
    _, outputs = masked
    weights = outputs["masked_lm_weights"] == 1

    assert outputs["masked_lm_positions"].dtype == np.int32
    assert (np.diff(outputs["masked_lm_positions"][:, :12], axis=1) > 0).all()
    assert not outputs["masked_lm_positions"][~weights].any()
    assert not outputs["masked_lm_ids"][~weights].any()


def test_there_is_a_limit_and_one_at_least():
    rules = make_rules(max_predictions=3, masking_rate=0.5)
    ids = tf.constant([[CLS_ID, *range(10, 30), SEP_ID], [CLS_ID, 10, SEP_ID] + [0] * 19])

    weights = masking.mask_words(ids, rules, tf.constant([0, 0]))["masked_lm_weights"]

    assert weights.numpy().sum(axis=1).tolist() == [3, 1]


def test_nothing_is_chosen_where_there_is_nothing():
    ids = tf.constant([[CLS_ID, SEP_ID, 0, 0]])

    outputs = masking.mask_words(ids, make_rules(), tf.constant([0, 0]))

    assert outputs["input_word_ids"].numpy().tolist() == ids.numpy().tolist()
    assert outputs["masked_lm_positions"].shape == (1, 20)
    assert not outputs["masked_lm_weights"].numpy().any()


def test_a_seed_chooses_the_same_and_another_one_others():
    ids, rules = tf.constant(make_ids(4)), make_rules()

    first, again, other = (
        masking.mask_words(ids, rules, tf.constant([0, number]))["input_word_ids"].numpy()
        for number in (1, 1, 2)
    )

    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_words_are_masked_as_a_whole():
    ids = make_ids(500, num_padding=0)
    rules = make_rules(whole_words=True)
    outputs = masking.mask_words(tf.constant(ids), rules, tf.constant([0, 3]))
    is_ordinary = ids >= NUM_SPECIAL
    after_special = np.pad(~is_ordinary, [[0, 0], [1, 0]])[:, :-1]
    starts = rules.starts_word[ids] | ~is_ordinary | after_special
    words = np.cumsum(starts, axis=1)
    chosen = np.zeros(ids.shape, bool)
    weights = outputs["masked_lm_weights"].numpy() == 1
    rows = np.nonzero(weights)[0]
    chosen[rows, outputs["masked_lm_positions"].numpy()[weights]] = True

    is_whole = [
        len(set(chosen[row, words[row] == word].tolist())) == 1
        for row in range(len(ids))
        for word in np.unique(words[row])
    ]

    assert all(is_whole)
    wanted = round((ids[0] >= NUM_SPECIAL).sum() * 0.15)
    counts = chosen.sum(axis=1)
    assert counts.max() == wanted
    assert counts.mean() > wanted - 1.5


def test_a_word_longer_than_the_limit_is_cut():
    rules = make_rules(max_predictions=2, whole_words=True, masking_rate=1.0)
    ids = tf.constant([[CLS_ID, 10, 12, 15, 18, SEP_ID]])  # 12, 15, 18 go on with the word.

    weights = masking.mask_words(ids, rules, tf.constant([0, 0]))["masked_lm_weights"]

    assert weights.numpy().tolist() == [[1.0, 1.0]]
