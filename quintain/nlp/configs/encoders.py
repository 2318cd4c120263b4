"""Encoders by config: sizes come from YAML, internals may come from gin."""

import dataclasses
from collections.abc import Callable

import keras

from quintain import errors
from quintain.config import base_config, gin_io, one_of
from quintain.core import config_definitions as cfg
from quintain.nlp.data.masked import bert_vocabulary

# What gin files name as parts of an encoder has to be imported before they are read.
from quintain.nlp.modeling.layers import gated_feedforward as gated_feedforward
from quintain.nlp.modeling.layers import talking_heads_attention as talking_heads_attention
from quintain.nlp.modeling.networks import encoder_scaffold
from quintain.optimization.configs import ranges

Size = ranges.Size
Rate = ranges.Fraction


@dataclasses.dataclass
class BertEncoderConfig(base_config.Config):
    """Sizes of a BERT encoder."""

    vocab_size: Size = 30522
    """Word ids; 0 is padding."""

    hidden_size: Size = 768
    """Width of the model."""

    num_layers: Size = 12
    """Blocks."""

    num_attention_heads: Size = 12
    """Attention heads; must divide `hidden_size`."""

    hidden_activation: str = "gelu"
    """Keras' name of the activation in the feed-forward parts."""

    intermediate_size: Size = 3072
    """Width inside the feed-forward parts."""

    dropout_rate: Rate = 0.1
    """Share of values that training drops."""

    attention_dropout_rate: Rate = 0.1
    """Share of attention weights that training drops."""

    max_position_embeddings: Size = 512
    """Longest sequence."""

    type_vocab_size: Size = 2
    """Type ids, such as first and second sentence."""

    initializer_range: ranges.Positive = 0.02
    """Standard deviation of the initial embeddings."""

    norm_first: bool = False
    """Whether inputs of a block's parts are normalised, instead of outputs."""


@dataclasses.dataclass
class EncoderConfig(one_of.OneOfConfig):
    """The encoder, chosen by `type`."""

    type: str | None = "bert"
    """Which of the encoders below."""

    bert: BertEncoderConfig = dataclasses.field(default_factory=BertEncoderConfig)
    """BERT, whose blocks gin may replace."""

    any: base_config.Config = dataclasses.field(default_factory=base_config.Config)
    """A config of your own, with a builder bound to its class by `bind`."""


def check_vocabulary(
    config: EncoderConfig,
    vocabulary: bert_vocabulary.BertVocabulary,
    field: str = "task.model.encoder",
) -> None:
    """Checks that an encoder has an embedding for every token of a vocabulary.

    Args:
        config: The encoder. One whose config has no `vocab_size` is not checked.
        vocabulary: The vocabulary.
        field: Path of the encoder in the experiment's config.

    Raises:
        ConfigError: If it has too few.
    """
    chosen = config.get() if config.type else None
    size = getattr(chosen, "vocab_size", None)
    if size is not None and size < vocabulary.vocab_size:
        raise errors.ConfigError(
            f"{field}.{config.type}.vocab_size: got {size}, but the vocabulary "
            f"{vocabulary.path!r} has {vocabulary.vocab_size} tokens. Set it to "
            f"{vocabulary.vocab_size}."
        )


@gin_io.configurable
def build_encoder(
    config: EncoderConfig,
    encoder_cls: Callable[..., keras.Model] | None = None,
) -> keras.Model:
    """Builds the encoder that a config chooses.

    Args:
        config: The encoder.
        encoder_cls: Builds it from the fields of its config. None takes `EncoderScaffold`.

    Raises:
        ConfigError: If no encoder is chosen, or `any` has no builder.
    """
    if config.type is None:
        raise errors.ConfigError(
            f"encoder.type: got None, expected one of {', '.join(config.choices())}."
        )
    chosen = config.get()
    if config.type == "any":
        if type(chosen).BUILDER is None:
            raise errors.ConfigError(
                "encoder.any: got a config without a builder; assign one whose class has one, made "
                "by `quintain.config.bind`."
            )
        return chosen.BUILDER(chosen)
    encoder_cls = encoder_cls or encoder_scaffold.EncoderScaffold
    return encoder_cls(**chosen.as_dict())


def build_task_encoder(config: EncoderConfig, task_config: cfg.TaskConfig) -> keras.Model:
    """Builds the encoder of a task, which does not compute padding in training.

    Private training looks at one example at a time and needs fixed shapes.
    """
    encoder = build_encoder(config)
    if isinstance(encoder, encoder_scaffold.EncoderScaffold):
        encoder.skip_padding = task_config.differential_privacy_config is None
    return encoder
