"""Transformer models and how they decode."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("layers", "losses", "models", "networks", "ops"),
    # By these names they were modules of this package.
    doors={
        "attention": "layers.attention",
        "beam_search": "ops.beam_search",
        "bert_classifier": "models.bert_classifier",
        "bert_pretrainer": "models.bert_pretrainer",
        "classification_head": "layers.cls_head",
        "decoding": "ops.decoding",
        "encoder_scaffold": "networks.encoder_scaffold",
        "gated_feedforward": "layers.gated_feedforward",
        "sampling": "ops.sampling_module",
        "seq2seq_transformer": "models.seq2seq_transformer",
        "talking_heads_attention": "layers.talking_heads_attention",
        "transformer_stacks": "models.transformer_stacks",
    },
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
