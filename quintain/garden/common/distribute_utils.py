"""Distribution strategies from single arguments, for programs without a `RuntimeConfig`."""

import contextlib
from typing import Any

import tensorflow as tf

from quintain import errors
from quintain.distribute import distribution, tpu
from quintain.settings import config_definitions as cfg

DummyContextManager = contextlib.nullcontext
configure_cluster = distribution.configure_cluster
get_strategy_scope = distribution.get_strategy_scope
tpu_initialize = tpu.tpu_initialize

_MORE_FIELDS = ("default_shard_dim", "num_cores_per_replica", "use_tpu_mp_strategy")


def get_distribution_strategy(
    distribution_strategy: str = "mirrored",
    num_gpus: int = 0,
    all_reduce_alg: str | None = None,
    num_packs: int = 1,
    tpu_address: str | None = None,
    **kwargs: Any,
) -> tf.distribute.Strategy:
    """Builds the strategy to train under; see `quintain.core.distribution.build_strategy`.

    Args:
        distribution_strategy: `off`, `one_device`, `mirrored`, `multi_worker_mirrored`,
            `parameter_server` or `tpu`, in upper or lower case.
        num_gpus: GPUs to use; 0 uses the CPU.
        all_reduce_alg: `nccl` or `hierarchical_copy` under `mirrored`, `ring` or `nccl` under
            `multi_worker_mirrored`. None lets TensorFlow choose.
        num_packs: Packs that gradients are grouped into.
        tpu_address: Name or address of the TPU; None, empty or `local` is that of this machine.
        **kwargs: What `RuntimeConfig.model_parallelism` returns.

    Raises:
        ConfigError: If there is no such strategy, or the machine can't have it.

    Example:
        >>> type(get_distribution_strategy("one_device")).__name__
        'OneDeviceStrategy'
    """
    if not isinstance(distribution_strategy, str):
        hint = " Quote 'off' in YAML files." if distribution_strategy is False else ""
        raise errors.ConfigError(
            f"distribution_strategy must be a string but got: {distribution_strategy!r}.{hint}"
        )
    if num_gpus < 0:
        raise errors.ConfigError(f"`num_gpus` can not be negative, but got {num_gpus}.")
    for name in kwargs:
        if name not in _MORE_FIELDS:
            raise errors.ConfigError(
                f"{name}: not an argument of `get_distribution_strategy`, which also takes "
                f"{', '.join(_MORE_FIELDS)}.{errors.suggest(name, _MORE_FIELDS)}"
            )
    runtime = cfg.RuntimeConfig(
        distribution_strategy=distribution_strategy,
        num_gpus=num_gpus,
        all_reduce_alg=all_reduce_alg,
        num_packs=num_packs,
        tpu=tpu_address,
        **kwargs,
    )
    return distribution.build_strategy(runtime)
