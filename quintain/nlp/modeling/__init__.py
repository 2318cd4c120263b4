"""Transformer models and their decoding."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("layers", "losses", "models", "networks", "ops"),
    names={
        "layers.cls_head": ("ClassificationHead",),
        "layers.gated_feedforward": ("GatedFeedforward",),
        "layers.talking_heads_attention": ("TalkingHeadsAttention",),
        "layers.transformer": ("TransformerDecoderBlock",),
        "layers.transformer_encoder_block": ("TransformerEncoderBlock",),
        "layers.transformer_scaffold": ("TransformerScaffold",),
        "models.bert_classifier": ("BertClassifier",),
        "models.bert_pretrainer": ("BertPretrainer",),
        "models.seq2seq_transformer": ("Seq2SeqTransformer",),
        "models.transformer_stacks": ("TransformerDecoder", "TransformerEncoder"),
        "networks.encoder_scaffold": ("EncoderScaffold",),
        "ops.beam_search": ("sequence_beam_search",),
    },
)
