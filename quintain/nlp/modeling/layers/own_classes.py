"""Detection of parts of a model that a user's own class computes otherwise.

What reads the weights of a part, instead of calling it, has to ask that first.
"""

import functools
from typing import Any, Final

import keras

_HARMLESS: Final = {"build", "get_config", "from_config", "compute_output_shape"}
_PACKAGE: Final = __name__.partition(".")[0]


def has_own(part: Any) -> bool:
    """Returns whether a layer, or one inside of it, computes what no class of the package does."""
    if not isinstance(part, keras.layers.Layer):
        return True
    return any(_is_own(type(one)) for one in part._flatten_layers())


def decodes_as_known(model: Any) -> bool:
    """Returns whether the weights of a `Seq2SeqTransformer` say what its decoding computes.

    Neither the model nor a layer of its decoder is a user's own; but the model's `call`, which is
    not used, may be.
    """
    kind: Any = type(model)
    return _list_changes(kind) <= {"call"} and not has_own(model.decoder_layer)


def is_changed(part: Any, base: type[Any]) -> bool:
    """Returns whether a part is none of a class, or has methods of its own for what it computes."""
    return not isinstance(part, base) or _is_own(type(part))


def _is_own(kind: Any) -> bool:
    return bool(_list_changes(kind))


@functools.cache
def _list_changes(kind: Any) -> frozenset[str]:
    """Returns the names of what a class computes otherwise than the package's that it is of."""
    base = next((one for one in kind.__mro__ if _is_ours(one)), None)
    if base is None:
        return frozenset({"__call__"})
    known = {name for one in base.__mro__ if _is_ours(one) for name in vars(one)}
    own = {name for one in kind.__mro__[: kind.__mro__.index(base)] for name in vars(one)}
    inside = {name for name in known if not name.startswith("__")} | {"call", "__call__"}
    return frozenset(own & inside - _HARMLESS)


def _is_ours(kind: Any) -> bool:
    return kind.__module__.partition(".")[0] == _PACKAGE
