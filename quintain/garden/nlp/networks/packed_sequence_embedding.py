"""Embeddings of sequences that may hold several others, which do not see each other.

Shapes:
    B  examples in the batch
    S  positions
    E  width of the embeddings
    D  width of the model
"""

from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.modeling import tf_utils
from quintain.nlp.modeling import constructed_model, layers
from quintain.nlp.modeling.networks import text_encoder


@keras.saving.register_keras_serializable("Text")
class PackedSequenceMask(keras.layers.Layer):
    """Tells which positions of a sequence belong to the same part of it.

    Each part begins with the id that the sequence begins with.

    Example:
        >>> mask = PackedSequenceMask()(tf.constant([[7, 1, 7]]))
        >>> tf.cast(mask, tf.int32).numpy().tolist()
        [[[1, 1, 0], [1, 1, 0], [0, 0, 1]]]
    """

    @override
    def call(self, input_ids: tf.Tensor) -> tf.Tensor:
        """Maps `[B, S]` ids to `[B, S, S]` bool."""
        starts = tf.cast(tf.equal(input_ids, input_ids[:, :1]), tf.int32)
        parts = tf.cumsum(starts, axis=1)  # [B, S]
        return tf.equal(parts[:, :, tf.newaxis], parts[:, tf.newaxis])


@keras.saving.register_keras_serializable("Text")
class PositionEmbeddingWithSubSeqMask(keras.layers.Layer):
    """Learnt embeddings of positions, which may count from 0 in each part of a sequence."""

    def __init__(
        self,
        initializer: Any = "glorot_uniform",
        use_dynamic_slicing: bool = False,
        max_sequence_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Checks the sizes.

        Raises:
            ValueError: If one of the two is given without the other.
        """
        super().__init__(**kwargs)
        if use_dynamic_slicing != (max_sequence_length is not None):
            raise ValueError(
                f"max_sequence_length: got {max_sequence_length!r} with {use_dynamic_slicing=}; "
                "`max_sequence_length` must be set if `use_dynamic_slicing` is, and only then."
            )
        self._initializer = keras.initializers.get(initializer)
        self._use_dynamic_slicing = use_dynamic_slicing
        self._max_sequence_length = max_sequence_length

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "initializer": keras.initializers.serialize(self._initializer),
            "use_dynamic_slicing": self._use_dynamic_slicing,
            "max_sequence_length": self._max_sequence_length,
        }

    @override
    def build(self, input_shape: Any) -> None:
        """Creates the embeddings.

        Raises:
            ValueError: If the input has no three dimensions, or the length is not known.
        """
        if len(input_shape) != 3:
            raise ValueError(f"inputs: got the shape {input_shape}, expected [B, S, E].")
        length = self._max_sequence_length or input_shape[1]
        if length is None:
            raise ValueError("inputs: the length is not known; set `use_dynamic_slicing`.")
        self.embeddings = self.add_weight(
            shape=(length, input_shape[2]), initializer=self._initializer, name="embeddings"
        )
        self.built = True

    @override
    def call(
        self,
        inputs: tf.Tensor,
        position_ids: tf.Tensor | None = None,
        sub_sequence_mask: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Returns the embeddings of the positions of embedded words.

        Args:
            inputs: `[B, S, E]`; only the shape matters.
            position_ids: `[B, S]`, the positions, where they are given.
            sub_sequence_mask: `[B, S, S]` of `PackedSequenceMask`: positions count from 0 in each
                part.

        Returns:
            `[B, S, E]`.
        """
        table = tf.convert_to_tensor(self.embeddings)
        if position_ids is not None:
            return tf.gather(table, position_ids)
        if sub_sequence_mask is None:
            return tf.broadcast_to(table[: tf.shape(inputs)[1]], tf.shape(inputs))
        before = tf.cumsum(tf.cast(sub_sequence_mask, tf.int32), axis=-1)  # [B, S, S]
        return tf.gather(table, tf.linalg.diag_part(before) - 1)


@keras.saving.register_keras_serializable("Text")
class PackedSequenceEmbedding(constructed_model.ConstructorConfig, keras.Model):
    """Embeds words, positions and types, and says which positions may see each other.

    For `EncoderScaffold`, as its `embedding_cls`.
    """

    def __init__(
        self,
        vocab_size: int,
        type_vocab_size: int,
        embedding_width: int | None,
        hidden_size: int,
        max_seq_length: int,
        initializer: Any,
        dropout_rate: float,
        use_position_id: bool = False,
        pack_multiple_sequences: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        initializer = keras.initializers.get(initializer)
        width = embedding_width or hidden_size
        self._keep_config(
            vocab_size=vocab_size,
            type_vocab_size=type_vocab_size,
            embedding_width=width,
            hidden_size=hidden_size,
            max_seq_length=max_seq_length,
            initializer=tf_utils.serialize_initializer(initializer),
            dropout_rate=dropout_rate,
            use_position_id=use_position_id,
            pack_multiple_sequences=pack_multiple_sequences,
        )
        self._names = list(text_encoder.INPUTS) + ["position_ids"] * use_position_id

        def build_embedding(size: int, *, use_one_hot: bool) -> keras.layers.Layer:
            layer = layers.OnDeviceEmbedding(
                vocab_size=size,
                embedding_width=width,
                initializer=tf_utils.clone_initializer(initializer),
                use_one_hot=use_one_hot,
            )
            layer.build((None, None))
            return layer

        self._embedding_layer = build_embedding(vocab_size, use_one_hot=False)
        self._type_embedding_layer = build_embedding(type_vocab_size, use_one_hot=True)
        self._position_embedding_layer = PositionEmbeddingWithSubSeqMask(
            initializer=tf_utils.clone_initializer(initializer),
            use_dynamic_slicing=True,
            max_sequence_length=max_seq_length,
            name="position_embedding",
        )
        self._embedding_norm_layer = keras.layers.LayerNormalization(
            epsilon=1e-12, dtype="float32", name="embeddings_layer_norm"
        )
        self._embedding_dropout = keras.layers.Dropout(dropout_rate, dtype="float32")
        self._embedding_projection = None
        if width != hidden_size:
            self._embedding_projection = keras.layers.Dense(
                hidden_size,
                use_bias=False,
                kernel_initializer=tf_utils.clone_initializer(initializer),
                name="embedding_projection",
            )
        parts = (
            self._position_embedding_layer,
            self._embedding_norm_layer,
            self._embedding_projection,
        )
        for layer in parts:
            if layer is not None:
                layer.build((None, None, width))
        self._packed_mask = PackedSequenceMask() if pack_multiple_sequences else None
        self._attention_mask = layers.SelfAttentionMask()
        self.built = True

    @property
    def inputs(self) -> list[keras.KerasTensor]:
        """Keras' inputs of the model."""
        if "_inputs" not in self.__dict__:
            self.__dict__["_inputs"] = [
                keras.Input((None,), dtype="int32", name=name) for name in self._names
            ]
        return list(self.__dict__["_inputs"])

    def get_embedding_table(self) -> keras.Variable:
        """Returns the word embeddings, `[vocab_size, E]`."""
        return self._embedding_layer.embeddings

    @override
    def build(self, input_shape: Any = None) -> None:
        """Does nothing: all weights were made by the constructor."""

    @override
    def call(self, inputs: Any, training: bool = False) -> list[tf.Tensor]:
        """Embeds a batch.

        Args:
            inputs: `input_word_ids`, `input_mask`, `input_type_ids` and, where they are an input,
                `position_ids`, `[B, S]` each: as a list in this order, or a dictionary.
            training: Whether to apply dropout.

        Returns:
            `[B, S, D]`, and a mask `[B, S, S]`: 1 where a position may see another.

        Raises:
            ConfigError: If the sequence is longer than `max_seq_length`.
        """
        named = inputs if isinstance(inputs, dict) else dict(zip(self._names, inputs, strict=True))
        ids, longest = named["input_word_ids"], self._config["max_seq_length"]
        if ids.shape[1] is not None and ids.shape[1] > longest:
            raise errors.ConfigError(
                f"max_seq_length: got {longest}, but the input has {ids.shape[1]} positions."
            )
        same_part = None if self._packed_mask is None else self._packed_mask(ids)  # [B, S, S]
        words = self._embedding_layer(ids)  # [B, S, E]
        positions = self._position_embedding_layer(
            words, position_ids=named.get("position_ids"), sub_sequence_mask=same_part
        )
        x = words + positions + self._type_embedding_layer(named["input_type_ids"])
        x = self._embedding_dropout(self._embedding_norm_layer(x), training=training)
        if self._embedding_projection is not None:
            x = self._embedding_projection(x)
        mask = self._attention_mask(x, named["input_mask"])
        return [x, mask if same_part is None else mask * tf.cast(same_part, mask.dtype)]
