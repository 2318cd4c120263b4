"""Config of BERT in pretraining."""

import dataclasses
from typing import Annotated

from annotated_types import Ge, Lt

from quintain.config import base_config
from quintain.nlp.configs import encoders
from quintain.nlp.modeling import activations
from quintain.optimization.configs import ranges


@dataclasses.dataclass
class ClsHeadConfig(base_config.Config):
    """A classifier on top of one position."""

    inner_dim: Annotated[int, Ge(0), Lt(2**31)] = 0
    """Width of a dense layer of its own before the classifier; 0 takes the encoder's pooled output
    instead."""

    num_classes: encoders.Size = 2
    """Classes."""

    activation: activations.Name = "tanh"
    """Keras' name of the dense layer's activation."""

    dropout_rate: encoders.Rate = 0.0
    """Share of values that training drops."""

    cls_token_idx: Annotated[int, Ge(0), Lt(2**31)] = 0
    """Position to classify by, where the classifier has a dense layer of its own."""

    name: str | None = "next_sentence"
    """Name of the head, and of its output. None takes `next_sentence`."""


@dataclasses.dataclass
class PretrainerConfig(base_config.Config):
    """An encoder with a head for masked words and, if wanted, classifiers."""

    encoder: encoders.EncoderConfig = dataclasses.field(default_factory=encoders.EncoderConfig)
    """The encoder."""

    cls_heads: list[ClsHeadConfig] = dataclasses.field(default_factory=list)
    """Classifiers; the one named `next_sentence` is trained on sentence pairs."""

    mlm_activation: activations.Name = "gelu"
    """Keras' name of the activation in the head for masked words."""

    mlm_initializer_range: ranges.Positive = 0.02
    """Standard deviation of the initial weights of the head for masked words."""

    mlm_output_weights_use_proj: bool = base_config.unused(
        False, "The head for masked words always takes the embeddings themselves."
    )
    """Kept for configs of the reference, which does not read it either."""
