"""ALBERT encoder.

Shapes: see `text_encoder`.
"""

from typing import Any

import keras

from quintain.modeling import tf_utils
from quintain.nlp.modeling import activations, layers
from quintain.nlp.modeling.networks import text_encoder


@keras.saving.register_keras_serializable("Text")
class AlbertEncoder(text_encoder.TextEncoder):
    """BERT with small embeddings, whose blocks are all the same one.

    Source:
        Lan et al., 2020 (https://arxiv.org/abs/1909.11942).
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_width: int | None = 128,
        hidden_size: int = 768,
        num_layers: int = 12,
        num_attention_heads: int = 12,
        max_sequence_length: int = 512,
        type_vocab_size: int = 16,
        intermediate_size: int = 3072,
        activation: Any = activations.approximate_gelu,
        dropout_rate: float = 0.1,
        attention_dropout_rate: float = 0.1,
        initializer: Any = text_encoder.INITIALIZER,
        dict_outputs: bool = False,
        **kwargs: Any,
    ) -> None:
        activation = activations.get(activation)
        super().__init__(
            vocab_size,
            hidden_size,
            initializer=initializer,
            max_sequence_length=max_sequence_length,
            type_vocab_size=type_vocab_size,
            dropout_rate=dropout_rate,
            embedding_width=embedding_width,
            dict_outputs=dict_outputs,
            **kwargs,
        )
        block = layers.TransformerEncoderBlock(
            num_attention_heads=num_attention_heads,
            inner_dim=intermediate_size,
            inner_activation=activation,
            output_dropout=dropout_rate,
            attention_dropout=attention_dropout_rate,
            kernel_initializer=self._clone_initializer(),
            name="transformer",
        )
        self._add_blocks([block])
        self._transformer_layers = [block] * num_layers
        self._keep_config(
            vocab_size=vocab_size,
            embedding_width=self.embedding_width,
            hidden_size=hidden_size,
            num_layers=num_layers,
            num_attention_heads=num_attention_heads,
            max_sequence_length=max_sequence_length,
            type_vocab_size=type_vocab_size,
            intermediate_size=intermediate_size,
            activation=tf_utils.serialize_activation(activation),
            dropout_rate=dropout_rate,
            attention_dropout_rate=attention_dropout_rate,
            initializer=tf_utils.serialize_initializer(self.initializer),
            **({"dict_outputs": True} if dict_outputs else {}),
        )
