"""BERT in pretraining, with heads for masked words and for the next sentence.

Shapes:
    B  examples in the batch
    S  positions
    M  masked positions
    V  vocabulary size
    C  classes
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.config import gin_io
from quintain.modeling import unbuilt_layers
from quintain.nlp.modeling import constructed_model, layers
from quintain.nlp.modeling.models import encoder_outputs
from quintain.nlp.modeling.networks import classification


@keras.saving.register_keras_serializable("Text")
class BertPretrainer(constructed_model.ConstructedModel):
    """An encoder with a head for masked words and one classifier.

    Source:
        Devlin et al., 2019, section 3.1 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        network: Any,
        num_classes: int,
        num_token_predictions: int,
        embedding_table: Any = None,
        activation: Any = None,
        initializer: Any = "glorot_uniform",
        output: str = "logits",
        **kwargs: Any,
    ) -> None:
        """Creates the heads.

        Raises:
            ValueError: If `output` is none of these, or the sequence is shorter than
                `num_token_predictions`.
        """
        given = constructed_model.arguments(locals())
        del given["embedding_table"]
        super().__init__(**kwargs)
        self._keep_config(**given)
        self.encoder = network
        self.num_token_predictions = num_token_predictions
        width, pooled_width = encoder_outputs.get_widths(network)
        length = encoder_outputs.name_inputs(network.inputs)["input_word_ids"].shape[1]
        if length is not None and length < num_token_predictions:
            raise ValueError(
                f"num_token_predictions: got {num_token_predictions}, but the sequences of the "
                f"network have {length} positions."
            )
        self.masked_lm = layers.MaskedLM(
            network.get_embedding_table() if embedding_table is None else embedding_table,
            activation=activation,
            initializer=initializer,
            output=output,
            name="cls_predictions",
        )
        self.masked_lm.build((None, None, width))
        self.classification = classification.Classification(
            pooled_width, num_classes, initializer, output, name="classification"
        )
        self.built = True

    @functools.cached_property
    def inputs(self) -> Any:
        """Keras' inputs of the model: the encoder's, and `masked_lm_positions`."""
        shape = (self.num_token_predictions,)
        positions = keras.Input(shape, dtype="int32", name="masked_lm_positions")
        return encoder_outputs.add_inputs(self.encoder, positions)

    @property
    def checkpoint_items(self) -> dict[str, Any]:
        """The parts of checkpoints that other tasks start from."""
        return {"encoder": self.encoder, "masked_lm": self.masked_lm}

    @override
    def call(self, inputs: Any) -> dict[str, tf.Tensor]:
        """Predicts.

        Args:
            inputs: Those of the encoder, and `masked_lm_positions` `[B, M]`, as a dictionary, or as
                a list with the latter at the end.

        Returns:
            `masked_lm` `[B, M, V]` and `classification` `[B, C]`.
        """
        if isinstance(inputs, Mapping):
            positions = inputs["masked_lm_positions"]
        else:
            *inputs, positions = inputs
        outputs = encoder_outputs.run(self.encoder, inputs)
        return {
            "masked_lm": self.masked_lm(outputs["sequence_output"], masked_positions=positions),
            "classification": self.classification(outputs["pooled_output"]),
        }


@keras.saving.register_keras_serializable("Text")
@gin_io.configurable
class BertPretrainerV2(constructed_model.ConstructedModel):
    """An encoder with a head for masked words, tied to its embeddings, and classifiers.

    Source:
        Devlin et al., 2019, section 3.1 (https://arxiv.org/abs/1810.04805).
    """

    def __init__(
        self,
        encoder_network: Any,
        mlm_activation: Any = None,
        mlm_initializer: Any = "glorot_uniform",
        classification_heads: Sequence[keras.layers.Layer] | None = None,
        customized_masked_lm: keras.layers.Layer | None = None,
        name: str = "bert",
        **kwargs: Any,
    ) -> None:
        """Creates the heads.

        Raises:
            ValueError: If two classifiers have the same name.
        """
        given = constructed_model.arguments(locals())
        del given["customized_masked_lm"]
        super().__init__(name=name, **kwargs)
        self._keep_config(**given)
        self.encoder_network = encoder_network
        heads = list(classification_heads or [])
        if len({head.name for head in heads}) != len(heads):
            names = ", ".join(head.name for head in heads)
            raise ValueError(f"Classification heads should have unique names, but got {names}.")
        width, pooled_width = encoder_outputs.get_widths(encoder_network)
        self.masked_lm = customized_masked_lm or layers.MaskedLM(
            encoder_network.get_embedding_table(),
            activation=mlm_activation,
            initializer=mlm_initializer,
            name="cls_predictions",
        )
        if not self.masked_lm.built:
            self.masked_lm.build((None, None, width))
        self.classification_heads = heads
        for head in heads:
            # Checkpoints follow attributes, and see no layers in lists.
            setattr(self, f"{head.name}_head", head)
            takes_pooled = _takes_pooled(head)
            shape = (None, pooled_width) if takes_pooled else (None, None, width)
            unbuilt_layers.make_weights(head, shape)
        self.built = True

    @functools.cached_property
    def inputs(self) -> Any:
        """Keras' inputs of the model: the encoder's, and `masked_lm_positions`."""
        positions = keras.Input((None,), dtype="int32", name="masked_lm_positions")
        return encoder_outputs.add_inputs(self.encoder_network, positions)

    @property
    def checkpoint_items(self) -> dict[str, Any]:
        """The parts of checkpoints that other tasks start from."""
        parts: dict[str, Any] = {"encoder": self.encoder_network, "masked_lm": self.masked_lm}
        for head in self.classification_heads:
            for name, part in getattr(head, "checkpoint_items", {}).items():
                parts[f"{head.name}.{name}"] = part
        return parts

    @override
    def call(self, inputs: Any, training: bool = False) -> dict[str, Any]:
        """Predicts.

        Args:
            inputs: Those of the encoder, and `masked_lm_positions` `[B, M]`, as a dictionary, or as
                a list in the order of `inputs`. Without the positions there are no `mlm_logits`.
            training: Whether to apply dropout.

        Returns:
            `mlm_logits` `[B, M, V]`, what each classifier gives, such as logits `[B, C]`, by its
            name, and what the encoder gives.
        """
        del training  # Keras tells the layers.
        if not isinstance(inputs, Mapping):
            inputs = dict(zip(encoder_outputs.name_inputs(self.inputs), inputs, strict=False))
        outputs = encoder_outputs.run(self.encoder_network, inputs)
        if "masked_lm_positions" in inputs:
            outputs["mlm_logits"] = self.masked_lm(
                outputs["sequence_output"], masked_positions=inputs["masked_lm_positions"]
            )
        for head in self.classification_heads:
            key = "pooled_output" if _takes_pooled(head) else "sequence_output"
            found = head(outputs[key])
            if isinstance(found, Mapping):
                outputs.update(found)
            else:
                outputs[head.name] = tf.cast(found, tf.float32)
        return outputs


def _takes_pooled(head: keras.layers.Layer) -> bool:
    """True if a classifier has no dense layer of its own, and takes the encoder's pooled output."""
    return isinstance(head, layers.ClassificationHead) and not head.inner_dim
