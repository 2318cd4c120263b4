"""Trains the Transformer of `batches.py` with Keras' `fit` and prints what was measured as JSON.

KERAS_BACKEND=tensorflow|jax python keras_run.py --precision=bfloat16 --steps=30
"""

import argparse
import json
import math
import os
import time
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import batches
import keras
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
        embedded = ops.take(self.table, ids, axis=0) * SIZES.width**0.5
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


def attend(x: Any, memory: Any, *, is_causal: bool, mask: Any = None) -> Any:
    """Adds attention to the memory, or to x itself; where `mask` is not False."""
    inputs = layers.LayerNormalization(epsilon=1e-6)(x)
    attention = layers.MultiHeadAttention(
        SIZES.num_heads, SIZES.width // SIZES.num_heads, dropout=SIZES.dropout_rate
    )
    memory = inputs if memory is None else memory
    mixed = attention(inputs, memory, attention_mask=mask, use_causal_mask=is_causal)
    return x + layers.Dropout(SIZES.dropout_rate)(mixed)


def feed_forward(x: Any) -> Any:
    """Adds the feed-forward part."""
    inner = layers.LayerNormalization(epsilon=1e-6)(x)
    inner = layers.Dense(SIZES.intermediate_size, activation="relu")(inner)
    inner = layers.Dense(SIZES.width)(layers.Dropout(SIZES.dropout_rate)(inner))
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
    embedding = Embedding(max_length)
    memory = layers.Dropout(SIZES.dropout_rate)(embedding(source))
    for _ in range(SIZES.num_layers):
        memory = feed_forward(attend(memory, None, is_causal=False, mask=mask))
    memory = layers.LayerNormalization(epsilon=1e-6)(memory)
    x = layers.Dropout(SIZES.dropout_rate)(embedding(shifted))
    for _ in range(SIZES.num_layers):
        x = attend(x, None, is_causal=True)
        x = feed_forward(attend(x, memory, is_causal=False, mask=mask))
    outputs = layers.LayerNormalization(epsilon=1e-6)(x)
    return keras.Model([source, shifted], Logits(embedding)(outputs))


def smoothed_loss(labels: Any, logits: Any) -> Any:
    """Returns the smoothed cross entropy of each word, without holding smoothed targets."""
    log_probs = ops.log_softmax(logits)
    places = ops.cast(labels, "int32")[..., None]
    right = ops.take_along_axis(log_probs, places, axis=-1)[..., 0]
    smoothing = SIZES.label_smoothing
    return -(1 - smoothing) * right - smoothing * ops.mean(log_probs, axis=-1)


def main() -> None:
    """Trains, measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=["float32", "bfloat16"], required=True)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=6)
    options = parser.parse_args()
    if options.precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    keras.utils.set_random_seed(0)
    model = build_model()
    model.compile(
        keras.optimizers.Adam(SIZES.learning_rate, beta_2=0.98, epsilon=1e-9), loss=smoothed_loss
    )
    data = [
        ((source, np.pad(target, [(0, 0), (1, 0)])[:, :-1]), target)
        for source, target in batches.build()
    ]

    def generate(first: int, count: int) -> Iterator[Any]:
        for number in range(first, first + count):
            yield data[number % len(data)]

    model.fit(generate(0, options.warmup), steps_per_epoch=options.warmup, verbose=0)
    start = time.perf_counter()
    model.fit(generate(options.warmup, options.steps), steps_per_epoch=options.steps, verbose=0)
    secs = time.perf_counter() - start
    memory = batches.peak_memory()
    (inputs, labels) = data[0]
    logits = ops.convert_to_numpy(model(list(inputs), training=False)).astype("float64")
    logits -= np.max(logits, -1, keepdims=True)
    log_probs = logits - np.log(np.sum(np.exp(logits), -1, keepdims=True))
    loss = -np.mean(np.take_along_axis(log_probs, labels[..., None], -1))
    tokens = options.steps * batches.count_tokens()
    print(json.dumps({"tokens_per_sec": tokens / secs, "loss": float(loss), "mib": memory}))


if __name__ == "__main__":
    main()
