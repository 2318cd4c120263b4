"""Names of the features of `tf.train.Example`s, grouped by what they describe."""

import dataclasses
import functools

dataclass = functools.partial(dataclasses.dataclass, init=False)
"""Decorator for subclasses of `TfExampleFeatureKeyBase`: a dataclass with its `__init__`."""


@dataclass
class TfExampleFeatureKeyBase:
    """Base of groups of names, to all of which a prefix can be given.

    Example:
        >>> @dataclass
        ... class ImageKey(TfExampleFeatureKeyBase):
        ...     encoded: str = "image/encoded"
        >>> ImageKey().encoded
        'image/encoded'
        >>> ImageKey("left").encoded
        'left/image/encoded'
    """

    def __init__(self, prefix: str | None = None) -> None:
        """Puts `PREFIX/` before every name.

        Args:
            prefix: The prefix. None or empty leaves the names as they are.
        """
        if prefix:
            # mypy does not know `dataclass` above for what it is.
            for field in dataclasses.fields(self):  # type: ignore[arg-type]
                setattr(self, field.name, f"{prefix}/{getattr(self, field.name)}")
