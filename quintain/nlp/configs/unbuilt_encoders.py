"""Encoders that configs of the reference may hold, and that are refused when they are chosen."""

import dataclasses
from typing import Any, Final

from quintain.config import base_config

NOT_BUILT: Final = {
    "bigbird": "its block-sparse attention is for sequences of thousands of tokens",
    "funnel": "its pooled sequences fit none of the tasks here",
    "mobilebert": "it needs the distillation that it was trained by",
    "sparse_mixer": "its mixture of experts needs a router that no task here trains",
    "xlnet": "its permuted objective and memory fit none of the tasks here",
}
"""Encoders that configs may name and hold, and why they are refused when they are chosen."""


def _hold(name: str, **defaults: Any) -> type[base_config.Config]:
    """Returns a class of configs that full dumps of the reference load into."""
    fields = [(field, Any, dataclasses.field(default=value)) for field, value in defaults.items()]
    namespace = {
        "__doc__": "Sizes of an encoder that is not built, see `NOT_BUILT`.",
        "__module__": __name__,
    }
    return dataclasses.make_dataclass(
        name, fields, bases=(base_config.Config,), namespace=namespace
    )


BigBirdEncoderConfig: Final = _hold(
    "BigBirdEncoderConfig",
    vocab_size=50358,
    hidden_size=768,
    num_layers=12,
    num_attention_heads=12,
    hidden_activation="gelu",
    intermediate_size=3072,
    dropout_rate=0.1,
    attention_dropout_rate=0.1,
    norm_first=False,
    max_position_embeddings=4096,
    num_rand_blocks=3,
    block_size=64,
    type_vocab_size=16,
    initializer_range=0.02,
    embedding_width=None,
    use_gradient_checkpointing=False,
)
FunnelEncoderConfig: Final = _hold(
    "FunnelEncoderConfig",
    vocab_size=30522,
    hidden_size=768,
    num_layers=12,
    num_attention_heads=12,
    max_position_embeddings=512,
    type_vocab_size=16,
    inner_dim=3072,
    hidden_activation="gelu",
    approx_gelu=True,
    dropout_rate=0.1,
    attention_dropout_rate=0.1,
    pool_type="max",
    pool_stride=2,
    unpool_length=0,
    initializer_range=0.02,
    output_range=None,
    embedding_width=None,
    embedding_layer=None,
    norm_first=False,
    share_rezero=False,
    append_dense_inputs=False,
    transformer_cls="TransformerEncoderBlock",
)
MobileBertEncoderConfig: Final = _hold(
    "MobileBertEncoderConfig",
    word_vocab_size=30522,
    word_embed_size=128,
    type_vocab_size=2,
    max_sequence_length=512,
    num_blocks=24,
    hidden_size=512,
    num_attention_heads=4,
    intermediate_size=4096,
    hidden_activation="gelu",
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
    intra_bottleneck_size=1024,
    initializer_range=0.02,
    use_bottleneck_attention=False,
    key_query_shared_bottleneck=False,
    num_feedforward_networks=1,
    normalization_type="layer_norm",
    classifier_activation=True,
    input_mask_dtype="int32",
)
SparseMixerEncoderConfig: Final = _hold(
    "SparseMixerEncoderConfig",
    vocab_size=30522,
    hidden_size=768,
    num_layers=14,
    moe_layers=(5, 6, 7, 8),
    attention_layers=(10, 11, 12, 13),
    num_experts=16,
    train_capacity_factor=1.0,
    eval_capacity_factor=1.0,
    examples_per_group=1.0,
    use_fft=False,
    num_attention_heads=8,
    max_sequence_length=512,
    type_vocab_size=2,
    inner_dim=3072,
    inner_activation="gelu",
    output_dropout=0.1,
    attention_dropout=0.1,
    initializer_range=0.02,
    output_range=None,
    embedding_width=None,
    norm_first=False,
)
XLNetEncoderConfig: Final = _hold(
    "XLNetEncoderConfig",
    vocab_size=32000,
    num_layers=24,
    hidden_size=1024,
    num_attention_heads=16,
    head_size=64,
    inner_size=4096,
    inner_activation="gelu",
    dropout_rate=0.1,
    attention_dropout_rate=0.1,
    attention_type="bi",
    bi_data=False,
    tie_attention_biases=False,
    memory_length=0,
    same_length=False,
    clamp_length=-1,
    reuse_length=0,
    use_cls_mask=False,
    embedding_width=1024,
    initializer_range=0.02,
    two_stream=False,
)
