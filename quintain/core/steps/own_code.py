"""Leaves AutoGraph out where a step runs code of this package alone, which does without it.

AutoGraph writes every function anew that a traced step calls, which takes three times as long as
tracing it. It is for the steps of whoever writes a task or a trainer: one class or function of
theirs, and all is converted as before.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

_OWN: Final = (
    "quintain.core.base_task",
    "quintain.core.base_trainer",
    "quintain.core.loop.",
    "quintain.core.task_serving",
    "quintain.nlp.",
    "quintain.orbit.",
)
"""Modules whose steps call no code of the user's but Keras', which is not converted anyway."""

_FOUNDATIONS: Final = ("abc.", "builtins.", "tensorflow.", "typing.")


def without_autograph(step_fn: Callable[..., Any], *objects: object) -> Callable[..., Any]:
    """Returns a step that is not converted, if all objects are of this package.

    Args:
        step_fn: The step. It needs no conversion itself.
        *objects: Those whose methods it calls.
    """
    if not all(map(is_own, objects)):
        return step_fn
    unconverted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(step_fn)
    return unconverted


def is_own(one: object) -> bool:
    """Returns whether an object's classes are of this package, and nothing of them was replaced."""
    classes = type(one).__mro__
    own = [cls for cls in classes if not f"{cls.__module__}.".startswith(_FOUNDATIONS)]
    functions = [value for cls in own for value in vars(cls).values() if inspect.isfunction(value)]
    is_untouched = not any(callable(getattr(type(one), name, None)) for name in vars(one))
    return is_untouched and all(
        f"{part.__module__}.".startswith(_OWN) for part in [*own, *functions]
    )
