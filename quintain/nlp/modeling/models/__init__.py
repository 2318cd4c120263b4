"""Whole models, as tasks train them."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    names={
        "bert_classifier": ("BertClassifier",),
        "bert_pretrainer": ("BertPretrainer", "BertPretrainerV2"),
        "bert_span_labeler": ("BertSpanLabeler",),
        "bert_token_classifier": ("BertTokenClassifier",),
        "dual_encoder": ("DualEncoder",),
        "electra_pretrainer": ("ElectraPretrainer",),
        "seq2seq_transformer": ("EOS_ID", "Seq2SeqTransformer"),
        "transformer_stacks": (
            "TransformerDecoder",
            "TransformerEncoder",
            "attention_initializer",
        ),
    },
)
