"""Helpers of the Model Garden's layers: optional arguments, and graphs on call."""

import functools
from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

_BLOCK_ARGUMENTS: Final = (
    "num_attention_heads",
    "intermediate_size",
    "intermediate_activation",
    "inner_dim",
    "inner_activation",
    "output_range",
    "kernel_initializer",
    "bias_initializer",
    "kernel_regularizer",
    "bias_regularizer",
    "activity_regularizer",
    "kernel_constraint",
    "bias_constraint",
    "use_bias",
    "norm_first",
    "norm_epsilon",
    "output_dropout",
    "attention_dropout",
    "inner_dropout",
    "attention_initializer",
    "attention_axes",
    "share_rezero",
)


def filter_kwargs(kwargs: dict[str, Any]) -> None:
    """Takes out the arguments that only some kinds of blocks have, so that any kind can be made.

    Args:
        kwargs: Arguments by name; it is changed.
    """
    for name in _BLOCK_ARGUMENTS:
        kwargs.pop(name, None)


class TfFunctionIfEagerDecorator:
    """Makes a function a graph where it is called eagerly."""

    def __init__(self, **kwargs: Any) -> None:
        if "experimental_compile" in kwargs:
            kwargs["jit_compile"] = kwargs.pop("experimental_compile")
        self.func_kwargs = kwargs

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function, as a graph where it is called eagerly."""

        @functools.wraps(func)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not tf.executing_eagerly():
                return func(*args, **kwargs)
            return tf.function(func, **self.func_kwargs)(*args, **kwargs)

        return call


def tf_function_if_eager(**kwargs: Any) -> TfFunctionIfEagerDecorator:
    """Returns a `TfFunctionIfEagerDecorator` with these arguments."""
    return TfFunctionIfEagerDecorator(**kwargs)
