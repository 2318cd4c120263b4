"""Encoders, and networks on top of them."""

from quintain import lazy_modules

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    names={
        "encoder_scaffold": ("EncoderScaffold",),
    },
)
