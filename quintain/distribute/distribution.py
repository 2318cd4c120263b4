"""Distribution strategy and precision policy of a `RuntimeConfig`."""

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.distribute import runtime_environment
from quintain.orbit import cluster
from quintain.settings import config_definitions as cfg

logger = logging.getLogger(__name__)


def build_strategy(runtime: cfg.RuntimeConfig) -> tf.distribute.Strategy:
    """Builds the strategy that `runtime` names.

    `off` returns the strategy in force, `one_device` uses the first GPU or the CPU, `mirrored` all
    `num_gpus` GPUs of this machine, or the CPU (all `num_virtual_cpus` parts of it) if there are
    none. `multi_worker_mirrored` does so on all workers of `TF_CONFIG` or of `worker_hosts`, and
    `tpu` uses the TPU that is named. `parameter_server` is for the coordinator of the cluster in
    `TF_CONFIG`. Call it before TensorFlow runs its first operation, because
    the process is prepared here, too: see `runtime_environment`.

    Raises:
        ConfigError: If the name is unknown, the cluster is not complete, or the machine has too few
            GPUs.
    """
    distribution = runtime.distribution
    runtime_environment.prepare(runtime)
    match distribution:
        case cfg.Distribution.TPU:
            from quintain.distribute import tpu  # noqa: PLC0415 - few machines have one

            return tpu.build_strategy(runtime)
        case cfg.Distribution.MULTI_WORKER_MIRRORED:
            return _build_multi_worker_mirrored(runtime)
        case cfg.Distribution.PARAMETER_SERVER:
            from quintain.distribute import parameter_servers  # noqa: PLC0415 - few clusters do

            return parameter_servers.build_strategy(runtime)
    _check_gpus(distribution, runtime.num_gpus)
    device = "/cpu:0" if runtime.num_gpus == 0 else "/gpu:0"
    match distribution:
        case cfg.Distribution.OFF:
            return tf.distribute.get_strategy()
        case cfg.Distribution.ONE_DEVICE:
            return tf.distribute.OneDeviceStrategy(device)
        case cfg.Distribution.MIRRORED:
            return _build_mirrored(runtime)


def is_asynchronous(strategy: tf.distribute.Strategy) -> bool:
    """Whether workers train without waiting for each other."""
    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def check_is_synchronous(strategy: tf.distribute.Strategy, what: str) -> None:
    """Refuses a strategy under which workers do not wait for each other.

    Raises:
        ConfigError: If the strategy is asynchronous.
    """
    if is_asynchronous(strategy):
        raise errors.ConfigError(
            f"runtime.distribution_strategy: got 'parameter_server', under which {what} is not "
            "possible, because its workers do not agree on the step. Use 'mirrored' or "
            "'multi_worker_mirrored'."
        )


@contextlib.contextmanager
def precision(runtime: cfg.RuntimeConfig) -> Iterator[None]:
    """Makes models built inside compute in `runtime.mixed_precision_dtype`.

    Sets Keras' global policy and puts the former one back at the end. Variables stay float32;
    float16 and bfloat16 are compute types.
    """
    dtype = runtime.mixed_precision_dtype
    if dtype == "bfloat16" and not _has_accelerators():
        _warn_of_slow_bfloat16()
    former = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32" if dtype in (None, "float32") else f"mixed_{dtype}")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(former)


def _warn_of_slow_bfloat16() -> None:
    from quintain.kernels import library  # noqa: PLC0415 - few runs ask for bfloat16

    if library.emulates_bfloat16():
        logger.warning(
            "runtime.mixed_precision_dtype: got bfloat16, for which this processor has no "
            "instructions; float32 is faster here."
        )


def _has_accelerators() -> bool:
    return bool(tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("TPU"))


def _check_gpus(distribution: cfg.Distribution, num_gpus: int) -> None:
    is_single = distribution in (cfg.Distribution.OFF, cfg.Distribution.ONE_DEVICE)
    if is_single and num_gpus > 1:
        raise errors.ConfigError(
            f"runtime.num_gpus: got {num_gpus}, expected at most 1 with "
            f"distribution_strategy={distribution.value!r}; use 'mirrored' for several GPUs."
        )
    if num_gpus and num_gpus > (found := len(tf.config.list_logical_devices("GPU"))):
        raise errors.ConfigError(
            f"runtime.num_gpus: got {num_gpus}, but TensorFlow finds {found} on this machine."
        )


def configure_cluster(worker_hosts: str | None = None, task_index: int = -1) -> int:
    """Puts a cluster of workers into `TF_CONFIG`, unless that is set already.

    Args:
        worker_hosts: Comma-separated `host:port` of all workers; None or empty for one worker.
        task_index: This process' place among them.

    Returns:
        The number of workers, a chief included.

    Raises:
        ConfigError: If there are several workers and `task_index` is not one of their places.
    """
    tf_config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    if tf_config:
        known = tf_config.get("cluster", {})
        return len(known.get("chief", [])) + len(known.get("worker", []))
    if not worker_hosts:
        return 1
    workers = [host.strip() for host in worker_hosts.split(",")]
    if len(workers) > 1 and not 0 <= task_index < len(workers):
        raise errors.ConfigError(
            f"runtime.task_index: got {task_index}, expected 0 to {len(workers) - 1}, the place of "
            f"this process in runtime.worker_hosts={worker_hosts!r}."
        )
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {"worker": workers},
            "task": {"type": "worker", "index": max(task_index, 0)},
        }
    )
    return len(workers)


def _build_multi_worker_mirrored(runtime: cfg.RuntimeConfig) -> tf.distribute.Strategy:
    implementations = {
        None: tf.distribute.experimental.CommunicationImplementation.AUTO,
        "auto": tf.distribute.experimental.CommunicationImplementation.AUTO,
        "ring": tf.distribute.experimental.CommunicationImplementation.RING,
        "nccl": tf.distribute.experimental.CommunicationImplementation.NCCL,
    }
    if runtime.all_reduce_alg not in implementations:
        raise errors.ConfigError(
            f"runtime.all_reduce_alg: got {runtime.all_reduce_alg!r}, expected auto, ring or nccl "
            "under 'multi_worker_mirrored'."
        )
    configure_cluster(runtime.worker_hosts, runtime.task_index)
    cluster.reach_directly()
    return tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(
            implementation=implementations[runtime.all_reduce_alg]
        )
    )


def _build_mirrored(runtime: cfg.RuntimeConfig) -> tf.distribute.Strategy:
    reductions = {
        "nccl": tf.distribute.NcclAllReduce,
        "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
    }
    if runtime.all_reduce_alg not in (None, *reductions):
        raise errors.ConfigError(
            f"runtime.all_reduce_alg: got {runtime.all_reduce_alg!r}, expected nccl or "
            "hierarchical_copy under 'mirrored'."
        )
    if runtime.num_gpus == 0:
        return tf.distribute.MirroredStrategy(
            [f"/cpu:{index}" for index in range(runtime.num_virtual_cpus)]
        )
    reduction = None
    if runtime.all_reduce_alg is not None or runtime.num_packs != 1:
        reduction = reductions[runtime.all_reduce_alg or "nccl"](num_packs=runtime.num_packs)
    return tf.distribute.MirroredStrategy(
        [f"/gpu:{index}" for index in range(runtime.num_gpus)], cross_device_ops=reduction
    )


def pack_gradients(
    strategy: tf.distribute.Strategy, runtime: cfg.RuntimeConfig, model: keras.Model
) -> None:
    """Makes the workers of a cluster sum their gradients in `num_packs` packs.

    TensorFlow takes the size of a pack instead of their number, so the model has to be there.
    Under strategies other than `multi_worker_mirrored` this does nothing.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) or (
        runtime.num_packs in (0, 1)
    ):
        return
    num_bytes = sum(
        int(np.prod(variable.shape)) * tf.as_dtype(variable.dtype).size
        for variable in model.trainable_variables
    )
    extended = strategy.extended
    extended._communication_options = extended._communication_options.merge(
        tf.distribute.experimental.CommunicationOptions(
            bytes_per_pack=-(-num_bytes // runtime.num_packs)
        )
    )


def get_strategy_scope(strategy: tf.distribute.Strategy | None) -> Any:
    """Returns the scope of a strategy, or a context that does nothing for None."""
    return strategy.scope() if strategy is not None else contextlib.nullcontext()
