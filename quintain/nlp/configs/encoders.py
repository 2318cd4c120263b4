"""Encoders by config: sizes come from YAML, internals may come from gin."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.config import base_config, gin_io, one_of
from quintain.nlp.configs import encoder_sizes, unbuilt_encoders
from quintain.nlp.data.masked import bert_vocabulary
from quintain.nlp.modeling import activations, layers, networks
from quintain.settings import config_definitions as cfg

Size = encoder_sizes.Size
Rate = encoder_sizes.Rate

AlbertEncoderConfig = encoder_sizes.AlbertEncoderConfig
BertEncoderConfig = encoder_sizes.BertEncoderConfig
BigBirdEncoderConfig = unbuilt_encoders.BigBirdEncoderConfig
FNetEncoderConfig = encoder_sizes.FNetEncoderConfig
FunnelEncoderConfig = unbuilt_encoders.FunnelEncoderConfig
KernelEncoderConfig = encoder_sizes.KernelEncoderConfig
MobileBertEncoderConfig = unbuilt_encoders.MobileBertEncoderConfig
QueryBertConfig = encoder_sizes.QueryBertConfig
ReuseEncoderConfig = encoder_sizes.ReuseEncoderConfig
SparseMixerEncoderConfig = unbuilt_encoders.SparseMixerEncoderConfig
XLNetEncoderConfig = unbuilt_encoders.XLNetEncoderConfig

# What gin files name as parts of an encoder has to be imported before they are read.
_GIN_PARTS: Final = (
    layers.GatedFeedforward,
    layers.TalkingHeadsAttention,
    layers.TransformerScaffold,
    networks.EncoderScaffold,
)


@dataclasses.dataclass
class EncoderConfig(one_of.OneOfConfig):
    """The encoder, chosen by `type`."""

    type: str | None = "bert"
    """Which of the encoders below."""

    albert: AlbertEncoderConfig = dataclasses.field(default_factory=AlbertEncoderConfig)
    """ALBERT, whose blocks share their weights."""

    bert: BertEncoderConfig = dataclasses.field(default_factory=BertEncoderConfig)
    """BERT, whose blocks gin may replace."""

    bert_v2: BertEncoderConfig = dataclasses.field(default_factory=BertEncoderConfig)
    """The same, under the name of its newer class."""

    bigbird: base_config.Config = dataclasses.field(default_factory=BigBirdEncoderConfig)
    """BigBird. Not built."""

    funnel: base_config.Config = dataclasses.field(default_factory=FunnelEncoderConfig)
    """The funnel Transformer. Not built."""

    kernel: KernelEncoderConfig = dataclasses.field(default_factory=KernelEncoderConfig)
    """BERT whose attention is approximated by a kernel."""

    mobilebert: base_config.Config = dataclasses.field(default_factory=MobileBertEncoderConfig)
    """MobileBERT. Not built."""

    reuse: ReuseEncoderConfig = dataclasses.field(default_factory=ReuseEncoderConfig)
    """BERT whose blocks reuse attention scores of those before them."""

    xlnet: base_config.Config = dataclasses.field(default_factory=XLNetEncoderConfig)
    """XLNet. Not built."""

    query_bert: QueryBertConfig = dataclasses.field(default_factory=QueryBertConfig)
    """BERT whose words are embedded in two steps."""

    fnet: FNetEncoderConfig = dataclasses.field(default_factory=FNetEncoderConfig)
    """FNet, which mixes words by Fourier transforms. All sequences have `max_sequence_length`."""

    sparse_mixer: base_config.Config = dataclasses.field(default_factory=SparseMixerEncoderConfig)
    """The sparse mixer. Not built."""

    any: base_config.Config = dataclasses.field(default_factory=base_config.Config)
    """A config of your own, with a builder bound to its class by `bind`."""

    @override
    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a problem if `type` is none of the choices, or is not built."""
        yield from super().check()
        if self.type in unbuilt_encoders.NOT_BUILT:
            built = [one for one in self.choices() if one not in unbuilt_encoders.NOT_BUILT]
            yield (
                "type",
                f"got {self.type!r}, which is not built here: "
                f"{unbuilt_encoders.NOT_BUILT[self.type]}. Expected one of {', '.join(built)}; "
                "`any` takes an encoder of your own.",
            )


def check_vocabulary(
    config: EncoderConfig,
    vocabulary: bert_vocabulary.BertVocabulary,
    field: str = "task.model.encoder",
) -> None:
    """Checks that an encoder has an embedding for every token of a vocabulary.

    One whose config has no `vocab_size` is not checked. `field` is its path in the experiment.

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
    embedding_layer: keras.layers.Layer | None = None,
    encoder_cls: Callable[..., Any] | None = None,
    bypass_config: bool = False,
) -> Any:
    """Builds the encoder that a config chooses.

    Args:
        config: The encoder.
        embedding_layer: Embeds the words, in place of a new one.
        encoder_cls: `EncoderScaffold`, whose parts gin may replace; None takes the class of the
            encoder.
        bypass_config: Whether to call `encoder_cls` without the sizes of the config.

    Raises:
        ConfigError: If no encoder is chosen, it is not built, or `any` has no builder.
    """
    if bypass_config:
        if encoder_cls is None:
            raise errors.ConfigError("bypass_config: got true without an encoder_cls to call.")
        return encoder_cls()
    if config.type is None:
        raise errors.ConfigError(
            f"encoder.type: got None, expected one of {', '.join(config.choices())}."
        )
    chosen = config.get()
    if config.type == "any":
        return _build_any(chosen)
    if encoder_cls is not None:
        return encoder_cls(**_list_scaffold_arguments(chosen))
    return _BUILDERS[config.type](chosen, embedding_layer)


def _build_any(config: Any) -> Any:
    if type(config).BUILDER is None:
        raise errors.ConfigError(
            "encoder.any: got a config without a builder; assign one whose class has one, made "
            "by `quintain.config.bind`."
        )
    encoder = config.BUILDER(config)
    if not isinstance(encoder, tf.Module | keras.layers.Layer):
        raise errors.ConfigError(
            f"encoder.any: its builder returned a {type(encoder).__name__}, expected a Keras model "
            "or layer, or a tf.Module."
        )
    return encoder


def _build_initializer(config: Any) -> keras.initializers.Initializer:
    return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def _list_scaffold_arguments(config: Any) -> dict[str, Any]:
    """Returns the arguments of `EncoderScaffold` for the sizes of a BERT encoder."""
    initializer = _build_initializer(config)
    return {
        "embedding_cfg": {
            "vocab_size": config.vocab_size,
            "type_vocab_size": config.type_vocab_size,
            "hidden_size": config.hidden_size,
            "max_seq_length": config.max_position_embeddings,
            "initializer": initializer,
            "dropout_rate": config.dropout_rate,
        },
        "hidden_cfg": {
            "num_attention_heads": config.num_attention_heads,
            "intermediate_size": config.intermediate_size,
            "intermediate_activation": activations.get_approximate(config.hidden_activation),
            "dropout_rate": config.dropout_rate,
            "attention_dropout_rate": config.attention_dropout_rate,
            "kernel_initializer": initializer,
            # Parts of one's own need not know it.
            **({"norm_first": True} if config.norm_first else {}),
        },
        "num_hidden_instances": config.num_layers,
        "pooled_output_dim": config.hidden_size,
        "pooler_layer_initializer": initializer,
        "dict_outputs": True,
    }


_ARGUMENTS: Final = {
    "hidden_activation": "activation",
    "max_position_embeddings": "max_sequence_length",
    "embedding_size": "embedding_width",
}
"""Names of constructors' arguments, where fields of configs have others."""


def _list_arguments(config: Any) -> dict[str, Any]:
    """Returns the arguments of an encoder's constructor that its config has."""
    names = {field.name for field in dataclasses.fields(config)} - {"initializer_range"}
    given = {_ARGUMENTS.get(name, name): getattr(config, name) for name in names}
    for name in given.keys() & {"activation", "inner_activation"}:
        given[name] = activations.get_approximate(given[name])
    return {**given, "initializer": _build_initializer(config), "dict_outputs": True}


def _build_albert(config: Any, embedding_layer: Any) -> Any:
    _refuse_layer(config, embedding_layer)
    return networks.AlbertEncoder(**_list_arguments(config))


def _build_bert(config: Any, embedding_layer: Any, encoder_cls: Any = networks.BertEncoder) -> Any:
    return encoder_cls(**_list_arguments(config), embedding_layer=embedding_layer)


def _build_query_bert(config: Any, embedding_layer: Any) -> Any:
    embedding_layer = embedding_layer or layers.FactorizedEmbedding(
        vocab_size=config.vocab_size,
        embedding_width=config.embedding_size or config.hidden_size,
        output_dim=config.hidden_size,
        initializer=_build_initializer(config),
        name="word_embeddings",
    )
    whole = config.replace(embedding_size=None)
    return _build_bert(whole, embedding_layer, networks.BertEncoderV2)


def _build_kernel(config: Any, embedding_layer: Any) -> Any:
    _refuse_layer(config, embedding_layer)
    arguments = _list_scaffold_arguments(config)
    own = "feature_transform num_random_features redraw is_short_seq begin_kernel scale"
    arguments["hidden_cfg"] |= {
        "norm_first": config.norm_first,
        "attention_cls": layers.KernelAttention,
        "attention_cfg": {
            "num_heads": config.num_attention_heads,
            "key_dim": config.hidden_size // config.num_attention_heads,
            "kernel_initializer": arguments["pooler_layer_initializer"],
            **{name: getattr(config, name) for name in own.split()},
        },
    }
    return networks.EncoderScaffold(
        **arguments,
        hidden_cls=layers.TransformerScaffold,
        mask_cls=layers.KernelMask,
        layer_idx_as_attention_seed=True,
    )


def _build_reuse(config: Any, embedding_layer: Any) -> Any:
    _refuse_layer(config, embedding_layer)
    arguments = _list_scaffold_arguments(config)
    own = "reuse_attention use_relative_pe pe_max_seq_length max_reuse_layer_idx"
    arguments["hidden_cfg"] = {
        "num_attention_heads": config.num_attention_heads,
        "inner_dim": config.intermediate_size,
        "inner_activation": activations.get_approximate(config.hidden_activation),
        "output_dropout": config.dropout_rate,
        "attention_dropout": config.attention_dropout_rate,
        "norm_first": config.norm_first,
        "kernel_initializer": arguments["pooler_layer_initializer"],
        **{name: getattr(config, name) for name in own.split()},
    }
    return networks.EncoderScaffold(
        **arguments, hidden_cls=layers.ReuseTransformer, feed_layer_idx=True, recursive=True
    )


def _refuse_layer(config: Any, embedding_layer: Any) -> None:
    if embedding_layer is not None:
        raise errors.ConfigError(
            f"embedding_layer: got one, but an encoder of {type(config).__name__} has "
            "embeddings of its own."
        )


_BUILDERS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "albert": _build_albert,
    "bert": _build_bert,
    "bert_v2": lambda config, layer: _build_bert(config, layer, networks.BertEncoderV2),
    "fnet": lambda config, layer: _build_bert(config, layer, networks.FNet),
    "kernel": _build_kernel,
    "query_bert": _build_query_bert,
    "reuse": _build_reuse,
}


def build_task_encoder(
    config: EncoderConfig,
    task_config: cfg.TaskConfig | None,
    *,
    uses_pooler: bool,
    embedding_layer: keras.layers.Layer | None = None,
) -> Any:
    """Builds the encoder of a task, which does not compute padding in training.

    Private training looks at one example at a time and needs fixed shapes. Where nothing uses the
    pooled output, its layer is not trained. `embedding_layer` embeds words, in place of a new one.
    """
    encoder = build_encoder(config, embedding_layer)
    pooler = getattr(encoder, "pooler_layer", None)
    if not uses_pooler and isinstance(pooler, keras.layers.Layer):
        pooler.trainable = False
    if isinstance(encoder, networks.TextEncoder):
        encoder.skip_padding = (
            task_config is None or task_config.differential_privacy_config is None
        )
    return encoder
