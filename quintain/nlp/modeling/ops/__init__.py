"""How outputs are found: beam search, sampling, and what they share."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    names={
        "beam_search": ("sequence_beam_search",),
        "sampling_module": ("SamplingModule",),
    },
)
