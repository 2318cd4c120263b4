"""Candidate samplers (word2vec's, of sampled losses) as functions of a seed.

Those of TensorFlow keep their random state in their kernels. These draw from the same distributions
and give the same expected counts for what they drew.

Shapes:
    N  classes drawn
    B  examples
    T  true classes of each
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidates:
    """Result of a candidate sampler."""

    sampled_candidates: tf.Tensor
    """`[N]` int64."""

    true_expected_count: tf.Tensor
    """`[B, T]` float32: how often the true classes are expected among as many draws."""

    sampled_expected_count: tf.Tensor
    """`[N]` float32: the same of the drawn ones."""

    def __iter__(self) -> Any:
        """Gives the three, as TensorFlow's tuples do."""
        return iter(
            (self.sampled_candidates, self.true_expected_count, self.sampled_expected_count)
        )

    def __getitem__(self, place: Any) -> Any:
        return tuple(self)[place]

    def __len__(self) -> int:
        return 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distribution:
    """Probabilities of classes."""

    pick: Callable[[tf.Tensor], tf.Tensor]
    """Classes, `[...]` int64, for uniform numbers, `[...]` float64."""

    weigh: Callable[[tf.Tensor], tf.Tensor]
    """Probabilities, `[...]` float64, of classes, `[...]` int64."""

    num_possible: int
    """Classes that can be drawn."""


def uniform(range_max: int) -> Distribution:
    """Has each class as often as any other."""
    return Distribution(
        pick=lambda numbers: tf.cast(numbers * range_max, tf.int64),
        weigh=lambda classes: tf.fill(tf.shape(classes), tf.constant(1 / range_max, tf.float64)),
        num_possible=range_max,
    )


def log_uniform(range_max: int) -> Distribution:
    """Follows Zipf's law: class `k` has `log((k + 2) / (k + 1)) / log(range_max + 1)`."""
    log_range = math.log1p(range_max)

    def weigh(classes: tf.Tensor) -> tf.Tensor:
        return tf.math.log1p(1 / (tf.cast(classes, tf.float64) + 1)) / log_range

    return Distribution(
        pick=lambda numbers: tf.cast(tf.math.expm1(numbers * log_range), tf.int64) % range_max,
        weigh=weigh,
        num_possible=range_max,
    )


def fixed_unigram(
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
) -> Distribution:
    """Has classes as often as a vocabulary's counts, to the power of `distortion`, say."""
    counts = list(unigrams) or _read_counts(vocab_file)
    weights = np.concatenate([np.zeros(num_reserved_ids), np.asarray(counts) ** distortion])
    if len(weights) != range_max:
        raise ValueError(
            f"fixed_unigram_candidate_sampler: range_max={range_max}, but there are "
            f"{len(weights)} classes, {num_reserved_ids} of them reserved."
        )
    weights[np.arange(range_max) % num_shards != shard] = 0.0
    probabilities = weights / weights.sum()
    # The last sum is 1 but for rounding; classes after the last possible one are never drawn.
    sums = np.cumsum(probabilities)
    sums[np.flatnonzero(weights)[-1] :] = 1.0

    return Distribution(
        pick=lambda numbers: tf.raw_ops.UpperBound(
            sorted_inputs=sums[None], values=numbers[None], out_type=tf.int64
        )[0],
        weigh=lambda classes: tf.gather(tf.constant(probabilities), classes),
        num_possible=int(np.count_nonzero(weights)),
    )


def _read_counts(path: str) -> list[float]:
    """Returns the last column of each line."""
    with tf.io.gfile.GFile(path) as file:
        return [float(line.rsplit(",", 1)[-1]) for line in file if line.strip()]


def sample(
    describe: Callable[..., Distribution],
    seed: tf.Tensor,
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    *settings: Any,
    name: str | None = None,
    **named_settings: Any,
) -> Candidates:
    """Draws candidates, as TensorFlow's samplers do with the arguments after the seed.

    Args:
        describe: Returns the distribution, from `range_max` and the settings that only it has.
        seed: `[2]` int64.
        true_classes: `[B, T]` int64.
        num_true: T.
        num_sampled: N.
        unique: Whether each class is drawn once at most.
        range_max: Number of classes.
        *settings: For `describe`.
        name: Of the operations.
        **named_settings: For `describe`.

    Raises:
        ValueError: If there are not as many different classes, or the settings don't fit.
    """
    del num_true
    distribution = describe(range_max, *settings, **named_settings)
    if unique and num_sampled > distribution.num_possible:
        raise ValueError(
            f"Of {distribution.num_possible} classes {num_sampled=} different ones can't be drawn."
        )
    with tf.name_scope(name or "CandidateSampler"):
        true_classes = tf.convert_to_tensor(true_classes, tf.int64)
        draw = _draw_unique if unique else _draw
        sampled, num_tries = draw(seed, distribution, num_sampled)
        sampled.set_shape([num_sampled])

        def expect(classes: tf.Tensor) -> tf.Tensor:
            weights = distribution.weigh(classes)
            times = tf.cast(num_tries, tf.float64)
            if not unique:
                return tf.cast(times * weights, tf.float32)
            once = -tf.math.expm1(times * tf.math.log1p(-weights))
            is_first = tf.fill(tf.shape(classes), tf.equal(num_tries, num_sampled))
            return tf.cast(tf.compat.v1.where(is_first, times * weights, once), tf.float32)

        return Candidates(
            sampled_candidates=sampled,
            true_expected_count=expect(true_classes),
            sampled_expected_count=expect(sampled),
        )


def _draw(
    seed: tf.Tensor, distribution: Distribution, num: int | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns classes, `[num]`, and how many draws these were."""
    numbers = tf.random.stateless_uniform([num], seed, dtype=tf.float64)
    return distribution.pick(numbers), tf.cast(num, tf.int64)


def _draw_unique(
    seed: tf.Tensor, distribution: Distribution, num: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns different classes, `[num]`, and how many draws it took to find them.

    Each round draws as many as all before it.
    """

    def is_short(_: tf.Tensor, drawn: tf.Tensor) -> tf.Tensor:
        return tf.size(tf.unique(drawn).y) < num

    def draw_more(round_number: tf.Tensor, drawn: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        own_seed = tf.random.experimental.stateless_fold_in(seed, round_number)
        more, _ = _draw(own_seed, distribution, tf.size(drawn))
        return round_number + 1, tf.concat([drawn, more], axis=0)

    first, _ = _draw(seed, distribution, num)
    _, drawn = tf.while_loop(
        is_short,
        draw_more,
        (tf.constant(1, tf.int64), first),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
    )
    classes, places = tf.unique(drawn)
    return classes[:num], tf.where(tf.equal(places, num - 1))[0, 0] + 1
