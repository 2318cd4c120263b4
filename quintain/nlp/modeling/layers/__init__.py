"""Layers that models of text are made of."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    names={
        "cls_head": ("ClassificationHead",),
        "gated_feedforward": ("GatedFeedforward",),
        "talking_heads_attention": ("TalkingHeadsAttention",),
        "transformer_blocks": ("TransformerDecoderBlock", "TransformerEncoderBlock"),
    },
)
