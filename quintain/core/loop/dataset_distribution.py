"""From a dataset, or a function that builds one, to data for the replicas of a strategy."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import tensorflow as tf
from tensorflow.python.eager import context

from quintain import orbit
from quintain.core import base_task
from quintain.core.steps import task_checks
from quintain.distribute import runtime_environment
from quintain.input import file_marks
from quintain.input.diagnosis import pipeline_inspection
from quintain.orbit import cluster
from quintain.settings import config_definitions as cfg

Dataset: TypeAlias = tf.data.Dataset | tf.distribute.DistributedDataset
"""Data to iterate over in the scope of a strategy."""

DatasetOrFn: TypeAlias = Dataset | Callable[..., tf.data.Dataset]
"""A dataset, or a function that builds one and may take `input_context`."""


def distribute_dataset(
    strategy: tf.distribute.Strategy, dataset_or_fn: DatasetOrFn, *args: Any, **kwargs: Any
) -> Dataset:
    """Distributes a dataset, or what a function builds, over the replicas.

    A single replica on the CPU reads the dataset directly, so that the position in it can be stored
    in checkpoints.

    Args:
        strategy: The strategy.
        dataset_or_fn: A `tf.data.Dataset`, or a function returning one, which may take
            `input_context`.
        *args: Passed to the function.
        **kwargs: Passed to the function.

    Returns:
        A dataset to iterate over in the scope of the strategy.
    """
    is_dataset = isinstance(dataset_or_fn, tf.data.Dataset)
    if _is_single_cpu(strategy) and not (is_dataset and cluster.num_workers(strategy) > 1):
        return build_dataset(
            dataset_or_fn, *args, input_context=cluster.input_context(strategy), **kwargs
        )
    return orbit.utils.make_distributed_dataset(strategy, dataset_or_fn, *args, **kwargs)


def build_task_dataset(
    strategy: tf.distribute.Strategy,
    task: base_task.Task,
    params: cfg.DataConfig,
    runtime: cfg.RuntimeConfig,
) -> Dataset:
    """Builds one of a task's datasets, as `create_task_builder` says, and distributes it."""
    return distribute_dataset(strategy, create_task_builder(strategy, task, params, runtime))


def create_task_builder(
    strategy: tf.distribute.Strategy,
    task: base_task.Task,
    params: cfg.DataConfig,
    runtime: cfg.RuntimeConfig,
) -> Callable[..., tf.data.Dataset]:
    """Returns a function that builds one of a task's datasets, for `distribute_dataset`.

    Args:
        strategy: The strategy.
        task: The task.
        params: Which data; without a seed of its own it gets that of the run.
        runtime: Seed and threads.
    """
    if params.seed is None:
        params = params.replace(seed=runtime.seed)
    name = getattr(task, "name", type(task).__name__)

    def build(input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        with (
            _own_operation_seeds(f"{name}, {params.is_training}"),
            file_marks.files_noted(is_training=bool(params.is_training)),
        ):
            dataset = build_dataset(task.build_inputs, params, input_context=input_context)
        is_known = isinstance(dataset, tf.data.Dataset)
        if is_known and pipeline_inspection.has_operation(dataset, "TFRecordDataset"):
            from quintain.input.diagnosis import data_faults  # noqa: PLC0415 - few pipelines have

            data_faults.check_files(dataset)
        if params.is_training and params.overfit_batches:
            dataset = dataset.take(params.overfit_batches).cache().repeat()
        if params.is_training and not runtime.elastic:
            dataset = drop_partial_step(dataset, strategy)
        return runtime_environment.with_private_threads(
            dataset, runtime.dataset_num_private_threads
        )

    return build


@contextlib.contextmanager
def _own_operation_seeds(name: str) -> Iterator[None]:
    """Makes the seeds of operations without one depend on the run's seed and on `name` alone.

    TensorFlow gives such an operation the next number of a sequence that everything built before
    has drawn from. A pipeline that is built again later in the process, to be read from its
    beginning, would shuffle in another order.
    """
    seed = context.global_seed()
    if seed is None:
        yield
        return
    numbers = context.context()._rng
    outer = numbers.getstate()
    numbers.seed(f"{seed}, {name}")
    try:
        yield
    finally:
        numbers.setstate(outer)


def drop_partial_step(dataset: Dataset, strategy: tf.distribute.Strategy) -> Dataset:
    """Drops the last batches of training data that are too few for all replicas of this process.

    A replica without a batch would train on none, whose mean loss is not a number.

    Args:
        dataset: A `tf.data.Dataset` of batches for one replica; anything else is returned as it is.
        strategy: The strategy.
    """
    num_local = strategy.num_replicas_in_sync // cluster.num_workers(strategy)
    if num_local == 1 or not isinstance(dataset, tf.data.Dataset):
        return dataset
    size = int(dataset.cardinality())
    if size == tf.data.INFINITE_CARDINALITY:
        return dataset
    if size != tf.data.UNKNOWN_CARDINALITY:
        return dataset.take(size // num_local * num_local)
    return dataset.window(num_local, drop_remainder=True).flat_map(_join_window)


def _join_window(*parts: Any) -> tf.data.Dataset:
    return tf.data.Dataset.zip(parts[0] if len(parts) == 1 else parts)


def build_dataset(
    dataset_or_fn: DatasetOrFn,
    *args: Any,
    input_context: tf.distribute.InputContext | None = None,
    **kwargs: Any,
) -> Any:
    """Returns a dataset, or what a function builds, for one process.

    Args:
        dataset_or_fn: A `tf.data.Dataset`, or a function returning one, which may take
            `input_context`.
        *args: Passed to the function.
        input_context: Which part of the data the process reads; None for all of it.
        **kwargs: Passed to the function.
    """
    if isinstance(dataset_or_fn, tf.data.Dataset):
        return dataset_or_fn
    if "input_context" in inspect.signature(dataset_or_fn).parameters:
        kwargs["input_context"] = input_context or tf.distribute.InputContext()
    dataset = dataset_or_fn(*args, **kwargs)
    task_checks.check_dataset(dataset_or_fn, dataset)
    return dataset


def _is_single_cpu(strategy: tf.distribute.Strategy) -> bool:
    """True if there is one replica and nothing to feed to a device; so too without a strategy."""
    if not tf.distribute.has_strategy():
        return True
    if strategy.num_replicas_in_sync != cluster.num_workers(strategy):
        return False
    devices = [tf.DeviceSpec.from_string(name) for name in strategy.extended.worker_devices]
    return all(device.device_type in (None, "CPU") for device in devices)
