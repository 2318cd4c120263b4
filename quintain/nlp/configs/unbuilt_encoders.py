"""Encoders that configs of the reference may hold, and that are refused when they are chosen."""

import dataclasses
from typing import Annotated, Final

from annotated_types import Ge, Lt

from quintain.config import base_config
from quintain.nlp.configs import encoder_sizes
from quintain.optimization.configs import ranges

NOT_BUILT: Final = {
    "bigbird": "its block-sparse attention is for sequences of thousands of tokens",
    "funnel": "its pooled sequences fit none of the tasks here",
    "mobilebert": "it needs the distillation that it was trained by",
    "sparse_mixer": "its mixture of experts needs a router that no task here trains",
    "xlnet": "its permuted objective and memory fit none of the tasks here",
}
"""Encoders that configs may name and hold, and why they are refused when they are chosen."""


@dataclasses.dataclass
class SparseMixerEncoderConfig(encoder_sizes.MixerSizes):
    """Sizes of a sparse mixer. Not built, see `NOT_BUILT`."""

    num_layers: encoder_sizes.Size = 14
    """Blocks."""

    moe_layers: tuple[encoder_sizes.Index, ...] = (5, 6, 7, 8)
    """Which blocks have experts."""

    attention_layers: tuple[encoder_sizes.Index, ...] = (10, 11, 12, 13)
    """Which blocks have attention."""

    num_experts: encoder_sizes.Size = 16
    """Experts of a block."""

    train_capacity_factor: ranges.Positive = 1.0
    """Room of the experts in training."""

    eval_capacity_factor: ranges.Positive = 1.0
    """Room of the experts in evaluation."""

    examples_per_group: ranges.Positive = 1.0
    """Examples that are routed together."""

    num_attention_heads: encoder_sizes.Size = 8
    """Attention heads."""


@dataclasses.dataclass
class FunnelEncoderConfig(encoder_sizes.Sizes):
    """Sizes of a funnel Transformer. Not built, see `NOT_BUILT`."""

    max_position_embeddings: encoder_sizes.Size = 512
    """Longest sequence."""

    type_vocab_size: encoder_sizes.Size = 16
    """Type ids."""

    inner_dim: encoder_sizes.Size = 3072
    """Width inside the feed-forward parts."""

    hidden_activation: str = "gelu"
    """Activation of the feed-forward parts."""

    approx_gelu: bool = True
    """Whether `gelu` is approximated."""

    dropout_rate: encoder_sizes.Rate = 0.1
    """Share of values that training drops."""

    attention_dropout_rate: encoder_sizes.Rate = 0.1
    """Share of attention weights that training drops."""

    pool_type: str = "max"
    """How positions are pooled."""

    pool_stride: ranges.Positive | tuple[ranges.Positive, ...] = 2
    """By what factor each block shortens the sequence."""

    unpool_length: encoder_sizes.Index = 0
    """First positions that are not pooled."""

    output_range: encoder_sizes.Size | None = None
    """First positions of the output."""

    embedding_width: encoder_sizes.Size | None = None
    """Width of the embeddings."""

    embedding_layer: None = None
    """An embedding layer; no config can hold one."""

    norm_first: bool = False
    """Whether inputs of a block's parts are normalised."""

    share_rezero: bool = False
    """Whether blocks share a factor of their residuals."""

    append_dense_inputs: bool = False
    """Whether vectors are put after the words."""

    transformer_cls: str = "TransformerEncoderBlock"
    """Name of the class of the blocks."""


@dataclasses.dataclass
class MobileBertEncoderConfig(base_config.Config):
    """Sizes of a MobileBERT encoder. Not built, see `NOT_BUILT`."""

    word_vocab_size: encoder_sizes.Size = 30522
    """Word ids."""

    word_embed_size: encoder_sizes.Size = 128
    """Width of the embeddings."""

    type_vocab_size: encoder_sizes.Size = 2
    """Type ids."""

    max_sequence_length: encoder_sizes.Size = 512
    """Longest sequence."""

    num_blocks: encoder_sizes.Size = 24
    """Blocks."""

    hidden_size: encoder_sizes.Size = 512
    """Width of the model."""

    num_attention_heads: encoder_sizes.Size = 4
    """Attention heads."""

    intermediate_size: encoder_sizes.Size = 4096
    """Width inside the feed-forward parts."""

    hidden_activation: str = "gelu"
    """Activation of the feed-forward parts."""

    hidden_dropout_prob: encoder_sizes.Rate = 0.1
    """Share of values that training drops."""

    attention_probs_dropout_prob: encoder_sizes.Rate = 0.1
    """Share of attention weights that training drops."""

    intra_bottleneck_size: encoder_sizes.Size = 1024
    """Width inside a block."""

    initializer_range: ranges.Positive = 0.02
    """Standard deviation of the initial weights."""

    use_bottleneck_attention: bool = False
    """Whether attention is inside the bottleneck."""

    key_query_shared_bottleneck: bool = False
    """Whether keys and queries share a projection."""

    num_feedforward_networks: encoder_sizes.Size = 1
    """Feed-forward parts of a block."""

    normalization_type: str = "layer_norm"
    """How blocks normalise."""

    classifier_activation: bool = True
    """Whether the pooled output is activated."""

    input_mask_dtype: str = "int32"
    """Type of the mask."""


@dataclasses.dataclass
class BigBirdEncoderConfig(encoder_sizes.BertSizes):
    """Sizes of a BigBird encoder. Not built, see `NOT_BUILT`."""

    vocab_size: encoder_sizes.Size = 50358
    """Word ids."""

    norm_first: bool = False
    """Whether inputs of a block's parts are normalised."""

    max_position_embeddings: encoder_sizes.Size = 4096
    """Longest sequence."""

    num_rand_blocks: encoder_sizes.Size = 3
    """Random blocks that each block attends to."""

    block_size: encoder_sizes.Size = 64
    """Positions of a block."""

    type_vocab_size: encoder_sizes.Size = 16
    """Type ids."""

    embedding_width: encoder_sizes.Size | None = None
    """Width of the embeddings."""

    use_gradient_checkpointing: bool = False
    """Whether training computes activations twice."""


@dataclasses.dataclass
class XLNetEncoderConfig(base_config.Config):
    """Sizes of an XLNet encoder. Not built, see `NOT_BUILT`."""

    vocab_size: encoder_sizes.Size = 32000
    """Word ids."""

    num_layers: encoder_sizes.Size = 24
    """Blocks."""

    hidden_size: encoder_sizes.Size = 1024
    """Width of the model."""

    num_attention_heads: encoder_sizes.Size = 16
    """Attention heads."""

    head_size: encoder_sizes.Size = 64
    """Width of a head."""

    inner_size: encoder_sizes.Size = 4096
    """Width inside the feed-forward parts."""

    inner_activation: str = "gelu"
    """Activation of the feed-forward parts."""

    dropout_rate: encoder_sizes.Rate = 0.1
    """Share of values that training drops."""

    attention_dropout_rate: encoder_sizes.Rate = 0.1
    """Share of attention weights that training drops."""

    attention_type: str = "bi"
    """Which positions attention sees."""

    bi_data: bool = False
    """Whether data runs in both directions."""

    tie_attention_biases: bool = False
    """Whether blocks share biases."""

    memory_length: encoder_sizes.Index = 0
    """Positions of the memory."""

    same_length: bool = False
    """Whether all positions see as many others."""

    clamp_length: Annotated[int, Ge(-1), Lt(2**31)] = -1
    """Largest distance; -1 for none."""

    reuse_length: encoder_sizes.Index = 0
    """Positions that are kept for the memory."""

    use_cls_mask: bool = False
    """Whether the class token is masked."""

    embedding_width: encoder_sizes.Size = 1024
    """Width of the embeddings."""

    initializer_range: ranges.Positive = 0.02
    """Standard deviation of the initial weights."""

    two_stream: bool = False
    """Whether there are two streams."""
