"""Config of ELECTRA in pretraining."""

import dataclasses

from quintain.config import base_config
from quintain.nlp.configs import bert, encoders
from quintain.optimization.configs import ranges


@dataclasses.dataclass
class ElectraPretrainerConfig(base_config.Config):
    """A generator that replaces words, and a discriminator that finds them."""

    num_masked_tokens: encoders.Size = 76
    """Masked positions of an example, in Keras' `inputs` of the model."""

    sequence_length: encoders.Size = 512
    """Kept for configs of the reference, which does not read it either: the data say it."""

    num_classes: encoders.Size = 2
    """Classes of the generator's head for sentence pairs, which is trained where the data have
    `next_sentence_labels`."""

    discriminator_loss_weight: ranges.NonNegative = 50.0
    """Weight of the discriminator's loss beside the generator's."""

    tie_embeddings: bool = True
    """Whether the generator embeds words by the discriminator's table."""

    disallow_correct: bool = False
    """Whether the generator never draws the right word."""

    generator_temperature: ranges.Positive = 1.0
    """Divides the generator's logits before words are drawn. Above 1 more unlikely ones are drawn,
    which a small discriminator learns to find sooner."""

    generator_encoder: encoders.EncoderConfig = dataclasses.field(
        default_factory=encoders.EncoderConfig
    )
    """The generator. A quarter of the discriminator's size serves best; under `tie_embeddings` it
    has the same `embedding_size`."""

    discriminator_encoder: encoders.EncoderConfig = dataclasses.field(
        default_factory=encoders.EncoderConfig
    )
    """The discriminator, which fine-tuning starts from."""

    cls_heads: list[bert.ClsHeadConfig] = dataclasses.field(default_factory=list)
    """Kept for configs of the reference, which does not read it either: see `num_classes`."""
