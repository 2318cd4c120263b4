"""Parameter-server cluster: its coordinator and its servers.

The cluster comes from `TF_CONFIG`: one `chief`, which runs the trainer, and any number of `worker`
and `ps` processes, which only serve.
"""

import json
import logging
import os
from typing import Any

import tensorflow as tf

from quintain import errors
from quintain.orbit import cluster
from quintain.settings import config_definitions as cfg

logger = logging.getLogger(__name__)


def is_server(runtime: cfg.RuntimeConfig) -> bool:
    """Returns True for a `worker` or `ps` process, which only serves a coordinator."""
    is_asynchronous = runtime.distribution is cfg.Distribution.PARAMETER_SERVER
    return is_asynchronous and _read_task() in ("worker", "ps")


def serve() -> None:
    """Serves the coordinator, until this process is ended."""
    cluster.reach_directly()
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    logger.warning("Serving as %s %d.", resolver.task_type, resolver.task_id)
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        start=True,
    )
    server.join()


def build_strategy(runtime: cfg.RuntimeConfig) -> tf.distribute.Strategy:
    """Builds the strategy of the coordinator.

    Raises:
        ConfigError: If there is no cluster with workers and parameter servers in `TF_CONFIG`, or
            the precision is float16, whose loss scale the workers would share.
    """
    known = _read_config().get("cluster", {})
    missing = [kind for kind in ("worker", "ps") if not known.get(kind)]
    if missing:
        raise errors.ConfigError(
            "runtime.distribution_strategy: got 'parameter_server', but TF_CONFIG names no "
            f"{' and no '.join(missing)}. Give the cluster in TF_CONFIG (chief, worker, ps), or "
            "try it on this machine with --local-workers=2."
        )
    if runtime.mixed_precision_dtype == "float16":
        raise errors.ConfigError(
            "runtime.mixed_precision_dtype: got 'float16', expected float32 or bfloat16 under "
            "'parameter_server': workers would overwrite each other's loss scale."
        )
    cluster.reach_directly()
    return tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver()
    )


def _read_config() -> dict[str, Any]:
    config: dict[str, Any] = json.loads(os.environ.get("TF_CONFIG") or "{}")
    return config


def _read_task() -> str | None:
    task: str | None = _read_config().get("task", {}).get("type")
    return task
