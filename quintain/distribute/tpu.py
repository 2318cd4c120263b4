"""TPU connection, and splitting a model over its cores."""

from typing import Any

import tensorflow as tf

from quintain import errors
from quintain.settings import config_definitions as cfg

_LOCAL = ("", "local")


def tpu_initialize(tpu_address: str | None) -> tf.distribute.cluster_resolver.TPUClusterResolver:
    """Connects to a TPU and initialises it.

    Args:
        tpu_address: Name or address of the TPU. None, empty or `local` means that of this machine.

    Raises:
        ConfigError: If there is no such TPU.
    """
    address = "" if tpu_address is None else tpu_address
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address)
        if address not in _LOCAL:
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (tf.errors.OpError, ValueError, RuntimeError, OSError) as error:
        reason = str(getattr(error, "message", error)).strip().partition("\n")[0]
        raise errors.ConfigError(
            f"runtime.tpu: got {tpu_address!r}, but there is no TPU to be reached that way: "
            f"{reason} Give the name or the address of a TPU (--tpu=NAME), or leave it empty on a "
            "machine that has one; without a TPU, use another runtime.distribution_strategy."
        ) from error
    return resolver


def build_strategy(runtime: cfg.RuntimeConfig) -> tf.distribute.Strategy:
    """Builds the strategy of the TPU that `runtime` names.

    With `use_tpu_mp_strategy`, each replica of the model has `num_cores_per_replica` cores, over
    which XLA splits it.

    Raises:
        ConfigError: If there is no TPU, or the cores can't be shared out evenly.
    """
    resolver = tpu_initialize(runtime.tpu)
    if not runtime.use_tpu_mp_strategy:
        return tf.distribute.TPUStrategy(resolver)
    num_cores = resolver.num_accelerators()["TPU"] * max(len(_hosts(resolver)), 1)
    if num_cores % runtime.num_cores_per_replica:
        raise errors.ConfigError(
            f"runtime.num_cores_per_replica: got {runtime.num_cores_per_replica}, expected a "
            f"divisor of {num_cores}, the cores of this TPU."
        )
    topology = tf.tpu.experimental.initialize_tpu_system(resolver)
    assignment = tf.tpu.experimental.DeviceAssignment.build(
        topology,
        computation_shape=[1, 1, 1, runtime.num_cores_per_replica],
        num_replicas=num_cores // runtime.num_cores_per_replica,
    )
    return tf.distribute.TPUStrategy(resolver, experimental_device_assignment=assignment)


def get_runtime_options(config: cfg.RuntimeConfig) -> tf.distribute.RunOptions:
    """Returns how TPUs compile a step. Other devices ignore it."""
    options = {}
    if config.tpu_enable_xla_dynamic_padder is not None:
        options["enable_xla_dynamic_padder"] = config.tpu_enable_xla_dynamic_padder
    return tf.distribute.RunOptions(experimental_xla_options=tf.tpu.XLAOptions(**options))


def split_inputs(strategy: tf.distribute.Strategy, runtime: cfg.RuntimeConfig, inputs: Any) -> Any:
    """Splits the tensors of one replica's batch over its cores, along `default_shard_dim`.

    Without `use_tpu_mp_strategy`, or with a negative dimension, every core has all of them.

    Args:
        strategy: The strategy.
        runtime: Says along which dimension, and over how many cores.
        inputs: Nested structure of tensors. Those without the dimension are not split.
    """
    dimension = runtime.default_shard_dim
    if not runtime.use_tpu_mp_strategy or dimension < 0 or runtime.num_cores_per_replica == 1:
        return inputs

    def split(tensor: tf.Tensor) -> tf.Tensor:
        if tensor.shape.rank is None or tensor.shape.rank <= dimension:
            return tensor
        parts = [1] * tensor.shape.rank
        parts[dimension] = runtime.num_cores_per_replica
        return strategy.experimental_split_to_logical_devices(tensor, parts)

    return tf.nest.map_structure(split, inputs)


def _hosts(resolver: tf.distribute.cluster_resolver.TPUClusterResolver) -> list[str]:
    """Returns the addresses of the machines that hold the TPU's cores."""
    spec = resolver.cluster_spec()
    return [host for job in spec.jobs for host in spec.job_tasks(job)] if spec else []
