"""AutoGraph in steps: left out where a step runs no code of a user's, and its errors unwrapped.

AutoGraph writes every function anew that a traced step calls, which takes three times as long as
tracing it; the steps of this package do without it. What Keras calls, such as the `call` of a
layer, is never converted.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import keras
import tensorflow as tf

from quintain import errors

_OWN: Final = (
    "quintain.core.base_task",
    "quintain.core.base_trainer",
    "quintain.core.loop.",
    "quintain.core.task_serving",
    "quintain.hub.",
    "quintain.modeling.",
    "quintain.nlp.",
    "quintain.optimization.",
    "quintain.orbit.",
    "quintain.run.fitting.",
)
"""Modules whose steps call no code of the user's but tasks, metrics, and what Keras calls."""

_FOUNDATIONS: Final = (
    "abc.",
    "builtins.",
    "dataclasses.",  # It adds `__replace__` from Python 3.13 on.
    "keras.",
    "tensorflow.",
    "typing.",
)
_KNOWN: Final = (*_FOUNDATIONS, *_OWN)


def without_autograph(
    step_fn: Callable[..., Any],
    task: object,
    model: object,
    metrics: Any,
    callers: Iterable[object] = (),
) -> Callable[..., Any]:
    """Returns a step that AutoGraph does not convert, or the step if users wrote parts of it."""
    if not all(map(is_own, [task, *tf.nest.flatten(metrics), *callers])):
        return step_fn
    if not _is_called_by_keras(model):
        return step_fn
    unconverted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(step_fn)
    return unconverted


@contextlib.contextmanager
def errors_unwrapped() -> Iterator[None]:
    """Raises the `QuintainError` that AutoGraph hides in an error and a stack trace of its own.

    Example:
        >>> import tensorflow as tf
        >>> def fail():
        ...     raise errors.ConfigError("task.x: got 1.")
        >>> with errors_unwrapped():
        ...     tf.function(fail)()
        Traceback (most recent call last):
        ...
        quintain.errors.ConfigError: task.x: got 1.
    """
    try:
        yield
    except errors.QuintainError:
        raise
    except Exception as error:
        if not hasattr(error, "ag_error_metadata"):
            raise
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, errors.QuintainError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise cause from None


def is_own(one: object) -> bool:
    """Returns whether an object's classes are of this package, and nothing of them was replaced."""
    classes = [cls for cls in type(one).__mro__ if not _is_of(cls, _FOUNDATIONS)]
    functions = [each for cls in classes for each in vars(cls).values() if inspect.isfunction(each)]
    is_untouched = not any(callable(getattr(type(one), name, None)) for name in vars(one))
    return is_untouched and all(_is_of(part, _KNOWN) for part in [*classes, *functions])


def _is_of(part: Any, modules: tuple[str, ...]) -> bool:
    return f"{getattr(part, '__module__', None)}.".startswith(modules)


def _is_called_by_keras(model: object) -> bool:
    """Returns whether Keras calls a model, and its steps, if it has some, are Keras' own."""
    steps = [getattr(model, name, None) for name in ("train_step", "test_step")]
    own = [type(model).__call__, *(step for step in steps if step is not None)]
    return isinstance(model, keras.Layer) and all(_is_of(each, _KNOWN) for each in own)
