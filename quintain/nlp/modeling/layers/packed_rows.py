"""The tokens of a padded batch as the rows of one matrix, so that layers skip the padding.

Most layers treat each position alone; for them it does not matter which sequence a row belongs to.
Only attention needs the sequences side by side, and spreads its queries, keys and values out.

Shapes:
    B  sequences in the batch
    S  positions, padding included
    N  tokens of all sequences
    D  width of what each has
"""

from collections.abc import Callable

import tensorflow as tf

from quintain.distribute import replica_steps


class PackedRows:
    """Positions of the tokens of a padded batch.

    Padding gets no row, and `spread` fills its place with the token before it, so that what is
    computed there means nothing: it has to be masked wherever a token could see it.

    Example:
        >>> rows = PackedRows(tf.constant([[5, 6, 0], [7, 0, 0]]) > 0)
        >>> rows.pack(tf.constant([[[5.0], [6.0], [0.0]], [[7.0], [0.0], [0.0]]])).numpy().tolist()
        [[5.0], [6.0], [7.0]]
        >>> rows.positions.numpy().tolist()
        [0, 1, 0]
    """

    def __init__(self, is_token: tf.Tensor) -> None:
        """Finds the tokens of `[B, S]` bool, false for padding.

        The batch's first position gets a row even if it is padding, which is filled with it.
        """
        self._shape = tf.shape(is_token)
        flat = tf.reshape(is_token, [-1])  # [B * S]
        flat = tf.logical_or(flat, tf.range(tf.size(flat)) < 1)
        self._places = tf.cast(tf.where(flat)[:, 0], tf.int32)  # [N]
        self._rows = tf.cumsum(tf.cast(flat, tf.int32)) - 1  # [B * S]
        # Where a gradient comes from: for padding a row of zeros, put below the others.
        self._sources = tf.where(flat, self._rows, tf.size(self._places))  # [B * S]

    @property
    def positions(self) -> tf.Tensor:
        """`[N]` int32: each row's position in its sequence, from 0."""
        return self._places % self._shape[1]

    def pack(self, x: tf.Tensor) -> tf.Tensor:
        """Turns `[B, S, D]` into `[N, D]`, and `[B, S]` into `[N]`."""
        flat = tf.reshape(x, [-1, *x.shape[2:]])  # [B * S, ...]
        if not x.dtype.is_floating:
            return tf.gather(flat, self._places)
        return self._take(flat)

    def spread(self, rows: tf.Tensor) -> tf.Tensor:
        """Turns `[N, D]` into `[B, S, D]`; no gradient flows from padding."""

        @tf.custom_gradient
        def compute(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            return tf.gather(x, self._rows), lambda upstream: tf.gather(upstream, self._places)

        width = rows.shape[-1]
        return tf.reshape(compute(rows), [self._shape[0], self._shape[1], width])

    def _take(self, flat: tf.Tensor) -> tf.Tensor:
        """Returns rows of `[B * S, D]`; its gradient is gathered too, faster than it is added."""

        @tf.custom_gradient
        def compute(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            def backward(upstream: tf.Tensor) -> tf.Tensor:
                nothing = tf.zeros([1, flat.shape[-1]], upstream.dtype)  # [1, D]
                return tf.gather(tf.concat([upstream, nothing], axis=0), self._sources)

            return tf.gather(x, self._places), backward

        return compute(flat)


def find(is_token: tf.Tensor, *, is_wanted: bool) -> PackedRows | None:
    """Returns where the tokens of a batch `[B, S]` are, or None if padding is computed as well.

    It is, though tokens alone are wanted, in a step that XLA compiles, which needs fixed shapes.
    """
    return PackedRows(is_token) if is_wanted and not replica_steps.is_compiled() else None
