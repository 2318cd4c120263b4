"""Has a tf.data service on other machines prepare the batches.

The position in such data can't be stored in a checkpoint: the service goes on where it is. Training
says so before it starts.
"""

import logging
import random
import socket
from typing import Any, Final

import tensorflow as tf

from quintain import errors
from quintain.orbit import cluster
from quintain.settings import config_definitions as cfg

CONNECT_TIMEOUT_SECS: Final = 5.0
"""Seconds to wait for the dispatcher to answer."""

_DEFAULT_JOB_NAME: Final = "quintain"
_MAX_RANDOM: Final = 2**31 - 1

# One number for all readers of a process: a run that is started again gets a new job, and not what
# its former job had left.
PROCESS_NUMBER: Final = random.SystemRandom().randint(0, _MAX_RANDOM)

_logger = logging.getLogger(__name__)


def check_address(address: str | None, *, timeout_secs: float = CONNECT_TIMEOUT_SECS) -> None:
    """Checks that a dispatcher can be reached, so that training does not wait for it in vain.

    Raises:
        ConfigError: If the address is missing or not of this form.
        DataError: If nothing answers there.
    """
    protocol, _, target = (address or "").partition("://")
    host, _, port = target.rpartition(":")
    if not protocol or not host or not port.isdigit():
        raise errors.ConfigError(
            f"tf_data_service_address: got {address!r}, expected the dispatcher's address, such as "
            "'grpc://10.0.0.5:5050'."
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_secs):
            pass
    except (OSError, OverflowError) as error:
        raise errors.DataError(
            f"tf_data_service_address: got {address!r}, but no dispatcher answers there ({error}). "
            "Start it with tf.data.experimental.service.DispatchServer, or set "
            "enable_tf_data_service=false."
        ) from error


def get_job_name(params: cfg.DataConfig, num_pipelines: int = 1) -> str:
    """Returns the name of the service's job: who uses the same name shares its batches.

    The batch size is part of it, because a job gives batches of one size only. A number drawn for
    the process keeps a restarted run from the rest of its former job; it is left out where several
    workers, or several trainers, need the same name.
    """
    is_shared = params.enable_shared_tf_data_service_between_parallel_trainers
    parts = [params.tf_data_service_job_name or _DEFAULT_JOB_NAME]
    if not (is_shared and params.apply_tf_data_service_before_batching):
        parts.append(f"bs{params.global_batch_size}")
    if not is_shared and num_pipelines == 1:
        parts.append(str(PROCESS_NUMBER))
    if not params.is_training:
        parts.append("eval")
    return "_".join(parts)


def distribute(
    dataset: tf.data.Dataset,
    params: cfg.DataConfig,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Returns what the service makes of a dataset.

    In training every worker of the service goes through all of the data in an order of its own. In
    evaluation the workers share the data out, and every example comes once.

    Raises:
        ConfigError: If settings do not fit together.
        DataError: If the service can't be reached.
    """
    check_address(params.tf_data_service_address)
    cluster.reach_directly()
    service = tf.data.experimental.service
    is_shared = params.enable_shared_tf_data_service_between_parallel_trainers
    is_training = bool(params.is_training)
    num_pipelines = input_context.num_input_pipelines if input_context else 1
    options: dict[str, Any] = {
        "processing_mode": "parallel_epochs" if is_training else service.ShardingPolicy.DYNAMIC,
        "service": params.tf_data_service_address,
        "job_name": get_job_name(params, num_pipelines),
    }
    _logger.warning(
        "The tf.data service at %s (job %s) prepares the %s data. It is an external service, whose "
        "position is not stored in checkpoints: a resumed run goes on with other batches.",
        params.tf_data_service_address, options["job_name"],
        "training" if is_training else "evaluation",
    )  # fmt: skip
    if params.get("enable_round_robin_tf_data_service", False):
        return _read_round_robin(dataset, params, input_context, options)
    if is_shared and is_training:
        options["cross_trainer_cache"] = service.CrossTrainerCache(trainer_id=params.trainer_id)
    return dataset.apply(service.distribute(**options))


def _read_round_robin(
    dataset: tf.data.Dataset,
    params: cfg.DataConfig,
    input_context: tf.distribute.InputContext | None,
    options: dict[str, Any],
) -> tf.data.Dataset:
    """Gives each replica its turn, so that all replicas get batches of one worker at a time."""
    if params.enable_shared_tf_data_service_between_parallel_trainers or not params.is_training:
        raise errors.ConfigError(
            "enable_round_robin_tf_data_service: got True, expected False in evaluation and with "
            "enable_shared_tf_data_service_between_parallel_trainers."
        )
    context = input_context or tf.distribute.InputContext()
    num_replicas = context.num_replicas_in_sync // context.num_input_pipelines
    num_consumers = context.num_input_pipelines * num_replicas
    first = context.input_pipeline_id * num_replicas

    # All consumers must ask at the same time: a worker answers when it has heard of every one.
    service = tf.data.experimental.service
    dataset_id = service.register_dataset(params.tf_data_service_address, dataset)

    def read_consumer(index: tf.Tensor) -> tf.data.Dataset:
        return service.from_dataset_id(
            dataset_id=dataset_id,
            element_spec=dataset.element_spec,
            consumer_index=first + index,
            num_consumers=num_consumers,
            **options,
        )

    return tf.data.Dataset.range(num_replicas).interleave(
        read_consumer,
        cycle_length=num_replicas,
        num_parallel_calls=num_replicas,
        deterministic=True,
    )
