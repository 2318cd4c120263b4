"""What TensorFlow is told of derivatives of the native operations themselves.

They are called within custom gradients, so that TensorFlow asks for these only if a gradient is
differentiated again, as a gradient penalty's is.
"""

from typing import Any, NoReturn

import tensorflow as tf

from quintain import errors

_refused: set[str] = set()


class SecondDerivativeError(errors.QuintainError):
    """A gradient that native kernels have computed can't be differentiated."""


def refuse(operations: Any) -> None:
    """Makes derivatives of a library's operations an error that says what to do."""
    for name in list_names(operations):
        if name not in _refused:
            _refused.add(name)
            tf.RegisterGradient(name)(_fail)


def list_names(operations: Any) -> list[str]:
    """Returns the names in graphs of a library's operations, such as `QuintainSumRows`."""
    names = [name for name in dir(operations) if name.startswith("quintain_")]
    own = [name for name in names if not name.endswith("_eager_fallback")]
    return ["".join(part.title() for part in name.split("_")) for name in own]


def _fail(operation: Any, *_: Any) -> NoReturn:
    raise SecondDerivativeError(
        f"{operation.type}: native kernels have no second derivatives, such as those of a gradient "
        "penalty, and none of forward mode. Set runtime.kernels to 'tensorflow', or compute what "
        "is differentiated so within `quintain.kernels.selection.plain_scope()`."
    )
