"""Encoders, and networks on top of them."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    names={
        "albert_encoder": ("AlbertEncoder",),
        "bert_encoder": ("BertEncoder", "BertEncoderV2"),
        "classification": ("Classification",),
        "encoder_scaffold": ("EncoderScaffold",),
        "fnet": ("FNet",),
        "packed_sequence_embedding": ("PackedSequenceEmbedding",),
        "span_labeling": ("SpanLabeling", "XLNetSpanLabeling"),
        "text_encoder": ("TextEncoder",),
    },
)
