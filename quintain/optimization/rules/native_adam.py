"""Adam's update of all variables by one native kernel, and the averages that it moves with them."""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import keras
import tensorflow as tf

from quintain.kernels import selection
from quintain.optimization import fused_optimizer

if TYPE_CHECKING:
    from quintain.kernels import adam

_LOCAL: Final = threading.local()  # A replica has a thread of its own.


@dataclasses.dataclass(frozen=True)
class Averages:
    """Moving averages of weights, for an update that can move them with the weights."""

    by_key: dict[Any, keras.Variable]
    """Averages by the keys of their weights; those that an update moved are taken out."""

    find_key: Callable[[Any], Any]
    """Returns the key of a variable."""

    compute_decay: Callable[[tf.Tensor], tf.Tensor]
    """Returns the part of the averages that is kept, for the number of updates done."""


@contextlib.contextmanager
def averages_fused(averages: Averages) -> Iterator[None]:
    """Lets an update inside move averages; it takes them out of `averages`."""
    _LOCAL.averages = averages
    try:
        yield
    finally:
        _LOCAL.averages = None


def is_usable(variable: Any) -> bool:
    """Returns whether a variable can be updated by the kernel."""
    return selection.is_native() and keras.backend.standardize_dtype(variable.dtype) == "float32"


def update(
    pairs: Sequence[tuple[tf.Tensor, Any]],
    scalars: "adam.Scalars",
    *,
    find_slots: Callable[[Any], dict[str, Any]],
    is_decaying: Callable[[Any], bool],
    count: tf.Tensor,
) -> None:
    """Updates variables by the kernel, and the averages of `averages_fused`.

    Args:
        pairs: Dense gradients and their variables, for which `is_usable` holds.
        scalars: What they share.
        find_slots: Returns the `momentum` and the `velocity` of a variable.
        is_decaying: Returns whether a variable decays.
        count: Number of this update, counted from 1.
    """
    from quintain.kernels import adam  # noqa: PLC0415 - only native steps do

    averages: Averages | None = getattr(_LOCAL, "averages", None)
    updates = []
    for gradient, variable in pairs:
        slots, average = find_slots(variable), None
        # What a constraint changes afterwards is not what is to be averaged.
        if averages is not None and getattr(variable, "constraint", None) is None:
            average = averages.by_key.pop(averages.find_key(variable), None)
        updates.append(
            adam.Variable(
                weight=fused_optimizer.get_handle(variable),
                mean=fused_optimizer.get_handle(slots["momentum"]),
                square=fused_optimizer.get_handle(slots["velocity"]),
                gradient=gradient,
                average=None if average is None else fused_optimizer.get_handle(average),
                is_decaying=is_decaying(variable),
            )
        )
    if averages is not None:
        scalars = dataclasses.replace(scalars, kept=averages.compute_decay(count))
    adam.update(updates, scalars)
