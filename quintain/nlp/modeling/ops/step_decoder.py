"""Predictors that call a model for each step, with caches that are copied with the candidates.

Shapes:
    B  examples in the batch
    K  candidates of each example
    T  steps that there is room for
    L  ids of a candidate so far, the initial one included
    S  source positions
    D  width of the model
    H  attention heads
    V  vocabulary size
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling.ops import candidate_loop

SymbolsToLogitsFn = Callable[[tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]]
"""Takes ids `[B * K, L]`, the scalar index of the step and the cache; returns logits `[B * K, V]`
and the new cache."""


class FunctionPredictor(candidate_loop.Predictor):
    """A model given as a function, with a cache that is copied along with the candidates."""

    # The function may hold tensors of all examples.
    can_drop = False

    def __init__(
        self, symbols_to_logits_fn: SymbolsToLogitsFn, *, vocab_size: int, sees_last_only: bool
    ) -> None:
        """Takes a model of so many ids, which may see the last ids only."""
        self._function = symbols_to_logits_fn
        self._vocab_size = vocab_size
        self._sees_last_only = sees_last_only

    @override
    def start(self, cache: Any, num_candidates: int) -> Any:
        """Repeats `[B, ...]` for the candidates."""
        return tf.nest.map_structure(lambda part: expand_to_beam_size(part, num_candidates), cache)

    @override
    def predict(self, sequences: tf.Tensor, index: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        """Calls the function with candidates and examples in one dimension."""
        if self._sees_last_only:
            ids = tf.gather(sequences, [index], axis=2)  # [B, K, 1]
        else:
            ids = sequences[:, :, : index + 1]  # [B, K, L]
        num_candidates = sequences.shape[1]
        cache = tf.nest.map_structure(flatten_beam_dim, cache)
        logits, cache = self._function(flatten_beam_dim(ids), index, cache)
        logits = tf.reshape(logits, [-1, num_candidates, self._vocab_size])  # [B, K, V]
        return logits, tf.nest.map_structure(
            lambda part: _unflatten_beam_dim(part, -1, num_candidates), cache
        )

    @override
    def reorder(self, cache: Any, candidates: tf.Tensor) -> Any:
        """Copies every part of the cache."""
        return tf.nest.map_structure(lambda part: tf.gather(part, candidates, batch_dims=1), cache)


class StepDecoder(FunctionPredictor):
    """Predicts the next ids by calling a decoder's blocks, of any class, with their caches.

    Slower than `CachedDecoder`, whose attention is the package's own.
    """

    can_drop = True

    def __init__(self, model: Any) -> None:
        super().__init__(self._decode, vocab_size=model.target_vocab_size, sees_last_only=True)
        self._model = model

    @override
    def start(self, cache: Any, num_candidates: int) -> Any:
        """Returns empty caches.

        The cache that is given is the encoder's output `[B, S, D]` and the mask of its padding
        `[B, 1, S]`.
        """
        memory, mask = cache
        model, decoder = self._model, self._model.decoder_layer
        heads = decoder.num_attention_heads
        length = model.decode_max_length if model.padded_decode else 0
        shape = [tf.shape(memory)[0], length, heads, model.embedding_width // heads]
        empty = tf.zeros(shape, model.compute_dtype)  # [B, T, H, D / H]
        blocks = {str(index): {"key": empty, "value": empty} for index in range(decoder.num_layers)}
        memory = tf.cast(memory, model.compute_dtype)
        return super().start({"blocks": blocks, "memory": memory, "mask": mask}, num_candidates)

    @override
    def relax_shape(self, part: tf.Tensor) -> tf.TensorShape:
        """Leaves open the numbers of examples and of steps."""
        sizes = part.shape.as_list()
        return tf.TensorShape([None, sizes[1], None, *sizes[3:]])

    def _decode(self, ids: tf.Tensor, index: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        """Decodes the last ids `[B * K, 1]`."""
        model = self._model
        last = tf.minimum(ids[:, 0], model.target_vocab_size - 1)
        mask = None
        if model.padded_decode:
            is_earlier = tf.range(model.decode_max_length) <= index  # [T]
            mask = tf.cast(is_earlier, model.compute_dtype)[tf.newaxis, tf.newaxis]  # [1, 1, T]
        outputs = model.decoder_layer(
            model.embed_position(last, index)[:, tf.newaxis],  # [B * K, 1, D]
            cache["memory"],
            self_attention_mask=mask,
            cross_attention_mask=cache["mask"],
            cache=cache["blocks"],  # Which is changed.
            decode_loop_step=index if model.padded_decode else None,
        )
        return model.compute_logits(outputs)[:, 0], cache

    @override
    def reorder(self, cache: Any, candidates: tf.Tensor) -> Any:
        """Copies the caches of the blocks; the source's are the same for all candidates."""
        return {**cache, "blocks": super().reorder(cache["blocks"], candidates)}


def expand_to_beam_size(tensor: tf.Tensor, beam_size: int) -> tf.Tensor:
    """Repeats `[B, ...]` for the beams, `[B, K, ...]`."""
    return tf.repeat(tensor[:, tf.newaxis], beam_size, axis=1)


def flatten_beam_dim(tensor: tf.Tensor) -> tf.Tensor:
    """Turns `[B, K, ...]` into `[B * K, ...]`."""
    shape = tf.shape(tensor)
    flat = tf.reshape(tensor, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))
    return tf.ensure_shape(flat, [None, *tensor.shape[2:]])


def _unflatten_beam_dim(tensor: tf.Tensor, batch_size: Any, beam_size: int) -> tf.Tensor:
    """Turns `[B * K, ...]` into `[B, K, ...]`."""
    return tf.reshape(tensor, tf.concat([[batch_size, beam_size], tf.shape(tensor)[1:]], axis=0))
