"""Transformer models and how they decode."""

import importlib
from typing import Any

_MODULE_OF_NAME = {
    "BertClassifier": "bert_classifier",
    "BertPretrainer": "bert_pretrainer",
    "ClassificationHead": "classification_head",
    "EncoderScaffold": "encoder_scaffold",
    "GatedFeedforward": "gated_feedforward",
    "TalkingHeadsAttention": "talking_heads_attention",
    "TransformerScaffold": "encoder_scaffold",
    "Seq2SeqTransformer": "seq2seq_transformer",
    "TransformerDecoder": "transformer_stacks",
    "TransformerDecoderBlock": "transformer_blocks",
    "TransformerEncoder": "transformer_stacks",
    "TransformerEncoderBlock": "transformer_blocks",
    "sequence_beam_search": "beam_search",
}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF_NAME:
        return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
