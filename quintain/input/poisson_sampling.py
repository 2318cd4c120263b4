"""Batches in which every example takes part by chance, as the privacy accountant assumes.

At every step each example is drawn with the same probability, independent of all others and of all
other steps. So batches differ in size; they are padded to a size that is practically never
exceeded.

Shapes:
    B  rows of a batch, filled up; `max_size`
    N  examples that a replica draws from
    D  examples drawn at a step, before they are cut to B

Source:
    Abadi et al., 2016, section 3.1 (https://arxiv.org/abs/1607.00133).
"""

import dataclasses
import math
from typing import Any, Final, NamedTuple

import tensorflow as tf

from quintain import errors
from quintain.orbit import iterators

OVERFLOW_PROBABILITY: Final = 1e-9
"""Largest probability that a step draws more examples than a batch has room for."""


class PoissonBatch(NamedTuple):
    """A batch padded to a fixed size, of which only some rows are drawn examples."""

    inputs: Any
    """The batch as without padding; first dimension B of every tensor."""

    is_real: tf.Tensor
    """`[B]` bool: whether the row is a drawn example, and not padding."""

    expected_size: tf.Tensor
    """Scalar float32: mean number of drawn examples in such a batch."""

    num_dropped: tf.Tensor
    """Scalar int64: examples that were drawn but found no room."""


def to_batch(inputs: Any) -> PoissonBatch:
    """Returns a batch of which every row is real, unless it is a `PoissonBatch` already."""
    if isinstance(inputs, PoissonBatch):
        return inputs
    rows = next(part for part in tf.nest.flatten(inputs) if part.shape.rank != 0)
    num_rows = tf.shape(rows)[0] if rows.shape[0] is None else rows.shape[0]
    return PoissonBatch(
        inputs,
        is_real=tf.ones([num_rows], tf.bool),
        expected_size=tf.cast(num_rows, tf.float32),
        num_dropped=tf.zeros([], tf.int64),
    )


def get_real(inputs: Any) -> Any:
    """Returns the drawn examples of a `PoissonBatch`, and any other batch as it is."""
    if not isinstance(inputs, PoissonBatch):
        return inputs
    return tf.nest.map_structure(lambda part: tf.boolean_mask(part, inputs.is_real), inputs.inputs)


def is_sampled(dataset: Any) -> bool:
    """Returns whether a dataset, distributed or not, has batches of `sample`."""
    return isinstance(getattr(dataset, "element_spec", None), PoissonBatch)


def choose_max_size(num_examples: int, rate: float) -> int:
    """Returns a size that a random batch exceeds with at most `OVERFLOW_PROBABILITY`.

    Args:
        num_examples: Examples that may be drawn.
        rate: Probability of each, in `(0, 1]`.

    Source:
        The Chernoff bound: `P(X >= n a) <= exp(-n KL(a || rate))` for a binomial `X`.
    """
    low, high = int(num_examples * rate), num_examples
    while low < high:  # The smallest size such that one more is improbable enough.
        middle = (low + high) // 2
        share = (middle + 1) / num_examples
        if num_examples * _divergence(share, rate) >= -math.log(OVERFLOW_PROBABILITY):
            high = middle
        else:
            low = middle + 1
    return low


@dataclasses.dataclass(frozen=True)
class Share:
    """The part of a distributed batch that one input pipeline makes."""

    num_replicas: int = 1
    """Replicas in sync."""

    num_pipelines: int = 1
    """Input pipelines, each of which feeds the same number of replicas."""

    pipeline: int = 0
    """Number of this pipeline."""

    @classmethod
    def from_context(cls, input_context: tf.distribute.InputContext | None) -> "Share":
        """Reads the share of a worker from its input context."""
        if input_context is None:
            return cls()
        return cls(
            input_context.num_replicas_in_sync,
            input_context.num_input_pipelines,
            input_context.input_pipeline_id,
        )

    @property
    def num_local(self) -> int:
        """Replicas that this pipeline feeds."""
        return self.num_replicas // self.num_pipelines


def sample(
    examples: tf.data.Dataset,
    *,
    num_examples: int,
    batch_size: float,
    seed: int,
    share: Share | None = None,
) -> tf.data.Dataset:
    """Draws an endless sequence of random batches.

    The examples are read once and stay in memory; those of different sizes are padded with zeros to
    the largest. What is drawn depends on nothing but seed and step, so the position of an iterator
    is a single number. Example `i` is trained on by replica `i % num_replicas`.

    Args:
        examples: All examples of the training data, once, in an order that never changes.
        num_examples: Their number.
        batch_size: Mean number of examples in a batch over all replicas.
        seed: Seed of the draws.
        share: The part of each batch that this pipeline makes; all of it by default.

    Returns:
        `PoissonBatch`es of one replica each: consecutive ones for the replicas of this pipeline.

    Raises:
        DataError: If there are more or fewer examples.
        ConfigError: If a batch has no or more than all examples.
    """
    share = share or Share()
    if not 0 < batch_size <= num_examples:
        raise errors.ConfigError(
            f"`0 < batch_size <= num_examples` must hold, but got {batch_size=}, {num_examples=}."
        )
    rate = batch_size / num_examples
    parts = _read_parts(examples, num_examples, share)
    # Parts differ by one example at most; all have the room of the largest.
    max_size = max(1, choose_max_size(-(-num_examples // share.num_replicas), rate))

    def draw(part: Any, size: int, number: int, step: tf.Tensor) -> PoissonBatch:
        stream = step * share.num_replicas + share.pipeline * share.num_local + number
        chances = tf.random.stateless_uniform(
            [size], tf.stack([tf.constant(seed, tf.int64), stream]), dtype=tf.float64, alg="philox"
        )  # [N]
        drawn = tf.reshape(tf.where(chances < rate), [-1])  # [D]
        num_drawn = tf.size(drawn, out_type=tf.int64)
        rows = tf.pad(drawn[:max_size], [[0, tf.maximum(0, max_size - tf.size(drawn))]])
        rows = tf.ensure_shape(rows, [max_size])  # [B]
        return PoissonBatch(
            tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), part),
            is_real=tf.range(max_size, dtype=tf.int64) < num_drawn,
            expected_size=tf.constant(batch_size / share.num_replicas, tf.float32),
            num_dropped=tf.maximum(tf.constant(0, tf.int64), num_drawn - max_size),
        )

    def draw_step(step: tf.Tensor) -> tf.data.Dataset:
        batches = [draw(part, size, number, step) for number, (part, size) in enumerate(parts)]
        stacked = tf.nest.map_structure(lambda *tensors: tf.stack(tensors), *batches)
        return tf.data.Dataset.from_tensor_slices(stacked)

    if len(parts) == 1:
        part, size = parts[0]
        return tf.data.Dataset.counter().map(lambda step: draw(part, size, 0, step))
    return tf.data.Dataset.counter().flat_map(draw_step)


def _divergence(share: float, rate: float) -> float:
    """Returns the Kullback-Leibler divergence of two coins, in nats."""
    if share <= rate:
        return 0.0
    if share >= 1.0:
        return -math.log(rate)
    return share * math.log(share / rate) + (1 - share) * math.log((1 - share) / (1 - rate))


def _read_parts(
    examples: tf.data.Dataset, num_examples: int, share: Share
) -> list[tuple[Any, int]]:
    """Returns the tensors, and the number, of each replica's examples."""
    try:
        everything = next(iterators.create(examples.padded_batch(num_examples + 1)), None)
    except TypeError as error:
        raise errors.DataError(
            f"Poisson sampling needs examples of dense tensors, but got {examples.element_spec!r}. "
            "Make them dense, or set task.differential_privacy_config.poisson_sampling=False."
        ) from error
    found = 0 if everything is None else int(tf.shape(tf.nest.flatten(everything)[0])[0])
    if found != num_examples:
        count = f"more than {num_examples}" if found > num_examples else str(found)
        raise errors.DataError(
            f"task.differential_privacy_config.num_examples: got {num_examples}, but the training "
            f"data has {count} examples."
        )
    first = share.pipeline * share.num_local
    parts = [
        tf.nest.map_structure(
            lambda tensor, start=start: tensor[start :: share.num_replicas], everything
        )
        for start in range(first, first + share.num_local)
    ]
    return [(part, int(tf.shape(tf.nest.flatten(part)[0])[0])) for part in parts]
