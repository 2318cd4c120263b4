"""FNet encoder, which mixes words by Fourier transforms instead of attention.

Shapes: see `text_encoder`.
"""

from collections.abc import Sequence
from typing import Any

import keras
from typing_extensions import override

from quintain import errors
from quintain.modeling import tf_utils
from quintain.nlp.modeling import activations, constructed_model, layers
from quintain.nlp.modeling.networks import text_encoder


@keras.saving.register_keras_serializable("Text")
class FNet(text_encoder.TextEncoder):
    """Blocks that mix words by a fixed or a learnt linear map; some may have attention.

    Maps mix all positions, so that each sequence has to have `max_sequence_length` of them, padding
    included.

    Source:
        Lee-Thorp et al., 2022 (https://arxiv.org/abs/2105.03824).
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int = 768,
        num_layers: int = 12,
        mixing_mechanism: layers.MixingMechanism | str = layers.MixingMechanism.FOURIER,
        use_fft: bool = False,
        attention_layers: Sequence[int] = (),
        num_attention_heads: int = 12,
        max_sequence_length: int = 512,
        type_vocab_size: int = 16,
        inner_dim: int = 3072,
        inner_activation: Any = activations.approximate_gelu,
        output_dropout: float = 0.1,
        attention_dropout: float = 0.1,
        initializer: Any = text_encoder.INITIALIZER,
        output_range: int | None = None,
        embedding_width: int | None = None,
        embedding_layer: keras.layers.Layer | None = None,
        norm_first: bool = False,
        with_dense_inputs: bool = False,
        **kwargs: Any,
    ) -> None:
        """Creates the layers and their variables.

        Raises:
            ValueError: If there is no such mechanism.
        """
        given = constructed_model.arguments(locals())
        inner_activation = activations.get(inner_activation)
        super().__init__(
            vocab_size,
            hidden_size,
            initializer=initializer,
            max_sequence_length=max_sequence_length,
            type_vocab_size=type_vocab_size,
            dropout_rate=output_dropout,
            embedding_width=embedding_width,
            embedding_layer=embedding_layer,
            with_dense_inputs=with_dense_inputs,
            dict_inputs=True,
            **kwargs,
        )
        self._keep_config(
            **{
                **given,
                "inner_activation": tf_utils.serialize_activation(inner_activation),
                "initializer": tf_utils.serialize_initializer(self.initializer),
                "embedding_width": self.embedding_width,
            }
        )
        last = num_layers - 1
        self._add_blocks(
            [
                layers.TransformerScaffold(
                    num_attention_heads=num_attention_heads,
                    inner_dim=inner_dim,
                    inner_activation=inner_activation,
                    attention_cls=self._build_mixing(is_attention=index in attention_layers),
                    output_dropout=output_dropout,
                    attention_dropout=attention_dropout,
                    norm_first=norm_first,
                    output_range=output_range if index == last else None,
                    kernel_initializer=self._clone_initializer(),
                    name=f"block_{index}",
                )
                for index in range(num_layers)
            ],
            max_sequence_length,
        )

    def _build_mixing(self, *, is_attention: bool) -> keras.layers.Layer:
        config = self._config
        if is_attention:
            heads = config["num_attention_heads"]
            return layers.MultiHeadAttention(
                num_heads=heads,
                key_dim=self.hidden_size // heads,
                dropout=config["attention_dropout"],
                kernel_initializer=self._clone_initializer(),
                name="self_attention",
            )
        mechanism = layers.MixingMechanism(config["mixing_mechanism"])
        if mechanism is layers.MixingMechanism.LINEAR:
            return layers.LinearTransformLayer(
                kernel_initializer=self._clone_initializer(), name="linear_transform"
            )
        classes = {
            layers.MixingMechanism.FOURIER: layers.FourierTransformLayer,
            layers.MixingMechanism.HARTLEY: layers.HartleyTransformLayer,
        }
        name = f"{mechanism.value}_transform"
        return classes[mechanism](use_fft=config["use_fft"], name=name)

    @override
    def _check_length(self, length: int | None) -> None:
        if length is not None and length != self.max_sequence_length:
            raise errors.ConfigError(
                f"max_sequence_length: got {self.max_sequence_length}, but the input has {length} "
                "positions; FNet takes sequences of that length only."
            )
