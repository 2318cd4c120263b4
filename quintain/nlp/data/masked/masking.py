"""Random masking of words that a model is to predict, inside the graph.

Shapes:
    B  sequences
    S  positions of a sequence
    M  masked positions of a sequence
    V  tokens of the vocabulary
"""

import dataclasses
from typing import Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from quintain.nlp.data.masked import bert_vocabulary

MASK_TOKEN_RATE: Final = 0.8
"""Share of the chosen tokens that become `[MASK]`."""

RANDOM_TOKEN_RATE: Final = 0.1
"""Share of the chosen tokens that become any other; the rest stay as they are."""


@dataclasses.dataclass(frozen=True)
class MaskingRules:
    """Rules for choosing masked tokens."""

    mask_id: int
    """The token `[MASK]`."""

    can_be_masked: npt.NDArray[np.bool_]
    """`[V]` bool: tokens that may be chosen, and that replace others. No special token is."""

    starts_word: npt.NDArray[np.bool_]
    """`[V]` bool: tokens at the beginning of a word."""

    max_predictions: int
    """Most tokens chosen in a sequence, M."""

    masking_rate: float = 0.15
    """Share of the tokens of a sequence that are chosen; at least one is."""

    whole_words: bool = False
    """Whether all tokens of a word are chosen together."""

    @classmethod
    def from_vocabulary(
        cls,
        vocabulary: bert_vocabulary.BertVocabulary,
        *,
        max_predictions: int,
        masking_rate: float = 0.15,
        whole_words: bool = False,
    ) -> "MaskingRules":
        """Returns the rules of a vocabulary: its special tokens are never chosen.

        Raises:
            ConfigError: If it has no `[MASK]`.
        """
        return cls(
            mask_id=vocabulary.mask_id,
            can_be_masked=~vocabulary.is_special,
            starts_word=vocabulary.starts_word,
            max_predictions=max_predictions,
            masking_rate=masking_rate,
            whole_words=whole_words,
        )


def mask_words(ids: tf.Tensor, rules: MaskingRules, seed: tf.Tensor) -> dict[str, tf.Tensor]:
    """Chooses tokens of sequences at random and hides most of them.

    Of the chosen tokens 80 % become `[MASK]`, 10 % a random ordinary token, and 10 % stay.

    Args:
        ids: `[B, S]` int32, padded with 0.
        rules: Which tokens may be chosen, and how many.
        seed: `[2]` integer. The same seed chooses the same tokens.

    Returns:
        `input_word_ids` `[B, S]` int32; `masked_lm_positions` `[B, M]` int32, in ascending order
        and then 0; `masked_lm_ids` `[B, M]` int32, the tokens there before; and
        `masked_lm_weights` `[B, M]` float32, 1 for chosen tokens and 0 for the rest.

    Source:
        Devlin et al., 2019, section 3.1 and appendix A.1 (https://arxiv.org/abs/1810.04805).
    """
    seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
    candidates = tf.gather(tf.constant(rules.can_be_masked), ids)
    is_chosen = _choose(ids, candidates, rules, seeds[0])
    positions = _find_positions(is_chosen, rules.max_predictions)
    weights = tf.cast(
        tf.sequence_mask(
            tf.reduce_sum(tf.cast(is_chosen, tf.int32), axis=1), rules.max_predictions
        ),
        tf.int32,
    )
    return {
        "input_word_ids": tf.where(is_chosen, _replace(ids, rules, seeds[1], seeds[2]), ids),
        "masked_lm_positions": positions * weights,
        "masked_lm_ids": tf.gather(ids, positions, batch_dims=1) * weights,
        "masked_lm_weights": tf.cast(weights, tf.float32),
    }


def _replace(
    ids: tf.Tensor, rules: MaskingRules, seed: tf.Tensor, token_seed: tf.Tensor
) -> tf.Tensor:
    shape = tf.shape(ids)
    fate = tf.random.stateless_uniform(shape, seed)
    ordinary = tf.constant(np.flatnonzero(rules.can_be_masked), tf.int32)
    drawn = tf.random.stateless_uniform(
        shape, token_seed, 0, tf.size(ordinary, tf.int32), dtype=tf.int32
    )
    is_random = fate < MASK_TOKEN_RATE + RANDOM_TOKEN_RATE
    others = tf.where(is_random, tf.gather(ordinary, drawn), ids)
    return tf.where(fate < MASK_TOKEN_RATE, rules.mask_id, others)


def _choose(
    ids: tf.Tensor, candidates: tf.Tensor, rules: MaskingRules, seed: tf.Tensor
) -> tf.Tensor:
    """Returns `[B, S]` bool: the tokens to predict."""
    num_candidates = tf.reduce_sum(tf.cast(candidates, tf.int32), axis=1, keepdims=True)
    wanted = tf.round(tf.cast(num_candidates, tf.float32) * rules.masking_rate)
    wanted = tf.clip_by_value(tf.cast(wanted, tf.int32), 1, rules.max_predictions)
    words = tf.broadcast_to(tf.range(tf.shape(ids)[1]), tf.shape(ids))
    if rules.whole_words:
        starts = ~candidates | tf.gather(tf.constant(rules.starts_word), ids)
        # A token after one that can't be masked starts a word, whatever it looks like.
        starts |= tf.concat([tf.ones_like(starts[:, :1]), ~candidates[:, :-1]], axis=1)
        words = tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1
    draws = tf.random.stateless_uniform(tf.shape(ids), seed)
    # The words in random order, the tokens of each side by side, what can't be masked at the end.
    scores = tf.gather(draws, words, batch_dims=1) + tf.where(candidates, 0.0, 2.0)
    order = tf.argsort(scores, axis=1, stable=True)
    ranks = tf.argsort(order, axis=1)
    if rules.whole_words:
        return candidates & _fit_words(tf.gather(words, order, batch_dims=1), ranks, wanted)
    return candidates & (ranks < wanted)


def _fit_words(ordered_words: tf.Tensor, ranks: tf.Tensor, wanted: tf.Tensor) -> tf.Tensor:
    """Returns `[B, S]` bool: the tokens of the first words that fit as a whole.

    `ordered_words` `[B, S]` has the word of each place in the random order, `ranks` `[B, S]` the
    place of each position in it, and `wanted` `[B, 1]` how many tokens to choose.
    """
    next_words = tf.concat([ordered_words[:, 1:], tf.fill(tf.shape(ordered_words[:, :1]), -1)], 1)
    is_end = ordered_words != next_words
    places = tf.range(1, tf.shape(ranks)[1] + 1)[tf.newaxis, :]
    whole = tf.reduce_max(tf.where(is_end & (places <= wanted), places, 0), axis=1, keepdims=True)
    # A first word longer than all that may be chosen is cut: something has to be predicted.
    return ranks < tf.where(whole == 0, wanted, whole)


def _find_positions(is_chosen: tf.Tensor, max_predictions: int) -> tf.Tensor:
    """Returns `[B, M]` int32: the chosen positions in ascending order, then others."""
    order = tf.argsort(tf.cast(~is_chosen, tf.int32), axis=1, stable=True)
    missing = tf.maximum(max_predictions - tf.shape(order)[1], 0)
    padded = tf.pad(order, [[0, 0], [0, missing]])[:, :max_predictions]
    return tf.ensure_shape(padded, [None, max_predictions])
