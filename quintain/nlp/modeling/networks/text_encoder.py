"""Base class of text encoders: embeddings, a pooler, inputs and outputs.

Shapes:
    B  examples in the batch
    S  positions
    E  width of the embeddings
    D  width of the model
    H  attention heads
    N  words of all examples, where padding is left out
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.modeling import tf_utils
from quintain.nlp.modeling import constructed_model, layers
from quintain.nlp.modeling.layers import dropout, packed_rows
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization

INPUTS: Final = ("input_word_ids", "input_mask", "input_type_ids")
"""Names of the inputs, in the order of those that are given as a list."""

INITIALIZER: Final = tf_utils.build_constant_initializer(0.02)
"""What encoders start from unless told otherwise; each weight gets a copy of its own."""

_EPSILON: Final = 1e-12


class TextEncoder(constructed_model.ConstructedModel):
    """Embeds words, positions and types, runs blocks, and pools the first position.

    Subclasses make the blocks, by `_add_blocks`. All variables exist once it is constructed.
    """

    skip_padding: bool = False
    """Whether training computes nothing but attention weights for padding, if the blocks can.
    Outputs at padding then mean nothing, and no gradient flows from them. Steps that XLA compiles
    compute it all the same."""

    def __init__(
        self,
        vocab_size: int | None,
        hidden_size: int,
        *,
        initializer: Any,
        max_sequence_length: int = 0,
        type_vocab_size: int = 0,
        dropout_rate: float = 0.0,
        embedding_width: int | None = None,
        embedding_layer: keras.layers.Layer | None = None,
        with_dense_inputs: bool = False,
        dict_inputs: bool = False,
        dict_outputs: bool = True,
        return_all_encoder_outputs: bool = False,
        return_attention_scores: bool = False,
        return_word_embeddings: bool = False,
        output_range: int | None = None,
        pooled_output_dim: int | None = None,
        pooler_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        """Creates embeddings and pooler.

        Args:
            vocab_size: Word ids; 0 is padding. None: a subclass embeds its inputs itself.
            hidden_size: Width of the model.
            initializer: Keras' initializer of the weights.
            max_sequence_length: Longest sequence.
            type_vocab_size: Type ids, such as first and second sentence.
            dropout_rate: Share of the embeddings' values that training drops.
            embedding_width: Width of the embeddings, which are projected to `hidden_size`.
            embedding_layer: Embeds the words, in place of a new layer; has `embeddings`.
            with_dense_inputs: Whether `inputs` lists vectors that come after the words.
            dict_inputs: Whether `inputs` are a dictionary.
            dict_outputs: Whether outputs are a dictionary; otherwise a list of the sequence (or,
                with `return_all_encoder_outputs`, those of all blocks) and the pooled output.
            return_all_encoder_outputs: See there.
            return_attention_scores: Whether outputs have the attention weights of all blocks.
            return_word_embeddings: Whether outputs have the embeddings.
            output_range: First positions that the last block computes; None for all.
            pooled_output_dim: Width of the pooled output; None: `hidden_size`.
            pooler_initializer: Keras' initializer of the layer that pools; None: as the others.
            **kwargs: Arguments of a Keras model.
        """
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.max_sequence_length = max_sequence_length
        self.with_dense_inputs = with_dense_inputs
        self.dict_inputs = dict_inputs
        self.dict_outputs = dict_outputs
        self.return_all_encoder_outputs = return_all_encoder_outputs
        self.return_attention_scores = return_attention_scores
        self.return_word_embeddings = return_word_embeddings
        self.output_range = output_range
        self.initializer = keras.initializers.get(initializer)
        self.embedding_width = embedding_width or hidden_size
        self._transformer_layers: list[Any] = []
        self._pooler_layer = keras.layers.Dense(
            pooled_output_dim or hidden_size,
            "tanh",
            kernel_initializer=tf_utils.clone_initializer(pooler_initializer or self.initializer),
            name="pooler_transform",
        )
        self._pooler_layer.build((None, hidden_size))
        if vocab_size is not None:
            self._create_embeddings(vocab_size, type_vocab_size, dropout_rate, embedding_layer)
        self.built = True

    def _create_embeddings(
        self, vocab_size: int, type_vocab_size: int, dropout_rate: float, embedding_layer: Any
    ) -> None:
        self._embedding_layer = embedding_layer or layers.OnDeviceEmbedding(
            vocab_size=vocab_size,
            embedding_width=self.embedding_width,
            initializer=self._clone_initializer(),
            name="word_embeddings",
        )
        self._position_embedding_layer = layers.PositionEmbedding(
            max_length=self.max_sequence_length,
            initializer=self._clone_initializer(),
            name="position_embedding",
        )
        self._type_embedding_layer = layers.OnDeviceEmbedding(
            vocab_size=type_vocab_size,
            embedding_width=self.embedding_width,
            initializer=self._clone_initializer(),
            use_one_hot=True,
            name="type_embeddings",
        )
        self._embedding_norm_layer = LayerNormalization(_EPSILON, name="embeddings_layer_norm")
        self._embedding_dropout = dropout.Dropout(dropout_rate, name="embedding_dropout")
        shape = (None, None, self.embedding_width)
        for layer in (self._embedding_layer, self._type_embedding_layer):
            if not layer.built:
                layer.build((None, None))
        self._position_embedding_layer.build(shape)
        self._embedding_norm_layer.build(shape)
        if self.embedding_width != self.hidden_size:
            self._embedding_projection = keras.layers.Dense(
                self.hidden_size,
                kernel_initializer=self._clone_initializer(),
                name="embedding_projection",
            )
            self._embedding_projection.build(shape)

    def _clone_initializer(self) -> Any:
        return tf_utils.clone_initializer(self.initializer)

    def _add_blocks(self, blocks: Sequence[Any], length: int | None = None) -> None:
        """Builds blocks, for sequences of one length or of any, and makes them parts of it."""
        for block in blocks:
            # Checkpoints follow attributes, and see no layers in lists.
            setattr(self, block.name, block)
            if not block.built:
                block.build((None, length, self.hidden_size))
        self._transformer_layers = list(blocks)

    @property
    def inputs(self) -> Any:
        """Keras' inputs of the model: a list, or a dictionary."""
        if "_inputs" not in self.__dict__:
            inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in INPUTS}
            if self.with_dense_inputs:
                width = self.embedding_width
                inputs["dense_inputs"] = keras.Input((None, width), name="dense_inputs")
                for name in ("dense_mask", "dense_type_ids"):
                    inputs[name] = keras.Input((None,), dtype="int32", name=name)
            self.__dict__["_inputs"] = inputs
        found = self.__dict__["_inputs"]
        return dict(found) if self.dict_inputs else list(found.values())

    @property
    def transformer_layers(self) -> list[Any]:
        """The blocks."""
        return list(self._transformer_layers)

    @property
    def pooler_layer(self) -> keras.layers.Dense:
        """The dense layer on top of the first position."""
        return self._pooler_layer

    def get_embedding_table(self) -> keras.Variable:
        """Returns the word embeddings, `[vocab_size, E]`."""
        return self._embedding_layer.embeddings

    def get_embedding_layer(self) -> keras.layers.Layer:
        """Returns the layer that embeds words."""
        return self._embedding_layer

    @override
    def call(self, inputs: Any, training: bool = False) -> Any:
        """Encodes a batch.

        Args:
            inputs: `input_word_ids` `[B, S]`; `input_mask` `[B, S]`, 1 for words and 0 for padding;
                and `input_type_ids` `[B, S]`: as a dictionary, or a list in this order. A
                dictionary may hold `input_word_embeddings` `[B, S, E]`, in place of the ids;
                `position_ids` `[B, S]`, where they do not count from 0; and `dense_inputs`
                `[B, S', E]` with `dense_mask` and `dense_type_ids` `[B, S']`, which come after the
                words.
            training: Whether to apply dropout.

        Returns:
            `sequence_output` `[B, S, D]`, `pooled_output` `[B, D]` of the first position, and
            `encoder_outputs`, the output of every block; where wanted `attention_scores`, a list
            of `[B, H, S, S]`, and `word_embeddings` `[B, S, D]`. Or a list, see `dict_outputs`.

        Raises:
            ConfigError: If the sequence is longer than `max_sequence_length`.
        """
        x, mask, rows = self._embed(inputs, training)
        spread = (lambda part: part) if rows is None else rows.spread
        outputs, scores = self._run_blocks(x, mask, rows)
        # Whatever the precision, as the last normalisation gives it.
        encoded = [tf.cast(spread(one), tf.float32) for one in outputs]
        sequence = encoded[-1] if encoded else tf.cast(spread(x), tf.float32)
        results = {
            "sequence_output": sequence,
            "pooled_output": self._pooler_layer(sequence[:, 0]),
            "encoder_outputs": encoded,
        }
        if self.return_attention_scores:
            results["attention_scores"] = scores
        if self.return_word_embeddings:
            results["word_embeddings"] = spread(x)
        return self._structure(results)

    def _embed(
        self, inputs: Any, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor, packed_rows.PackedRows | None]:
        """Returns the first block's input, the mask of attention and, if so, where the words are.

        The mask is `[B, 1, S]`, 1 for words and 0 for padding.
        """
        inputs = self._name_inputs(inputs)
        words = self._embed_words(inputs)
        mask, types = inputs["input_mask"], inputs["input_type_ids"]
        if inputs.get("dense_inputs") is not None:
            words = tf.concat([words, tf.cast(inputs["dense_inputs"], words.dtype)], axis=1)
            mask = tf.concat([mask, inputs["dense_mask"]], axis=1)
            types = tf.concat([types, inputs["dense_type_ids"]], axis=1)
        self._check_length(types.shape[1])
        rows = self._find_rows(mask, training)
        embedded = self._add_embeddings(words, types, inputs.get("position_ids"), rows)
        x = self._embedding_dropout(self._embedding_norm_layer(embedded), training=training)
        if self.embedding_width != self.hidden_size:
            x = self._embedding_projection(x)
        return x, self._mask(x, mask), rows

    def _mask(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        return tf.cast(mask, x.dtype)[:, tf.newaxis, :]

    def _name_inputs(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping):
            return inputs
        if len(inputs) != len(INPUTS):
            raise ValueError(
                f"inputs: got {len(inputs)} tensors, expected {', '.join(INPUTS)}, or a dictionary."
            )
        return dict(zip(INPUTS, inputs, strict=True))

    def _check_length(self, length: int | None) -> None:
        if length is not None and length > self.max_sequence_length:
            raise errors.ConfigError(
                f"max_sequence_length (max_position_embeddings in configs): got "
                f"{self.max_sequence_length}, but the input has {length} positions."
            )

    def _find_rows(self, mask: tf.Tensor, training: bool) -> packed_rows.PackedRows | None:
        """Returns where the words of a `[B, S]` mask are, if padding is to be skipped."""
        if not (training and self.skip_padding) or self.output_range is not None:
            return None
        can_skip = all(getattr(block, "takes_rows", False) for block in self._transformer_layers)
        return packed_rows.find(tf.not_equal(mask, 0), is_wanted=can_skip)

    def _embed_words(self, inputs: Mapping[str, Any]) -> tf.Tensor:
        """Returns the embeddings `[B, S, E]`, or still the ids `[B, S]`."""
        if inputs.get("input_word_embeddings") is not None:
            return inputs["input_word_embeddings"]
        ids = inputs["input_word_ids"]
        is_plain = type(self._embedding_layer) is layers.OnDeviceEmbedding
        if is_plain and inputs.get("dense_inputs") is None:
            return ids
        return self._embedding_layer(ids)

    def _add_embeddings(
        self,
        words: tf.Tensor,
        types: tf.Tensor,
        positions: tf.Tensor | None,
        rows: packed_rows.PackedRows | None,
    ) -> tf.Tensor:
        """Adds up the embeddings: `[B, S, E]`, or the `rows` `[N, E]`."""

        def look_up(table: keras.Variable, ids: tf.Tensor) -> tf.Tensor:
            return tf.gather(tf.convert_to_tensor(table), ids if rows is None else rows.pack(ids))

        # The tables are looked up in float32, and not cast as a whole.
        if words.dtype.is_floating:
            embedded = tf.cast(words if rows is None else rows.pack(words), tf.float32)
        else:
            embedded = look_up(self.get_embedding_table(), words)
        embedded += look_up(self._type_embedding_layer.embeddings, types)
        table = self._position_embedding_layer.embeddings
        if positions is not None:
            return embedded + look_up(table, positions)
        if rows is None:
            return embedded + tf.convert_to_tensor(table)[: tf.shape(types)[1]]  # [S, E]
        return embedded + tf.gather(tf.convert_to_tensor(table), rows.positions)

    def _run_blocks(
        self, x: tf.Tensor, mask: tf.Tensor, rows: packed_rows.PackedRows | None
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        outputs: list[tf.Tensor] = []
        scores: list[tf.Tensor] = []
        last = len(self._transformer_layers) - 1
        for index, block in enumerate(self._transformer_layers):
            where: dict[str, Any] = {} if rows is None else {"rows": rows}
            if index == last and self.output_range is not None:
                where["output_range"] = self.output_range
            x = block([x, mask], **where)
            if self.return_attention_scores:
                x, weights = x
                scores.append(weights)
            outputs.append(x)
        return outputs, scores

    def _structure(self, results: dict[str, Any]) -> Any:
        if self.dict_outputs:
            return results
        key = "encoder_outputs" if self.return_all_encoder_outputs else "sequence_output"
        outputs = [results[key], results["pooled_output"]]
        if self.return_attention_scores:
            outputs.append(results["attention_scores"])
        return outputs
