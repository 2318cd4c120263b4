"""Levers of `learning.py` that are no setting of an experiment: changes of the model's classes.

Each is for one process, before its model is built, and is about learning alone: changed parts
compute by TensorFlow's operations where the package has native ones.
"""

import itertools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import learning_optimizers
import numpy as np
import tensorflow as tf

from quintain.modeling import token_losses
from quintain.nlp.modeling.layers import dropout, feed_forward, fused_attention, own_classes
from quintain.nlp.modeling.models import seq2seq_transformer
from quintain.nlp.tasks import translation


def normalise_queries() -> None:
    """Gives queries and keys a mean square of 1 (Henry et al., 2020, arXiv:2010.04245)."""
    attend = fused_attention._Attention.attend

    def normalise(x: tf.Tensor) -> tf.Tensor:
        return x * tf.math.rsqrt(tf.reduce_mean(x * x, axis=-1, keepdims=True) + 1e-6)

    def attend_to_normal(
        self: Any, queries: tf.Tensor, keys: tf.Tensor, *args: Any, **kwargs: Any
    ) -> tf.Tensor:
        return attend(self, normalise(queries), normalise(keys), *args, **kwargs)

    fused_attention._Attention.attend = attend_to_normal
    _compute_attention_apart()


def mix_first_values() -> None:
    """Mixes the values of self-attention with the first block's (Zhou et al., arXiv:2410.17897)."""
    split_heads = fused_attention.SelfAttention.split_heads
    first: list[tf.Tensor] = []

    def split_and_mix(self: Any, x: tf.Tensor, num_parts: int = 1, rows: Any = None) -> Any:
        parts = split_heads(self, x, num_parts, rows)
        if num_parts == 3:
            if "/block_0/" in self.query_key_value.kernel.path:
                first[:] = [parts[2]]
            else:
                parts[2] = 0.5 * (parts[2] + first[0])
        return parts

    fused_attention.SelfAttention.split_heads = split_and_mix
    _compute_attention_apart()


def _compute_attention_apart() -> None:
    """Splits heads in every attention, where the changes above take place."""
    fused_attention._Attention._is_at_once = lambda self, x, bias=None: False


def square_relu() -> None:
    """Has max(x, 0)^2 as the activation (So et al., 2021, arXiv:2109.08668)."""
    build = feed_forward.FeedForward.__init__

    def build_changed(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        self.activation = lambda x: tf.square(tf.nn.relu(x))

    feed_forward.FeedForward.__init__ = build_changed


def cap_logits(cap: float = 30.0) -> None:
    """Keeps logits between `-cap` and `cap` by a tanh (Gemma 2, 2024, arXiv:2408.00118)."""
    compute = seq2seq_transformer.Seq2SeqTransformer.compute_logits
    seq2seq_transformer.Seq2SeqTransformer.compute_logits = lambda self, outputs: (
        cap * tf.tanh(compute(self, outputs) / cap)
    )


def replace_targets(share: float = 0.1) -> None:
    """Replaces a share of the tokens before the predicted ones in training by random ones."""
    predict = seq2seq_transformer.Seq2SeqTransformer._predict

    def predict_with_noise(
        self: Any, target: tf.Tensor, memory: Any, is_token: Any, memory_rows: Any, is_packed: bool
    ) -> tf.Tensor:
        if is_packed:  # In training alone.
            shape = tf.shape(target)
            noise = tf.random.uniform(shape, 3, self.vocab_size, target.dtype)
            is_replaced = (tf.random.uniform(shape) < share) & (target > 0)
            target = tf.where(is_replaced, noise, target)
        return predict(self, target, memory, is_token, memory_rows, is_packed)

    seq2seq_transformer.Seq2SeqTransformer._predict = predict_with_noise


def smooth_by_frequency() -> None:
    """Spreads the smoothed share of a label over tokens by their frequency, not evenly."""

    def build_losses(
        self: Any, labels: tf.Tensor, logits: tf.Tensor, aux_losses: Any = None
    ) -> Any:
        losses, weights = token_losses.padded_cross_entropy(logits, labels, smoothing=0.0)
        picked = tf.gather(logits, labels, axis=-1, batch_dims=labels.shape.rank)
        expected = tf.tensordot(logits, count_tokens(self), 1)
        losses += self.task_config.model.label_smoothing * weights * (picked - expected)
        return tf.reduce_sum(losses) / tf.reduce_sum(weights)

    translation.TranslationTask.build_losses = build_losses


def train_twice(weight: float = 2.5) -> None:
    """Has each batch twice, with two dropouts that are to predict alike (arXiv:2106.14448).

    To the mean of both losses, `weight` times the mean of the two divergences between their
    predictions is added: R-Drop with an alpha of twice that.
    """
    build = translation.TranslationTask.build_losses

    def split_inputs(self: Any, inputs: Any) -> Any:
        both = {name: tf.concat([ids, ids], axis=0) for name, ids in inputs.items()}
        return both, both["targets"]

    def build_losses(
        self: Any, labels: tf.Tensor, logits: tf.Tensor, aux_losses: Any = None
    ) -> Any:
        first, second = tf.split(tf.nn.log_softmax(logits), 2)
        distances = tf.reduce_sum((tf.exp(first) - tf.exp(second)) * (first - second), axis=-1)
        is_token = tf.cast(tf.split(labels, 2)[0] > 0, distances.dtype)
        distance = tf.reduce_sum(distances * is_token) / tf.reduce_sum(is_token)
        return build(self, labels, logits, aux_losses) + weight * distance / 2

    translation.TranslationTask.split_inputs = split_inputs
    translation.TranslationTask.build_losses = build_losses


def count_tokens(task: Any) -> np.ndarray:
    """Returns the shares `[V]` float32 of tokens in the targets of training."""
    text = pathlib.Path(task.task_config.train_data.input_path).read_text(encoding="utf-8")
    targets = [line.partition("\t")[2] for line in text.splitlines()]
    tokenizer = task.target_tokenizer
    with tf.init_scope():  # Losses are traced.
        ids = tokenizer.tokenize(tf.constant(targets)).flat_values.numpy()
    counts = np.bincount(ids, minlength=tokenizer.vocab_size)
    return (counts / counts.sum()).astype("float32")


def scale_outputs(model: keras.Model, factor: float) -> None:
    """Multiplies what the last projection of every part of a block starts as."""
    for weight in model.weights:
        if weight.path.endswith(("/output/kernel", "/contract/kernel")):
            weight.assign(weight * factor)


CHANGES: dict[str, Callable[[], None]] = {
    "qk_norm": normalise_queries,
    "value_residual": mix_first_values,
    "relu_squared": square_relu,
    "soft_cap": cap_logits,
    "target_noise": replace_targets,
    "frequency_smoothing": smooth_by_frequency,
    "r_drop": train_twice,
    "soap": learning_optimizers.use_soap,
    "schedule_free": learning_optimizers.use_schedule_free,
}


def change(names: list[str]) -> None:
    """Makes changes of `CHANGES`."""
    for name in names:
        CHANGES[name]()
    if names:  # Blocks decode by their own `call`.
        own_classes.decodes_as_known = lambda model: False


class Phases:
    """Training data that change at shares of the time."""

    def __init__(
        self, trainer: Any, config: Any, phases: Sequence[tuple[float, dict[str, Any]]]
    ) -> None:
        self._trainer, self._config, self._phases = trainer, config, list(phases)

    def enter(self, share: float) -> None:
        """Goes on with the data of the phase that a share of the time is in."""
        due = list(itertools.takewhile(lambda phase: phase[0] <= share, self._phases))
        if due:
            self._phases = self._phases[len(due) :]
            data = self._config.replace(**due[-1][1])
            self._trainer._train_dataset = self._trainer._build_dataset(data)
            self._trainer.train_iterator = None  # The traced loop stays.


class LateDropout:
    """Dropout that begins at a share of the time."""

    def __init__(self, trainer: Any, start: float) -> None:
        self._trainer, self._start = trainer, start
        layers = [
            layer for layer in trainer.model._flatten_layers() if isinstance(layer, dropout.Dropout)
        ]
        self._generators = {layer: layer.seed_generator for layer in layers} if start else {}
        for layer in self._generators:
            layer.seed_generator = None

    def enter(self, share: float) -> bool:
        """Begins, if it is time; returns whether the next step is traced again."""
        is_due = bool(self._generators) and share >= self._start
        if is_due:
            for layer, generator in self._generators.items():
                layer.seed_generator = generator
            self._generators = {}
            self._trainer._train_loop_fn = None
        return is_due
