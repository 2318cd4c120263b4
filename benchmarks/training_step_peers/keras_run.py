"""Trains the Transformer of `batches.py` with Keras' `fit` and prints what was measured as JSON.

KERAS_BACKEND=tensorflow|jax python keras_run.py --precision=bfloat16
"""

import argparse
import math
from typing import Any

import batches
import keras
import keras_peer
import measuring
import numpy as np
from keras import layers, ops

SIZES = batches.SIZES


class Embedding(layers.Layer):
    """One matrix that embeds ids with their positions, and computes logits."""

    def __init__(self, max_length: int, **kwargs: Any) -> None:
        """Creates the matrix, for sentences of up to `max_length` tokens."""
        super().__init__(**kwargs)
        self.table = self.add_weight(
            shape=(SIZES.vocab_size, SIZES.width),
            initializer=keras.initializers.RandomNormal(stddev=SIZES.width**-0.5),
            name="table",
        )
        half = SIZES.width // 2
        angles = np.arange(max_length)[:, None] * np.exp(
            -math.log(10_000.0) * np.arange(half) / (half - 1)
        )
        self.positions = np.concatenate([np.sin(angles), np.cos(angles)], 1).astype("float32")

    def call(self, ids: Any) -> Any:
        """Embeds ids."""
        length = ids.shape[1]
        if isinstance(length, int):
            positions = self.positions[:length]
        else:
            positions = ops.take(self.positions, ops.arange(ops.shape(ids)[1]), axis=0)
        # From a sparse gradient that has an id twice, Keras' Adam sums squares, not squares sums.
        embedded = ops.take(self.table * 1.0, ids, axis=0) * SIZES.width**0.5
        return embedded + ops.cast(positions, self.compute_dtype)

    def compute_logits(self, outputs: Any) -> Any:
        """Returns logits of the words."""
        return ops.matmul(outputs, ops.transpose(ops.cast(self.table, outputs.dtype)))


class Logits(layers.Layer):
    """Computes logits by the matrix of an `Embedding`."""

    def __init__(self, embedding: Embedding, **kwargs: Any) -> None:
        """Stores the embedding."""
        super().__init__(**kwargs)
        self.embedding = embedding

    def call(self, outputs: Any) -> Any:
        """Computes the logits, float32."""
        return ops.cast(self.embedding.compute_logits(outputs), "float32")


def normalise(x: Any, name: str) -> Any:
    """Normalises each position."""
    return layers.LayerNormalization(epsilon=1e-6, name=name)(x)


def attend(x: Any, memory: Any, name: str, *, is_causal: bool, mask: Any = None) -> Any:
    """Adds attention to the memory, or to x itself; where `mask` is not False."""
    inputs = normalise(x, f"{name}_norm")
    attention = layers.MultiHeadAttention(
        SIZES.num_heads,
        SIZES.width // SIZES.num_heads,
        dropout=SIZES.dropout_rate,
        name=name,
    )
    memory = inputs if memory is None else memory
    mixed = attention(inputs, memory, attention_mask=mask, use_causal_mask=is_causal)
    return x + layers.Dropout(SIZES.dropout_rate)(mixed)


def feed_forward(x: Any, name: str) -> Any:
    """Adds the feed-forward part."""
    inner = normalise(x, f"{name}_feed_forward_norm")
    inner = layers.Dense(SIZES.intermediate_size, activation="relu", name=f"{name}_expand")(inner)
    inner = layers.Dropout(SIZES.dropout_rate)(inner)
    inner = layers.Dense(SIZES.width, name=f"{name}_contract")(inner)
    return x + layers.Dropout(SIZES.dropout_rate)(inner)


def build_model(max_length: int = SIZES.length, *, is_padded: bool = False) -> keras.Model:
    """Returns the model, a function of source and shifted target.

    Args:
        max_length: Length of all sentences; of the longest, if they are padded.
        is_padded: Whether sentences have any length, and are padded.
    """
    length = None if is_padded else max_length
    source = keras.Input((length,), dtype="int32")
    shifted = keras.Input((length,), dtype="int32")
    mask = ops.not_equal(source, batches.PAD_ID)[:, None, :] if is_padded else None
    embedding = Embedding(max_length, name="embedding")
    memory = layers.Dropout(SIZES.dropout_rate)(embedding(source))
    for number in range(SIZES.num_layers):
        part = f"encoder_{number}"
        memory = feed_forward(
            attend(memory, None, f"{part}_self", is_causal=False, mask=mask), part
        )
    memory = normalise(memory, "encoder_norm")
    x = layers.Dropout(SIZES.dropout_rate)(embedding(shifted))
    for number in range(SIZES.num_layers):
        part = f"decoder_{number}"
        x = attend(x, None, f"{part}_self", is_causal=True)
        x = attend(x, memory, f"{part}_cross", is_causal=False, mask=mask)
        x = feed_forward(x, part)
    return keras.Model([source, shifted], Logits(embedding)(normalise(x, "decoder_norm")))


def smoothed_loss(labels: Any, logits: Any) -> Any:
    """Returns the smoothed cross entropy of each word, without holding smoothed targets."""
    log_probs = ops.log_softmax(logits)
    places = ops.cast(labels, "int32")[..., None]
    right = ops.take_along_axis(log_probs, places, axis=-1)[..., 0]
    smoothing = batches.spread_smoothing()
    spread = -(1 - smoothing) * right - smoothing * ops.mean(log_probs, axis=-1)
    return spread - batches.smoothing_entropy()


def evaluate(model: keras.Model) -> float:
    """Returns the loss of the first batch, without smoothing."""
    inputs, labels = read_batches()[0]
    logits = ops.convert_to_numpy(model(list(inputs), training=False)).astype("float64")
    logits -= np.max(logits, -1, keepdims=True)
    log_probs = logits - np.log(np.sum(np.exp(logits), -1, keepdims=True))
    return float(-np.mean(np.take_along_axis(log_probs, labels[..., None], -1)))


def read_batches() -> list[Any]:
    """Returns inputs and labels of all batches."""
    return [
        ((source, np.pad(target, [(0, 0), (1, 0)])[:, :-1]), target)
        for source, target in batches.build()
    ]


def build(options: argparse.Namespace) -> keras_peer.KerasPeer:
    """Returns the compiled model with its batches."""
    keras_peer.set_precision(options.precision)
    model = build_model()
    optimizer = keras.optimizers.Adam(SIZES.learning_rate, beta_2=0.98, epsilon=SIZES.epsilon)
    model.compile(optimizer, loss=smoothed_loss)
    return keras_peer.KerasPeer(model, read_batches(), evaluate)


if __name__ == "__main__":
    measuring.main(build, tokens_per_step=batches.count_tokens())
