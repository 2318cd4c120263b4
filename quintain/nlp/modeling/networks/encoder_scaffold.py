"""A BERT encoder whose attention and feed-forward parts can be replaced, by gin for instance.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the model
    N  words of all examples, where padding is left out
"""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.config import gin_io
from quintain.nlp.modeling import activations
from quintain.nlp.modeling.layers import dropout, packed_rows, transformer, transformer_scaffold
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization

TransformerScaffold = transformer_scaffold.TransformerScaffold
LayerClass = Callable[..., keras.layers.Layer]


@gin_io.configurable
class EncoderScaffold(keras.Model):
    """BERT's encoder: embeddings of words, positions and types, blocks, and a pooler.

    Source:
        Devlin et al., 2019 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int = 768,
        num_layers: int = 12,
        num_attention_heads: int = 12,
        intermediate_size: int = 3072,
        *,
        hidden_activation: str = "gelu",
        dropout_rate: float = 0.1,
        attention_dropout_rate: float = 0.1,
        max_position_embeddings: int = 512,
        type_vocab_size: int = 2,
        initializer_range: float = 0.02,
        norm_first: bool = False,
        hidden_cls: LayerClass = transformer.Transformer,
        hidden_cfg: Mapping[str, Any] | None = None,
        skip_padding: bool = False,
        **kwargs: Any,
    ) -> None:
        """Creates the layers.

        Args:
            vocab_size: Word ids; 0 is padding.
            hidden_size: Width of the model.
            num_layers: Blocks.
            num_attention_heads: Attention heads; must divide `hidden_size`.
            intermediate_size: Width inside the feed-forward parts.
            hidden_activation: Keras' name of their activation; `gelu` is approximated by tanh, as
                in the published BERT.
            dropout_rate: Share of values that training drops.
            attention_dropout_rate: Share of attention weights that training drops.
            max_position_embeddings: Longest sequence.
            type_vocab_size: Type ids, such as first and second sentence.
            initializer_range: Standard deviation of the initial embeddings.
            norm_first: Whether inputs of a block's parts are normalised, instead of outputs.
            hidden_cls: Builds a block from the sizes above.
            hidden_cfg: More arguments for it.
            skip_padding: Whether training computes nothing but attention weights for padding, if
                blocks are made of the package's parts. Outputs at padding then mean nothing, and no
                gradient flows from them. Steps that XLA compiles compute it all the same.
            **kwargs: Arguments of a Keras model.
        """
        super().__init__(**kwargs)
        self.skip_padding = skip_padding
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.hidden_activation = hidden_activation
        self.max_position_embeddings = max_position_embeddings
        initializer = keras.initializers.TruncatedNormal(stddev=initializer_range)
        tables = {
            "word_embeddings": vocab_size,
            "position_embedding": max_position_embeddings,
            "type_embeddings": type_vocab_size,
        }
        # Only what is normalised is cast, not the whole matrices.
        self.word_table, self.position_table, self.type_table = (
            self.add_weight(
                shape=(count, hidden_size), initializer=initializer, autocast=False, name=name
            )
            for name, count in tables.items()
        )
        self.embedding_norm = LayerNormalization(1e-12)
        self.dropout = dropout.Dropout(dropout_rate)
        self.blocks = [
            hidden_cls(
                num_attention_heads=num_attention_heads,
                intermediate_size=intermediate_size,
                intermediate_activation=activations.get_approximate(hidden_activation),
                kernel_initializer=keras.initializers.TruncatedNormal(stddev=initializer_range),
                dropout_rate=dropout_rate,
                attention_dropout_rate=attention_dropout_rate,
                norm_first=norm_first,
                name=f"block_{index}",
                **(hidden_cfg or {}),
            )
            for index in range(num_layers)
        ]
        for block in self.blocks:
            # Checkpoints follow attributes, and see no layers in lists.
            setattr(self, block.name, block)
        self.pooler = keras.layers.Dense(
            hidden_size, "tanh", kernel_initializer=initializer, name="pooler"
        )

    @override
    def build(self, input_shape: Any = None) -> None:
        """Builds the layers; sizes do not depend on the input."""
        shape = (None, None, self.hidden_size)
        self.embedding_norm.build(shape)
        for block in self.blocks:
            block.build(shape)
        self.pooler.build((None, self.hidden_size))
        self.built = True

    @override
    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        """Encodes a batch.

        Args:
            inputs: `input_word_ids` `[B, S]`; `input_mask` `[B, S]`, 1 for words and 0 for padding;
                `input_type_ids` `[B, S]`; and, where they do not count from 0, `position_ids`
                `[B, S]`.
            training: Whether to apply dropout.

        Returns:
            `sequence_output` `[B, S, D]`, `pooled_output` `[B, D]` of the first position, and
            `encoder_outputs`, the output of every block.

        Raises:
            ConfigError: If the sequence is longer than `max_position_embeddings`.
        """
        ids = inputs["input_word_ids"]
        length = ids.shape[1]
        if length is not None and length > self.max_position_embeddings:
            raise errors.ConfigError(
                f"max_position_embeddings: got {self.max_position_embeddings}, but the input has "
                f"{length} positions."
            )
        rows = self._find_rows(inputs["input_mask"], training)
        embedded = self._embed(inputs, rows)  # [B, S, D], or [N, D]
        x = self.dropout(self.embedding_norm(embedded), training=training)
        mask = tf.cast(inputs["input_mask"], x.dtype)[:, tf.newaxis]  # [B, 1, S]
        where = {} if rows is None else {"rows": rows}
        spread = tf.identity if rows is None else rows.spread
        outputs = []
        for block in self.blocks:
            x = block([x, mask], training=training, **where)
            outputs.append(spread(x))
        sequence = outputs[-1] if outputs else spread(x)  # [B, S, D]
        return {
            "sequence_output": sequence,
            "pooled_output": self.pooler(sequence[:, 0]),
            "encoder_outputs": outputs,
        }

    def _find_rows(self, mask: tf.Tensor, training: bool) -> packed_rows.PackedRows | None:
        """Returns where the words of a `[B, S]` mask are, if padding is to be skipped."""
        is_wanted = training and self.skip_padding
        can_skip = all(getattr(block, "takes_rows", False) for block in self.blocks)
        return packed_rows.find(tf.not_equal(mask, 0), is_wanted=is_wanted and can_skip)

    def _embed(
        self, inputs: Mapping[str, tf.Tensor], rows: packed_rows.PackedRows | None
    ) -> tf.Tensor:
        """Adds up the embeddings: `[B, S, D]`, or the `rows` `[N, D]`."""

        def look_up(table: keras.Variable, ids: tf.Tensor) -> tf.Tensor:
            return tf.gather(tf.convert_to_tensor(table), ids if rows is None else rows.pack(ids))

        words = look_up(self.word_table, inputs["input_word_ids"])
        types = look_up(self.type_table, inputs["input_type_ids"])
        if "position_ids" in inputs:
            positions = look_up(self.position_table, inputs["position_ids"])
        elif rows is None:
            table = tf.convert_to_tensor(self.position_table)
            positions = table[: tf.shape(inputs["input_word_ids"])[1]]  # [S, D]
        else:
            positions = tf.gather(tf.convert_to_tensor(self.position_table), rows.positions)
        return words + types + positions

    def get_embedding_table(self) -> keras.Variable:
        """Returns the word embeddings, `[vocab_size, D]`."""
        return self.word_table
