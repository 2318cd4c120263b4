"""Cross entropy of integer labels from logits in bfloat16 or float32, in one pass each way.

Shapes:
    N  positions
    V  vocabulary size
"""

from collections.abc import Callable
from typing import Final

import tensorflow as tf

from quintain.kernels import casts, library

_SAME_NUMBERS: Final = ("Reshape", "Identity", "IdentityN", "EnsureShape")


def smoothed_cross_entropy(logits: tf.Tensor, labels: tf.Tensor, smoothing: float) -> tf.Tensor:
    """Computes what `token_losses.smoothed_cross_entropy` does.

    The gradient needs of the forward pass the logits, which are there anyway, and two numbers a
    position; it takes the place of the logits where nobody else needs them.

    Args:
        logits: `[N, V]` float32 or bfloat16.
        labels: `[N]` int32 in `[0, V)`; the gradient of others is an error.
        smoothing: Probability taken from the label, in `[0, 1)`.

    Returns:
        `[N]` float32, in nats.
    """
    operations = library.get()
    vocab_size = tf.cast(tf.shape(logits)[-1], tf.float32)
    on, off = 1.0 - smoothing, smoothing / tf.maximum(vocab_size - 1.0, 1.0)
    entropy = -(tf.math.xlogy(on, on) + (vocab_size - 1.0) * tf.math.xlogy(off, off))

    @tf.custom_gradient
    def compute(scores: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        found = operations.quintain_measure_logits(logits=scores, labels=labels)
        normaliser = found.maximum + tf.math.log(found.exp_sum)  # [N]
        loss = normaliser - (on - off) * found.label_logit - entropy
        if smoothing:
            loss -= off * found.logit_sum

        def backward(upstream: tf.Tensor) -> tf.Tensor:
            return operations.quintain_cross_entropy_gradient(
                logits=scores,
                labels=labels,
                maximum=found.maximum,
                exp_sum=found.exp_sum,
                upstream=upstream,
                smoothing=smoothing,
            )

        return loss, backward

    return compute(logits)


def find_right(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns where the likeliest class, the first of several, is the label.

    In a graph it takes no time beside `smoothed_cross_entropy` of the same tensors: TensorFlow
    computes what both need once.

    Args:
        logits: `[N, V]` float32 or bfloat16.
        labels: `[N]` int32.

    Returns:
        `[N]` float32, 1 or 0.
    """
    found = library.get().quintain_measure_logits(logits=logits, labels=labels)
    return tf.stop_gradient(found.is_right)


def flatten(logits: tf.Tensor) -> tf.Tensor:
    """Returns logits `[..., V]` as `[N, V]`, in bfloat16 if they were cast from it in this graph.

    The cast is then not computed at all: the kernels read bfloat16. The gradient still goes to the
    logits as they were given, and from there through the cast; that of `casts.widen` undoes the
    cast to float32 that it begins with.
    """
    num_classes = logits.shape[-1]
    source = _find_source(logits)
    is_same = num_classes is not None and source.shape.rank and source.shape[-1] == num_classes
    if source is logits or source.dtype != tf.bfloat16 or not is_same:
        return tf.reshape(logits, [-1, tf.shape(logits)[-1]])

    def backward(upstream: tf.Tensor) -> list[tf.Tensor]:
        return [tf.cast(tf.reshape(upstream, _find_shape(logits)), logits.dtype)]

    return casts.stand_in(logits, lambda: tf.reshape(source, [-1, num_classes]), backward)


def _find_source(logits: tf.Tensor) -> tf.Tensor:
    """Returns what logits of a graph were cast from; themselves for nothing."""
    source = logits
    while tf.is_symbolic_tensor(source) and source.op.type in _SAME_NUMBERS:
        source = source.op.inputs[source.value_index]
    is_cast = tf.is_symbolic_tensor(source) and source.op.type == "Cast"
    return source.op.inputs[0] if is_cast else logits


def _find_shape(logits: tf.Tensor) -> tf.Tensor:
    """Returns the shape of logits for which `_find_source` has found bfloat16.

    To ask them would compute the cast.
    """
    if logits.op.type == "Reshape":
        return logits.op.inputs[1]
    inputs = logits.op.inputs[logits.value_index]
    return tf.shape(inputs) if logits.op.type == "Cast" else _find_shape(inputs)
