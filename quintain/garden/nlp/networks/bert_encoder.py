"""BERT encoder, whose training leaves padding out.

Shapes: see `text_encoder`.
"""

import warnings
from typing import Any

import keras

from quintain.modeling import tf_utils
from quintain.nlp.modeling import activations, constructed_model, layers
from quintain.nlp.modeling.networks import text_encoder

_OTHER_NAMES = {
    "intermediate_size": "inner_dim",
    "activation": "inner_activation",
    "dropout_rate": "output_dropout",
    "attention_dropout_rate": "attention_dropout",
}
"""Names by which arguments may be given, too."""


class _Bert(text_encoder.TextEncoder):
    """Layers of both classes."""

    def _set_up(self, sizes: dict[str, Any], outputs: dict[str, Any], kwargs: Any) -> None:
        """Creates the layers.

        Args:
            sizes: Arguments of the constructor.
            outputs: Which inputs and outputs there are.
            kwargs: The rest of the arguments; sizes of other names are taken out.
        """
        for other, name in _OTHER_NAMES.items():
            if other in kwargs:
                sizes[name] = kwargs.pop(other)
        activation = activations.get(sizes["inner_activation"])
        initializer = keras.initializers.get(sizes["initializer"])
        text_encoder.TextEncoder.__init__(
            self,
            sizes["vocab_size"],
            sizes["hidden_size"],
            max_sequence_length=sizes["max_sequence_length"],
            type_vocab_size=sizes["type_vocab_size"],
            dropout_rate=sizes["output_dropout"],
            initializer=initializer,
            embedding_width=sizes["embedding_width"],
            embedding_layer=sizes["embedding_layer"],
            output_range=sizes["output_range"],
            return_attention_scores=sizes["return_attention_scores"],
            return_word_embeddings=sizes["return_word_embeddings"],
            **outputs,
            **kwargs,
        )
        self.norm_first = sizes["norm_first"]
        self.inner_activation = activation
        self._add_blocks(
            [
                layers.TransformerEncoderBlock(
                    num_attention_heads=sizes["num_attention_heads"],
                    inner_dim=sizes["inner_dim"],
                    inner_activation=activation,
                    output_dropout=sizes["output_dropout"],
                    attention_dropout=sizes["attention_dropout"],
                    norm_first=sizes["norm_first"],
                    return_attention_scores=sizes["return_attention_scores"],
                    kernel_initializer=self._clone_initializer(),
                    name=f"block_{index}",
                )
                for index in range(sizes["num_layers"])
            ]
        )
        self._keep_config(
            **{
                **sizes,
                "embedding_width": self.embedding_width,
                "inner_activation": tf_utils.serialize_activation(activation),
                "initializer": tf_utils.serialize_initializer(initializer),
            }
        )


@keras.saving.register_keras_serializable("Text")
class BertEncoderV2(_Bert):
    """BERT's encoder, whose inputs and outputs are dictionaries.

    Example:
        >>> encoder = BertEncoderV2(
        ...     100, hidden_size=8, num_layers=1, num_attention_heads=2, inner_dim=16
        ... )
        >>> sorted(encoder.inputs)
        ['input_mask', 'input_type_ids', 'input_word_ids']

    Source:
        Devlin et al., 2019 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int = 768,
        num_layers: int = 12,
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
        return_attention_scores: bool = False,
        return_word_embeddings: bool = False,
        **kwargs: Any,
    ) -> None:
        sizes = constructed_model.arguments(locals())
        # Arguments of `BertEncoder` that do nothing here: outputs are a dictionary of all of them.
        for name in ("dict_outputs", "return_all_encoder_outputs"):
            kwargs.pop(name, None)
        outputs = {"dict_inputs": True, "with_dense_inputs": with_dense_inputs}
        self._set_up(sizes, outputs, kwargs)


@keras.saving.register_keras_serializable("Text")
class BertEncoder(_Bert):
    """BERT's encoder, whose inputs are a list, and its outputs a list or a dictionary.

    Source:
        Devlin et al., 2019 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int = 768,
        num_layers: int = 12,
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
        dict_outputs: bool = False,
        return_all_encoder_outputs: bool = False,
        return_attention_scores: bool = False,
        return_word_embeddings: bool = False,
        **kwargs: Any,
    ) -> None:
        sizes = constructed_model.arguments(locals())
        if "sequence_length" in kwargs:
            kwargs.pop("sequence_length")
            warnings.warn(
                "sequence_length: has no effect; leave it out.", DeprecationWarning, stacklevel=2
            )
        outputs = {
            "dict_outputs": dict_outputs,
            "return_all_encoder_outputs": return_all_encoder_outputs,
        }
        self._set_up(sizes, outputs, kwargs)
