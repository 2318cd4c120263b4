"""Collectives of a synchronous cluster's workers, and the choice of its chief.

All workers run the same program; each of these functions is a collective that every worker must
call at the same point of it. On a single worker they return at once.
"""

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain import errors

PROXY_VARIABLE: Final = "grpc_proxy"
"""Variable with the proxy of gRPC; if it is empty, there is none."""

_NUM_BYTES: Final = 8
LOST_WORKER_ERRORS: Final = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.InternalError,
    tf.errors.DeadlineExceededError,  # Its machine does not answer any more.
)
"""Errors of TensorFlow when another worker of the cluster is gone."""


def reach_directly() -> None:
    """Keeps what TensorFlow sends to others of its cluster from going by the web's proxy.

    gRPC takes the proxy of `http_proxy` and `https_proxy` for every machine that `no_proxy` does
    not name, this one included. A proxy does not let that through, and TensorFlow would wait for it
    without end. To be called before a cluster begins. A `grpc_proxy` that is set stays in force.
    """
    os.environ.setdefault(PROXY_VARIABLE, "")


def num_workers(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of processes that train together."""
    extended = strategy.extended
    return int(getattr(extended, "_num_workers", 1)) if _is_multi_worker(strategy) else 1


def worker_index(strategy: tf.distribute.Strategy) -> int:
    """Returns this process' place among the workers; the chief is 0."""
    return int(strategy.extended._id_in_cluster) if _is_multi_worker(strategy) else 0


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns True on the one worker that writes the run's files."""
    return worker_index(strategy) == 0


def input_context(strategy: tf.distribute.Strategy) -> tf.distribute.InputContext:
    """Returns which part of the data this process reads, and for how many replicas in all."""
    return tf.distribute.InputContext(
        num_input_pipelines=num_workers(strategy),
        input_pipeline_id=worker_index(strategy),
        num_replicas_in_sync=strategy.num_replicas_in_sync,
    )


def gather(strategy: tf.distribute.Strategy, data: bytes) -> list[bytes]:
    """Returns the bytes that each worker passed, in the order of the workers."""
    if num_workers(strategy) == 1:
        return [data]
    sizes = _gather_array(strategy, np.array([[len(data)]], np.int64))[:, 0]
    length = max(-(-int(sizes.max()) // _NUM_BYTES), 1)
    row = np.zeros([1, length], np.int64)
    row.view(np.uint8)[0, : len(data)] = np.frombuffer(data, np.uint8)
    rows = np.ascontiguousarray(_gather_array(strategy, row)).view(np.uint8)
    return [one[:size].tobytes() for one, size in zip(rows, sizes, strict=True)]


def from_chief(strategy: tf.distribute.Strategy, value: Any) -> Any:
    """Returns the chief's `value`, which JSON must be able to express."""
    if num_workers(strategy) == 1:
        return value
    own = json.dumps(value).encode() if is_chief(strategy) else b""
    return json.loads(gather(strategy, own)[0])


def any_worker(strategy: tf.distribute.Strategy, value: Any) -> tf.Tensor:
    """Returns whether a condition holds on any worker; may be part of a graph.

    Args:
        strategy: Strategy of the cluster.
        value: This worker's `[]` bool.

    Returns:
        `[]` bool, the same on all workers.
    """
    value = tf.convert_to_tensor(value)
    if num_workers(strategy) == 1:
        return value
    if tf.executing_eagerly():
        return _compile(strategy, _any_worker, tf.TensorSpec([], tf.bool))(value)
    return _any_worker(strategy, value)


def gather_logs(strategy: tf.distribute.Strategy, logs: Any) -> Any:
    """Returns the logs of one evaluation step of all workers.

    Args:
        strategy: Strategy of the cluster.
        logs: A mapping, possibly nested, of tuples with one eager tensor (or structure of them) for
            each replica of this worker. Anything else is the worker's own.

    Returns:
        The mapping with a tuple over the replicas of all workers, in their order, the same on all
        workers; of what is the workers' own, a tuple over the workers.
    """
    if num_workers(strategy) == 1:
        return logs
    tensors = [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(logs, expand_composites=True)]
    parts = [tf.io.serialize_tensor(tensor).numpy() for tensor in tensors]
    sizes = json.dumps([len(part) for part in parts]).encode() + b"\n"
    workers = []
    for data in gather(strategy, sizes + b"".join(parts)):
        header, _, rest = data.partition(b"\n")
        leaves, start = [], 0
        for tensor, size in zip(tensors, json.loads(header), strict=True):
            leaves.append(tf.io.parse_tensor(rest[start : start + size], tensor.dtype))
            start += size
        workers.append(tf.nest.pack_sequence_as(logs, leaves, expand_composites=True))
    return _concatenate(workers)


def _concatenate(workers: list[Any]) -> Any:
    if isinstance(workers[0], Mapping):
        return {key: _concatenate([one[key] for one in workers]) for key in workers[0]}
    if isinstance(workers[0], tuple):
        return tuple(part for one in workers for part in one)
    return tuple(workers)


@contextlib.contextmanager
def lost_workers_explained(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Explains the error of a lost worker, without which this one can't go on.

    Raises:
        ClusterError: In place of what TensorFlow raises.
    """
    try:
        yield
    except LOST_WORKER_ERRORS as error:
        if num_workers(strategy) == 1:
            raise
        raise errors.ClusterError(
            "This worker can't reach the others any more; one of them has probably died "
            f"({type(error).__name__}). Its own output says why. Once that is mended, start all "
            "workers again with the same command; the run goes on from its last checkpoint."
        ) from error


def barrier(strategy: tf.distribute.Strategy) -> None:
    """Returns when all workers have called it."""
    gather(strategy, b"")


@contextlib.contextmanager
def exit_barrier(strategy: tf.distribute.Strategy, *common: type[BaseException]) -> Iterator[None]:
    """Keeps this worker until the others have what its last collective gave them.

    A worker has a result when its own part of it came, which others may still be fetching from it:
    were its process to end then, they would find it lost.

    Args:
        strategy: Strategy of the cluster.
        *common: Exceptions that are raised on all workers, if they are on one.
    """
    try:
        yield
    except common:
        _wait_for_all(strategy)
        raise
    _wait_for_all(strategy)


def _wait_for_all(strategy: tf.distribute.Strategy) -> None:
    # Who is gone already came this far, too.
    with contextlib.suppress(*LOST_WORKER_ERRORS):
        barrier(strategy)


def _is_multi_worker(strategy: tf.distribute.Strategy) -> bool:
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) and bool(
        strategy.extended._in_multi_worker_mode()
    )


def _gather_array(strategy: tf.distribute.Strategy, row: np.ndarray) -> np.ndarray:
    """Returns the rows of all workers, `[workers, ...]`, from one `[1, length]` int64 of each."""
    num_local = strategy.num_replicas_in_sync // num_workers(strategy)
    gather_fn = _compile(strategy, _gather_rows, tf.TensorSpec([1, None], tf.int64))
    return np.asarray(gather_fn(tf.constant(row)))[::num_local]


@functools.cache
def _compile(
    strategy: tf.distribute.Strategy, collective: Callable[..., tf.Tensor], spec: tf.TensorSpec
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a collective as a compiled function: run by Python it takes a hundred times longer.

    It is made once for a strategy: all workers have to make them alike.
    """
    compiled: Callable[[tf.Tensor], tf.Tensor] = tf.function(
        functools.partial(collective, strategy), input_signature=[spec]
    )
    return compiled


def _any_worker(strategy: tf.distribute.Strategy, value: tf.Tensor) -> tf.Tensor:
    def sum_fn() -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        count = tf.cast(value, tf.int32)  # Inside, so that it is on the replica's device.
        return context.all_reduce(tf.distribute.ReduceOp.SUM, count)

    return strategy.experimental_local_results(strategy.run(sum_fn))[0] > 0


def _gather_rows(strategy: tf.distribute.Strategy, row: tf.Tensor) -> tf.Tensor:
    def gather_fn() -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        return context.all_gather(tf.identity(row), axis=0)

    return strategy.experimental_local_results(strategy.run(gather_fn))[0]
