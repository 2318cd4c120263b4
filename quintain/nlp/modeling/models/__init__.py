"""Whole models, as tasks train them."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    names={
        "bert_classifier": ("BertClassifier",),
        "bert_pretrainer": ("BertPretrainer",),
        "seq2seq_transformer": ("Seq2SeqTransformer",),
        "transformer_stacks": ("TransformerDecoder", "TransformerEncoder"),
    },
)
