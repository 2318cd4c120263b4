"""Transformer models and how they decode."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    names={
        "beam_search": ("sequence_beam_search",),
        "bert_classifier": ("BertClassifier",),
        "bert_pretrainer": ("BertPretrainer",),
        "classification_head": ("ClassificationHead",),
        "encoder_scaffold": ("EncoderScaffold", "TransformerScaffold"),
        "gated_feedforward": ("GatedFeedforward",),
        "seq2seq_transformer": ("Seq2SeqTransformer",),
        "talking_heads_attention": ("TalkingHeadsAttention",),
        "transformer_blocks": ("TransformerDecoderBlock", "TransformerEncoderBlock"),
        "transformer_stacks": ("TransformerDecoder", "TransformerEncoder"),
    },
)
