"""Sizes of encoders."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated

from annotated_types import Ge, Lt

from quintain.config import base_config
from quintain.nlp.modeling import activations
from quintain.optimization.configs import ranges

Size = ranges.Size
Rate = ranges.Fraction
Index = Annotated[int, Ge(0), Lt(2**31)]


@dataclasses.dataclass
class Sizes(base_config.Config):
    """Sizes of every encoder."""

    vocab_size: Size = 30522
    """Word ids; 0 is padding."""

    hidden_size: Size = 768
    """Width of the model."""

    num_layers: Size = 12
    """Blocks."""

    num_attention_heads: Size = 12
    """Attention heads; must divide `hidden_size`."""

    type_vocab_size: Size = 2
    """Type ids, such as first and second sentence."""

    initializer_range: ranges.Positive = 0.02
    """Standard deviation of the initial weights."""


@dataclasses.dataclass
class BertSizes(Sizes):
    """Sizes of encoders made of BERT's blocks."""

    hidden_activation: activations.FeedForwardName = "gelu"
    """Keras' name of the activation in the feed-forward parts; `gelu` is approximated by tanh."""

    intermediate_size: Size = 3072
    """Width inside the feed-forward parts."""

    dropout_rate: Rate = 0.1
    """Share of values that training drops."""

    attention_dropout_rate: Rate = 0.1
    """Share of attention weights that training drops."""

    max_position_embeddings: Size = 512
    """Longest sequence."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields heads that do not part the width."""
        if self.hidden_size % self.num_attention_heads:
            yield (
                "num_attention_heads",
                f"got {self.num_attention_heads}, expected a divisor of "
                f"hidden_size={self.hidden_size}.",
            )


@dataclasses.dataclass
class _BlockSizes(BertSizes):
    """Sizes of encoders whose blocks are made one by one."""

    embedding_size: Size | None = None
    """Width of the embeddings, which are projected to `hidden_size`; None: the same."""

    norm_first: bool = False
    """Whether inputs of a block's parts are normalised, instead of outputs."""


@dataclasses.dataclass
class BertEncoderConfig(_BlockSizes):
    """Sizes of a BERT encoder."""

    output_range: Size | None = None
    """First positions of the sequence that the last block computes; None for all."""

    return_all_encoder_outputs: bool = False
    """Has no effect: the outputs of all blocks are always given."""

    return_attention_scores: bool = False
    """Whether the encoder gives the attention weights of all blocks, too."""

    return_word_embeddings: bool = False
    """Whether the encoder gives the embeddings, too."""


@dataclasses.dataclass
class QueryBertConfig(BertEncoderConfig):
    """Sizes of a BERT encoder whose words are embedded in two steps."""


@dataclasses.dataclass
class AlbertEncoderConfig(BertSizes):
    """Sizes of an ALBERT encoder, whose blocks share their weights."""

    vocab_size: Size = 30000
    """Word ids; 0 is padding."""

    embedding_width: Size = 128
    """Width of the embeddings, which are projected to `hidden_size`."""

    dropout_rate: Rate = 0.0
    """Share of values that training drops."""

    attention_dropout_rate: Rate = 0.0
    """Share of attention weights that training drops."""


@dataclasses.dataclass
class FNetEncoderConfig(Sizes):
    """Sizes of an FNet encoder, which mixes words by Fourier transforms."""

    inner_dim: Size = 3072
    """Width inside the feed-forward parts."""

    inner_activation: activations.FeedForwardName = "gelu"
    """Keras' name of the activation in the feed-forward parts; `gelu` is approximated by tanh."""

    output_dropout: Rate = 0.1
    """Share of values that training drops."""

    attention_dropout: Rate = 0.1
    """Share of attention weights that training drops."""

    max_sequence_length: Size = 512
    """Length of all sequences, padding included."""

    embedding_width: Size | None = None
    """Width of the embeddings, which are projected to `hidden_size`; None: the same."""

    output_range: Size | None = None
    """First positions of the sequence that the last block computes; None for all."""

    norm_first: bool = False
    """Whether inputs of a block's parts are normalised, instead of outputs."""

    use_fft: bool = False
    """Whether Fourier transforms are fast ones, instead of products with matrices."""

    attention_layers: tuple[Index, ...] = ()
    """Which blocks have attention, counted from 0."""


@dataclasses.dataclass
class KernelEncoderConfig(_BlockSizes):
    """Sizes of an encoder with kernel attention."""

    feature_transform: str = "exp"
    """The kernel."""

    num_random_features: Size = 256
    """Random features."""

    redraw: bool = False
    """Whether features are drawn anew."""

    is_short_seq: bool = False
    """Whether the whole matrix of attention is computed."""

    begin_kernel: Index = 0
    """First block with kernel attention."""

    scale: ranges.Finite | None = None
    """What queries and keys are multiplied by."""


@dataclasses.dataclass
class ReuseEncoderConfig(_BlockSizes):
    """Sizes of an encoder that reuses attention scores."""

    output_range: Size | None = None
    """First positions of the output."""

    return_all_encoder_outputs: bool = False
    """Whether all blocks' outputs are given."""

    reuse_attention: Annotated[int, Ge(-1), Lt(2**31)] = -1
    """Heads whose scores are reused."""

    use_relative_pe: bool = False
    """Whether positions are relative."""

    pe_max_seq_length: Size = 512
    """Longest sequence of relative positions."""

    max_reuse_layer_idx: Index = 6
    """Last block that reuses scores."""
