"""Layers that models of text are made of."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("util",),
    names={
        "attention": ("CachedAttention", "EinsumDense", "MultiHeadAttention"),
        "cls_head": ("ClassificationHead",),
        "gated_feedforward": ("GatedFeedforward",),
        "masked_softmax": ("MaskedSoftmax",),
        "multi_channel_attention": ("MultiChannelAttention", "VotingAttention"),
        "per_dim_scale_attention": ("PerDimScaleAttention",),
        "talking_heads_attention": ("TalkingHeadsAttention",),
        "transformer": ("CompiledTransformer", "Transformer", "TransformerDecoderBlock"),
        "transformer_encoder_block": ("TransformerEncoderBlock",),
        "transformer_scaffold": ("TransformerScaffold",),
    },
)
