"""Encoders that configs of the reference may hold, and that are refused when they are chosen."""

import dataclasses
from typing import Any, Final

from quintain.config import base_config, yaml_io

NOT_BUILT: Final = {
    "bigbird": "its block-sparse attention is for sequences of thousands of tokens",
    "funnel": "its pooled sequences fit none of the tasks here",
    "mobilebert": "it needs the distillation that it was trained by",
    "sparse_mixer": "its mixture of experts needs a router that no task here trains",
    "xlnet": "its permuted objective and memory fit none of the tasks here",
}
"""Encoders that configs may name and hold, and why they are refused when they are chosen."""

_DEFAULTS: Final = """
BigBird: {vocab_size: 50358, hidden_size: 768, num_layers: 12, num_attention_heads: 12,
  hidden_activation: gelu, intermediate_size: 3072, dropout_rate: 0.1, attention_dropout_rate: 0.1,
  norm_first: false, max_position_embeddings: 4096, num_rand_blocks: 3, block_size: 64,
  type_vocab_size: 16, initializer_range: 0.02, embedding_width: null,
  use_gradient_checkpointing: false}
Funnel: {vocab_size: 30522, hidden_size: 768, num_layers: 12, num_attention_heads: 12,
  max_position_embeddings: 512, type_vocab_size: 16, inner_dim: 3072, hidden_activation: gelu,
  approx_gelu: true, dropout_rate: 0.1, attention_dropout_rate: 0.1, pool_type: max,
  pool_stride: 2, unpool_length: 0, initializer_range: 0.02, output_range: null,
  embedding_width: null, embedding_layer: null, norm_first: false, share_rezero: false,
  append_dense_inputs: false, transformer_cls: TransformerEncoderBlock}
MobileBert: {word_vocab_size: 30522, word_embed_size: 128, type_vocab_size: 2,
  max_sequence_length: 512, num_blocks: 24, hidden_size: 512, num_attention_heads: 4,
  intermediate_size: 4096, hidden_activation: gelu, hidden_dropout_prob: 0.1,
  attention_probs_dropout_prob: 0.1, intra_bottleneck_size: 1024, initializer_range: 0.02,
  use_bottleneck_attention: false, key_query_shared_bottleneck: false,
  num_feedforward_networks: 1, normalization_type: layer_norm, classifier_activation: true,
  input_mask_dtype: int32}
SparseMixer: {vocab_size: 30522, hidden_size: 768, num_layers: 14, moe_layers: [5, 6, 7, 8],
  attention_layers: [10, 11, 12, 13], num_experts: 16, train_capacity_factor: 1.0,
  eval_capacity_factor: 1.0, examples_per_group: 1.0, use_fft: false, num_attention_heads: 8,
  max_sequence_length: 512, type_vocab_size: 2, inner_dim: 3072, inner_activation: gelu,
  output_dropout: 0.1, attention_dropout: 0.1, initializer_range: 0.02, output_range: null,
  embedding_width: null, norm_first: false}
XLNet: {vocab_size: 32000, num_layers: 24, hidden_size: 1024, num_attention_heads: 16,
  head_size: 64, inner_size: 4096, inner_activation: gelu, dropout_rate: 0.1,
  attention_dropout_rate: 0.1, attention_type: bi, bi_data: false, tie_attention_biases: false,
  memory_length: 0, same_length: false, clamp_length: -1, reuse_length: 0, use_cls_mask: false,
  embedding_width: 1024, initializer_range: 0.02, two_stream: false}
"""


def _hold(name: str, defaults: dict[str, Any]) -> type[base_config.Config]:
    """Returns a class of configs that full dumps of the reference load into."""
    plain = {key: tuple(value) if isinstance(value, list) else value
             for key, value in defaults.items()}  # fmt: skip
    fields = [(key, Any, dataclasses.field(default=value)) for key, value in plain.items()]
    namespace = {
        "__doc__": "Sizes of an encoder that is not built, see `NOT_BUILT`.",
        "__module__": __name__,
    }
    return dataclasses.make_dataclass(
        name, fields, bases=(base_config.Config,), namespace=namespace
    )


_CLASSES: Final = {
    name: _hold(f"{name}EncoderConfig", defaults)
    for name, defaults in yaml_io.load_text(_DEFAULTS, __name__).items()
}

BigBirdEncoderConfig: Final = _CLASSES["BigBird"]
FunnelEncoderConfig: Final = _CLASSES["Funnel"]
MobileBertEncoderConfig: Final = _CLASSES["MobileBert"]
SparseMixerEncoderConfig: Final = _CLASSES["SparseMixer"]
XLNetEncoderConfig: Final = _CLASSES["XLNet"]
