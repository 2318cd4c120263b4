"""Errors of this package, raised while TensorFlow traces a step, as the user should see them."""

import contextlib
from collections.abc import Iterator

from quintain import errors


@contextlib.contextmanager
def unwrapping() -> Iterator[None]:
    """Raises the `QuintainError` that AutoGraph hides in an error and a stack trace of its own.

    Example:
        >>> import tensorflow as tf
        >>> def fail():
        ...     raise errors.ConfigError("task.x: got 1.")
        >>> with unwrapping():
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
