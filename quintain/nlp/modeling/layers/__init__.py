"""Layers that models of text are made of."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("util",),
    names={
        "attention": ("CachedAttention", "EinsumDense", "MultiHeadAttention"),
        "block_diag_feedforward": ("BlockDiagFeedforward",),
        "block_sparse_attention": ("BlockSparseAttention",),
        "cls_head": ("ClassificationHead", "MultiClsHeads", "PerQueryDenseHead"),
        "factorized_embedding": ("FactorizedEmbedding",),
        "gated_feedforward": ("GatedFeedforward",),
        "kernel_attention": ("KernelAttention", "KernelMask"),
        "masked_lm": ("MaskedLM",),
        "masked_softmax": ("MaskedSoftmax",),
        "mat_mul_with_margin": ("MatMulWithMargin",),
        "mixing": (
            "FourierTransformLayer",
            "HartleyTransformLayer",
            "LinearTransformLayer",
            "MixingMechanism",
        ),
        "multi_channel_attention": ("MultiChannelAttention", "VotingAttention"),
        "multi_query_attention": ("MultiQueryAttention",),
        "on_device_embedding": ("OnDeviceEmbedding",),
        "pack_optimization": (
            "PackBertEmbeddings",
            "StridedReZeroTransformer",
            "StridedTransformerEncoderBlock",
            "StridedTransformerScaffold",
        ),
        "per_dim_scale_attention": ("PerDimScaleAttention",),
        "position_embedding": (
            "PositionEmbedding",
            "RelativePositionBias",
            "RelativePositionEmbedding",
        ),
        "relative_attention": ("MultiHeadRelativeAttention", "TwoStreamRelativeAttention"),
        "reuse_attention": ("ReuseMultiHeadAttention",),
        "reuse_transformer": ("ReuseTransformer",),
        "rezero_transformer": ("ReZeroTransformer",),
        "routing": ("SelectTopK", "TokenImportanceWithMovingAvg"),
        "self_attention_mask": ("SelfAttentionMask", "get_mask"),
        "talking_heads_attention": ("TalkingHeadsAttention",),
        "text_layers": (
            "BertPackInputs",
            "BertTokenizer",
            "FastWordpieceBertTokenizer",
            "SentencepieceTokenizer",
        ),
        "transformer": ("CompiledTransformer", "Transformer", "TransformerDecoderBlock"),
        "transformer_encoder_block": ("TransformerEncoderBlock",),
        "transformer_scaffold": ("TransformerScaffold",),
    },
)
