"""Span-labeling heads: logits of a span's begin and end.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the input
    K  likeliest begins that ends are looked for
    E  likeliest ends of each
"""

from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.modeling import tf_utils
from quintain.nlp.modeling import constructed_model
from quintain.nlp.modeling.networks import classification

_IMPOSSIBLE: Final = 1e30


@keras.saving.register_keras_serializable("Text")
class SpanLabeling(constructed_model.ConstructorConfig, keras.Model):
    """A dense layer on top of each position; Keras' functional model.

    Takes `[B, S, input_width]` and gives a list of two `[B, S]`: begins and ends.
    """

    def __init__(
        self,
        input_width: int,
        activation: Any = None,
        initializer: Any = "glorot_uniform",
        output: str = "logits",
        **kwargs: Any,
    ) -> None:
        """Creates the layer.

        Raises:
            ValueError: If `output` is none of these.
        """
        classification.check_output(output)
        sequence = keras.Input((None, input_width), dtype="float32", name="sequence_data")
        both = keras.layers.Dense(
            2,
            activation=activation,
            kernel_initializer=initializer,
            name="predictions_transform_logits",
        )(sequence)
        start, end = both[:, :, 0], both[:, :, 1]
        outputs = [classification.normalize(one, output) for one in (start, end)]
        super().__init__(inputs=sequence, outputs=outputs, **kwargs)
        self._keep_config(
            input_width=input_width, activation=activation, initializer=initializer, output=output
        )
        self.start_logits = start
        self.end_logits = end


@keras.saving.register_keras_serializable("Text")
class XLNetSpanLabeling(constructed_model.ConstructorConfig, keras.layers.Layer):
    """Predicts begins, the ends that go with them, and whether there is an answer at all.

    Source:
        Yang et al., 2019, section 3.4 (https://arxiv.org/abs/1906.08237).
    """

    def __init__(
        self,
        input_width: int,
        start_n_top: int = 5,
        end_n_top: int = 5,
        activation: Any = "tanh",
        dropout_rate: float = 0.0,
        initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        """Creates the layers.

        Raises:
            ValueError: If `start_n_top` is not greater than 1.
        """
        super().__init__(**kwargs)
        if start_n_top <= 1:
            raise ValueError(f"`start_n_top` must be greater than 1, but got {start_n_top}.")
        self._keep_config(
            input_width=input_width,
            activation=activation,
            initializer=initializer,
            start_n_top=start_n_top,
            end_n_top=end_n_top,
            dropout_rate=dropout_rate,
        )
        self._start_n_top = start_n_top
        self._end_n_top = end_n_top

        def build_dense(units: int, **options: Any) -> keras.layers.Dense:
            kernel_initializer = tf_utils.clone_initializer(initializer)
            return keras.layers.Dense(units, kernel_initializer=kernel_initializer, **options)

        self.start_logits_dense = build_dense(1)
        self.end_logits_inner_dense = build_dense(input_width, activation=activation)
        self.end_logits_layer_norm = keras.layers.LayerNormalization(epsilon=1e-12)
        self.end_logits_output_dense = build_dense(1)
        self.answer_logits_inner = build_dense(input_width, activation=activation)
        self.answer_logits_dropout = keras.layers.Dropout(dropout_rate)
        self.answer_logits_output = build_dense(1, use_bias=False)
        for layer in (self.end_logits_inner_dense, self.answer_logits_inner):
            layer.build((None, 2 * input_width))
        for layer in (
            self.start_logits_dense,
            self.end_logits_layer_norm,
            self.end_logits_output_dense,
            self.answer_logits_output,
        ):
            layer.build((None, input_width))
        self.built = True

    def end_logits(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps `[..., 2 * D]`, positions and begins side by side, to `[...]`."""
        inner = self.end_logits_layer_norm(self.end_logits_inner_dense(inputs))
        return tf.squeeze(self.end_logits_output_dense(inner), -1)

    @override
    def call(
        self,
        sequence_data: tf.Tensor,
        class_index: tf.Tensor,
        paragraph_mask: tf.Tensor | None = None,
        start_positions: tf.Tensor | None = None,
        training: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Predicts a span.

        Args:
            sequence_data: `[B, S, D]`.
            class_index: `[B]`, position of the token that stands for the whole sequence.
            paragraph_mask: `[B, S]`, 1 where a span may begin or end; None allows all.
            start_positions: `[B]`, where spans begin; needed in training.
            training: Whether ends are those of `start_positions`, instead of the likeliest begins.

        Returns:
            `start_logits`, `start_predictions` `[B, S]`, the latter log-probabilities; likewise of
            ends, `[B, S]` in training and `[B, K, S]` else; `class_logits` `[B]`, whether there is
            no answer. Not in training also the likeliest: `start_top_predictions` and
            `start_top_index` `[B, K]`, `end_top_predictions` and `end_top_index` `[B, K * E]`.

        Raises:
            ValueError: If there are no `start_positions` in training.
        """
        dtype = sequence_data.dtype
        length = tf.shape(sequence_data)[1]
        mask = tf.ones(tf.shape(sequence_data)[:2]) if paragraph_mask is None else paragraph_mask
        mask = tf.cast(mask, dtype)  # [B, S]
        start_logits = tf.squeeze(self.start_logits_dense(sequence_data), -1)
        start_predictions, start_logits = _mask(start_logits, mask)  # [B, S]
        outputs = {"start_predictions": start_predictions, "start_logits": start_logits}
        if training:
            if start_positions is None:
                raise ValueError("start_positions: got None; training needs them.")
            places = tf.reshape(start_positions, [-1, 1])
            starts = tf.gather(sequence_data, places, batch_dims=1)  # [B, 1, D]
            end_logits = tf.squeeze(self._find_ends(sequence_data, starts), 1)  # [B, S]
            outputs["end_predictions"], outputs["end_logits"] = _mask(end_logits, mask)
        else:
            top, places = tf.math.top_k(start_predictions, self._start_n_top)  # [B, K]
            starts = tf.gather(sequence_data, places, batch_dims=1)  # [B, K, D]
            end_logits = self._find_ends(sequence_data, starts)  # [B, K, S]
            ends, end_logits = _mask(end_logits, mask[:, tf.newaxis])
            top_ends, end_places = tf.math.top_k(ends, self._end_n_top)  # [B, K, E]
            size = self._start_n_top * self._end_n_top
            outputs |= {
                "end_predictions": ends,
                "end_logits": end_logits,
                "start_top_predictions": top,
                "start_top_index": places,
                "end_top_predictions": tf.reshape(top_ends, [-1, size]),
                "end_top_index": tf.reshape(end_places, [-1, size]),
            }
        is_class = tf.one_hot(tf.reshape(class_index, [-1]), length, dtype=dtype)  # [B, S]
        whole = tf.einsum("bsd,bs->bd", sequence_data, is_class)  # [B, D]
        begin = tf.einsum("bsd,bs->bd", sequence_data, tf.nn.softmax(start_logits))
        inner = self.answer_logits_inner(tf.concat([begin, whole], axis=-1))
        answer = self.answer_logits_output(self.answer_logits_dropout(inner, training=training))
        outputs["class_logits"] = tf.squeeze(answer, -1)
        return outputs

    def _find_ends(self, sequence: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
        """Returns logits `[B, K, S]` of ends, for begins `[B, K, D]`."""
        shape = tf.shape(sequence)
        count, width = tf.shape(starts)[1], sequence.shape[-1]
        full = [shape[0], count, shape[1], width]
        positions = tf.broadcast_to(sequence[:, tf.newaxis], full)
        begins = tf.broadcast_to(starts[:, :, tf.newaxis], full)
        return self.end_logits(tf.concat([positions, begins], axis=-1))


def _mask(logits: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns log-probabilities and logits of what a mask leaves."""
    masked = logits * mask - _IMPOSSIBLE * (1 - mask)
    return tf.nn.log_softmax(masked), masked
