"""Pretrains the BERT of `batches.py` with Keras' `fit` and prints what was measured as JSON.

KERAS_BACKEND=tensorflow|jax python keras_run.py --precision=bfloat16 --steps=10
"""

import argparse
import json
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
INPUTS = {
    "input_word_ids": SIZES.length,
    "input_mask": SIZES.length,
    "input_type_ids": SIZES.length,
    "masked_lm_positions": SIZES.num_masked,
}


class WordLogits(layers.Layer):
    """Computes the logits of words by the matrix of an embedding."""

    def __init__(self, embedding: layers.Embedding, **kwargs: Any) -> None:
        """Stores the embedding."""
        super().__init__(**kwargs)
        self.embedding = embedding

    def build(self, input_shape: Any) -> None:
        """Creates the bias."""
        self.bias = self.add_weight(shape=(SIZES.vocab_size,), initializer="zeros", name="bias")

    def call(self, hidden: Any) -> Any:
        """Computes logits, float32."""
        table = ops.cast(self.embedding.embeddings, hidden.dtype)
        logits = ops.cast(ops.matmul(hidden, ops.transpose(table)), "float32")
        return logits + ops.cast(self.bias, "float32")


class Gather(layers.Layer):
    """Takes positions of a sequence."""

    def call(self, sequence: Any, positions: Any) -> Any:
        """Returns `[batch, positions, width]`."""
        return ops.take_along_axis(sequence, positions[..., None], axis=1)


def gelu(x: Any) -> Any:
    """Approximates GELU by tanh, as in BERT."""
    return keras.activations.gelu(x, approximate=True)


def normalise(x: Any) -> Any:
    """Normalises each position."""
    return layers.LayerNormalization(epsilon=SIZES.norm_epsilon)(x)


def encode(x: Any, mask: Any) -> Any:
    """Applies one block, normalised after each part."""
    attention = layers.MultiHeadAttention(
        SIZES.num_heads, SIZES.width // SIZES.num_heads, dropout=SIZES.dropout_rate
    )
    mixed = attention(x, x, attention_mask=mask)
    x = normalise(x + layers.Dropout(SIZES.dropout_rate)(mixed))
    inner = layers.Dense(SIZES.intermediate_size, activation=gelu)(x)
    inner = layers.Dense(SIZES.width)(inner)
    return normalise(x + layers.Dropout(SIZES.dropout_rate)(inner))


def build_model() -> keras.Model:
    """Returns the model, a function of what `INPUTS` names."""
    inputs = {name: keras.Input((size,), dtype="int32", name=name) for name, size in INPUTS.items()}
    initializer = keras.initializers.TruncatedNormal(stddev=SIZES.initializer_range)
    words, positions, types = (
        layers.Embedding(count, SIZES.width, embeddings_initializer=initializer)
        for count in (SIZES.vocab_size, SIZES.num_positions, 2)
    )
    x = words(inputs["input_word_ids"]) + types(inputs["input_type_ids"])
    x = normalise(x + positions(ops.arange(SIZES.length)))
    x = layers.Dropout(SIZES.dropout_rate)(x)
    mask = ops.cast(inputs["input_mask"], "bool")[:, None, :]
    for _ in range(SIZES.num_layers):
        x = encode(x, mask)
    pooled = layers.Dense(SIZES.width, "tanh")(x[:, 0])
    hidden = layers.Dense(SIZES.width, gelu)(Gather()(x, inputs["masked_lm_positions"]))
    outputs = {
        "masked_lm": WordLogits(words, dtype=words.dtype_policy)(normalise(hidden)),
        "next_sentence": layers.Dense(2, dtype="float32")(pooled),
    }
    return keras.Model(inputs, outputs)


def build_optimizer() -> keras.optimizers.Optimizer:
    """Returns AdamW, which decays matrices only."""
    optimizer = keras.optimizers.AdamW(
        SIZES.learning_rate, weight_decay=SIZES.weight_decay, epsilon=SIZES.epsilon
    )
    optimizer.exclude_from_weight_decay(var_names=["gamma", "beta", "bias"])
    return optimizer


def main() -> None:
    """Trains, measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=["float32", "bfloat16"], required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    options = parser.parse_args()
    if options.precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    keras.utils.set_random_seed(0)
    model = build_model()
    losses = {
        name: keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        for name in ("masked_lm", "next_sentence")
    }
    model.compile(build_optimizer(), loss=losses)

    def split(batch: batches.Batch) -> tuple[batches.Batch, batches.Batch]:
        labels = {
            "masked_lm": batch["masked_lm_ids"],
            "next_sentence": batch["next_sentence_labels"],
        }
        return {name: batch[name] for name in INPUTS}, labels

    trained, held_out = batches.build()
    data = [split(batch) for batch in trained]

    def generate(first: int, count: int) -> Iterator[Any]:
        for number in range(first, first + count):
            yield data[number % len(data)]

    model.fit(generate(0, options.warmup), steps_per_epoch=options.warmup, verbose=0)
    start = time.perf_counter()
    model.fit(generate(options.warmup, options.steps), steps_per_epoch=options.steps, verbose=0)
    secs = time.perf_counter() - start
    memory = batches.peak_memory()
    inputs, labels = split(held_out)
    outputs = model(inputs, training=False)
    loss = sum(compute_loss(outputs[name], labels[name]) for name in labels)
    tokens = options.steps * batches.count_tokens()
    print(json.dumps({"tokens_per_sec": tokens / secs, "loss": loss, "mib": memory}))


def compute_loss(logits: Any, labels: np.ndarray) -> float:
    """Returns the mean negative log-likelihood of labels."""
    flat = ops.convert_to_numpy(logits).astype("float64").reshape(labels.size, -1)
    flat -= np.max(flat, -1, keepdims=True)
    log_probs = flat - np.log(np.sum(np.exp(flat), -1, keepdims=True))
    return float(-np.mean(log_probs[np.arange(labels.size), labels.flatten()]))


if __name__ == "__main__":
    main()
