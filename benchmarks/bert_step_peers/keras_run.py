"""Pretrains the BERT of `batches.py` with Keras' `fit` and prints what was measured as JSON.

KERAS_BACKEND=tensorflow|jax python keras_run.py --precision=bfloat16
"""

import argparse
from typing import Any

import batches
import keras
import keras_peer
import measuring
import numpy as np
from keras import layers, ops

SIZES = batches.SIZES
INPUTS = {
    "input_word_ids": SIZES.length,
    "input_mask": SIZES.length,
    "input_type_ids": SIZES.length,
    "masked_lm_positions": SIZES.num_masked,
}


class Table(layers.Layer):
    """Embeds ids.

    In contrast to `layers.Embedding` the gradient is dense on TensorFlow, too: from a sparse one
    that has an id several times, Keras' optimizers sum squares instead of squaring sums.
    """

    def __init__(self, count: int, **kwargs: Any) -> None:
        """Creates the matrix."""
        super().__init__(**kwargs)
        self.embeddings = self.add_weight(
            shape=(count, SIZES.width),
            initializer=keras.initializers.TruncatedNormal(stddev=SIZES.initializer_range),
            name="embeddings",
        )

    def call(self, ids: Any) -> Any:
        """Returns `[..., width]`."""
        return ops.take(self.embeddings * 1.0, ids, axis=0)


class WordLogits(layers.Layer):
    """Computes the logits of words by the matrix of an embedding."""

    def __init__(self, embedding: Table, **kwargs: Any) -> None:
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


class Positions(layers.Layer):
    """Adds embeddings of the positions.

    An `Embedding` of constant ids is computed once, while the model is built, and never trained.
    """

    def build(self, input_shape: Any) -> None:
        """Creates the matrix."""
        self.table = self.add_weight(
            shape=(SIZES.num_positions, SIZES.width),
            initializer=keras.initializers.TruncatedNormal(stddev=SIZES.initializer_range),
            name="embeddings",
        )

    def call(self, x: Any) -> Any:
        """Returns x with the embeddings of its positions."""
        return x + self.table[: SIZES.length]


class Gather(layers.Layer):
    """Takes positions of a sequence."""

    def call(self, sequence: Any, positions: Any) -> Any:
        """Returns `[batch, positions, width]`."""
        return ops.take_along_axis(sequence, positions[..., None], axis=1)


def gelu(x: Any) -> Any:
    """Approximates GELU by tanh, as in BERT."""
    return keras.activations.gelu(x, approximate=True)


def normalise(x: Any, name: str) -> Any:
    """Normalises each position."""
    return layers.LayerNormalization(epsilon=SIZES.norm_epsilon, name=name)(x)


def encode(x: Any, mask: Any, name: str) -> Any:
    """Applies one block, normalised after each part."""
    attention = layers.MultiHeadAttention(
        SIZES.num_heads,
        SIZES.width // SIZES.num_heads,
        dropout=SIZES.dropout_rate,
        name=f"{name}_attention",
    )
    mixed = attention(x, x, attention_mask=mask)
    x = normalise(x + layers.Dropout(SIZES.dropout_rate)(mixed), f"{name}_attention_norm")
    inner = layers.Dense(SIZES.intermediate_size, activation=gelu, name=f"{name}_expand")(x)
    inner = layers.Dense(SIZES.width, name=f"{name}_contract")(inner)
    return normalise(x + layers.Dropout(SIZES.dropout_rate)(inner), f"{name}_feed_forward_norm")


def build_model() -> keras.Model:
    """Returns the model, a function of what `INPUTS` names."""
    inputs = {name: keras.Input((size,), dtype="int32", name=name) for name, size in INPUTS.items()}
    words = Table(SIZES.vocab_size, name="words")
    types = Table(2, name="types")
    x = words(inputs["input_word_ids"]) + types(inputs["input_type_ids"])
    x = normalise(Positions(name="positions")(x), "embedding_norm")
    x = layers.Dropout(SIZES.dropout_rate)(x)
    mask = ops.cast(inputs["input_mask"], "bool")[:, None, :]
    for number in range(SIZES.num_layers):
        x = encode(x, mask, f"block_{number}")
    pooled = layers.Dense(SIZES.width, "tanh", name="pooler")(x[:, 0])
    masked = Gather()(x, inputs["masked_lm_positions"])
    hidden = layers.Dense(SIZES.width, gelu, name="transform")(masked)
    predict = WordLogits(words, dtype=words.dtype_policy, name="masked_lm")
    outputs = {
        "masked_lm": predict(normalise(hidden, "transform_norm")),
        "next_sentence": layers.Dense(2, dtype="float32", name="next_sentence")(pooled),
    }
    return keras.Model(inputs, outputs)


def build_optimizer() -> keras.optimizers.Optimizer:
    """Returns AdamW, which decays matrices only."""
    optimizer = keras.optimizers.AdamW(
        SIZES.learning_rate, weight_decay=SIZES.weight_decay, epsilon=SIZES.epsilon
    )
    optimizer.exclude_from_weight_decay(var_names=["gamma", "beta", "bias"])
    return optimizer


def split(batch: batches.Batch) -> tuple[batches.Batch, batches.Batch]:
    """Returns inputs and labels of a batch."""
    labels = {
        "masked_lm": batch["masked_lm_ids"],
        "next_sentence": batch["next_sentence_labels"],
    }
    return {name: batch[name] for name in INPUTS}, labels


def build(options: argparse.Namespace) -> keras_peer.KerasPeer:
    """Returns the compiled model with its batches."""
    keras_peer.set_precision(options.precision)
    model = build_model()
    losses = {
        name: keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        for name in ("masked_lm", "next_sentence")
    }
    model.compile(build_optimizer(), loss=losses)
    trained, _ = batches.build()
    return keras_peer.KerasPeer(model, [split(batch) for batch in trained], evaluate)


def evaluate(model: keras.Model) -> float:
    """Returns the loss of the batch held out."""
    inputs, labels = split(batches.build()[1])
    outputs = model(inputs, training=False)
    return sum(compute_loss(outputs[name], labels[name]) for name in labels)


def compute_loss(logits: Any, labels: np.ndarray) -> float:
    """Returns the mean negative log-likelihood of labels."""
    flat = ops.convert_to_numpy(logits).astype("float64").reshape(labels.size, -1)
    flat -= np.max(flat, -1, keepdims=True)
    log_probs = flat - np.log(np.sum(np.exp(flat), -1, keepdims=True))
    return float(-np.mean(log_probs[np.arange(labels.size), labels.flatten()]))


if __name__ == "__main__":
    measuring.main(build, tokens_per_step=batches.count_tokens())
