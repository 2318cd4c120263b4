"""Decoding: beam search, sampling, and their shared parts."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    ("beam_search", "decoding_module", "sampling_module", "segment_extractor"),
    names={
        "beam_search": ("SequenceBeamSearch", "sequence_beam_search"),
        "decoding_module": ("DecodingModule",),
        "sampling_module": ("SamplingModule",),
        "segment_extractor": ("get_next_sentence_labels", "get_sentence_order_labels"),
    },
)
