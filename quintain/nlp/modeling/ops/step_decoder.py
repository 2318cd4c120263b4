"""The decoder of a Transformer, one position at a time, with attention of any class.

Shapes:
    b  examples in the batch
    K  candidates of each example
    T  steps that there is room for
    L  ids of a candidate so far, the initial one included
    S  source positions
    D  width of the model
    H  attention heads
    V  vocabulary size
"""

from typing import Any

import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling.ops import beam_search, candidate_loop


class StepDecoder(candidate_loop.Predictor):
    """Predicts the next ids by calling a decoder's blocks with their caches.

    Slower than `CachedDecoder`, whose attention is the package's own: caches are copied along with
    the candidates.
    """

    def __init__(self, model: Any, precision: str | None = None) -> None:
        del precision
        self._model = model

    @override
    def start(self, cache: Any, num_candidates: int) -> Any:
        """Returns empty caches.

        Args:
            cache: The encoder's output `[b, S, D]`, and the mask of its padding `[b, 1, S]`.
            num_candidates: Candidates of each example.
        """
        memory, mask = cache
        model, decoder = self._model, self._model.decoder_layer
        heads = decoder.num_attention_heads
        length = model.decode_max_length if model.padded_decode else 0
        shape = [tf.shape(memory)[0], length, heads, model.embedding_width // heads]
        empty = tf.zeros(shape, model.compute_dtype)  # [b, T, H, D / H]
        whole = {
            "blocks": {
                str(index): {"key": empty, "value": empty} for index in range(decoder.num_layers)
            },
            "memory": tf.cast(memory, model.compute_dtype),
            "mask": mask,
        }
        return tf.nest.map_structure(
            lambda part: beam_search.expand_to_beam_size(part, num_candidates), whole
        )

    @override
    def relax_shape(self, part: tf.Tensor) -> tf.TensorShape:
        """Leaves open the numbers of examples and of steps."""
        sizes = part.shape.as_list()
        return tf.TensorShape([None, sizes[1], None, *sizes[3:]])

    @override
    def predict(self, sequences: tf.Tensor, index: tf.Tensor, cache: Any) -> tuple[tf.Tensor, Any]:
        """Decodes the last position of all candidates."""
        model, num_candidates = self._model, sequences.shape[1]
        last = tf.reshape(tf.gather(sequences, index, axis=2), [-1])  # [b * K]
        last = tf.minimum(last, model.target_vocab_size - 1)
        flat = tf.nest.map_structure(beam_search.flatten_beam_dim, cache)
        blocks = flat["blocks"]
        mask = None
        if model.padded_decode:
            is_earlier = tf.range(model.decode_max_length) <= index  # [T]
            mask = tf.cast(is_earlier, model.compute_dtype)[tf.newaxis, tf.newaxis]  # [1, 1, T]
        outputs = model.decoder_layer(
            model.embed_position(last, index)[:, tf.newaxis],  # [b * K, 1, D]
            flat["memory"],
            self_attention_mask=mask,
            cross_attention_mask=flat["mask"],
            cache=blocks,
            decode_loop_step=index if model.padded_decode else None,
        )
        logits = tf.reshape(
            model.compute_logits(outputs), [-1, num_candidates, model.target_vocab_size]
        )
        cache = tf.nest.map_structure(
            lambda part: tf.reshape(
                part, tf.concat([[-1, num_candidates], tf.shape(part)[1:]], axis=0)
            ),
            {**flat, "blocks": blocks},
        )
        return logits, cache

    @override
    def reorder(self, cache: Any, candidates: tf.Tensor) -> Any:
        """Copies the caches of the blocks; the source's are the same for all candidates."""
        blocks = tf.nest.map_structure(
            lambda part: tf.gather(part, candidates, batch_dims=1), cache["blocks"]
        )
        return {**cache, "blocks": blocks}
