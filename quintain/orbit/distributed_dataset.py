"""Input pipelines under a distribution strategy."""

import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def make_distributed_dataset(
    strategy: tf.distribute.Strategy | None,
    dataset_or_fn: tf.data.Dataset | Callable[..., tf.data.Dataset],
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Distributes a dataset, or what a function builds for every host.

    Args:
        strategy: None takes the strategy in whose scope the caller is.
        dataset_or_fn: A dataset, whose batches are split over the replicas; or a function that
            returns a dataset with batches for one replica. A function with a parameter
            `input_context` is given the `tf.distribute.InputContext` of its host.
        *args: Arguments for the function.
        **kwargs: Keyword arguments for the function, except for `input_options`, the
            `tf.distribute.InputOptions` of the strategy.

    Returns:
        The strategy's distributed dataset.

    Raises:
        ValueError: If `dataset_or_fn` is neither a dataset nor callable.
    """
    if strategy is None:
        strategy = tf.distribute.get_strategy()
    fn_kwargs = dict(kwargs)
    input_options = fn_kwargs.pop("input_options", None)

    if isinstance(dataset_or_fn, tf.data.Dataset):
        return strategy.experimental_distribute_dataset(dataset_or_fn, input_options)
    if not callable(dataset_or_fn):
        raise ValueError(  # noqa: TRY004 - a wrong argument like any other
            f"`dataset_or_fn`: got {dataset_or_fn!r}, expected a `tf.data.Dataset` or a function "
            "that returns one."
        )
    wants_context = "input_context" in inspect.signature(dataset_or_fn).parameters

    def dataset_fn(input_context: tf.distribute.InputContext) -> tf.data.Dataset:
        extra = {"input_context": input_context} if wants_context else {}
        return dataset_or_fn(*args, **fn_kwargs, **extra)

    return strategy.distribute_datasets_from_function(dataset_fn, input_options)
