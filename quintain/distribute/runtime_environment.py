"""Process-wide settings of a `RuntimeConfig`, made before TensorFlow's devices start.

TensorFlow reads the environment variables, and splits the CPU into logical devices, when the first
operation runs. `distribution.build_strategy` comes before that, and calls `prepare`.
"""

import ctypes
import logging
import os
from typing import Any, Final

import keras
import tensorflow as tf

from quintain import errors
from quintain.process import start_up
from quintain.settings import config_definitions as cfg

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGEST_MMAP_THRESHOLD: Final = 32 * 2**20
_NEVER: Final = -1

logger = logging.getLogger(__name__)


def prepare(runtime: cfg.RuntimeConfig) -> None:
    """Sets what `runtime` says about GPU threads, cuDNN, logical CPUs and determinism.

    Raises:
        ConfigError: If the devices have started already and another number of logical CPUs is
            asked for.
    """
    for name, value in environment_variables(runtime).items():
        os.environ[name] = value
    start_up.turn_onednn_cache_off()
    _keep_freed_memory()
    _split_cpu(runtime.num_virtual_cpus)
    if runtime.deterministic:
        tf.config.experimental.enable_op_determinism()


def set_seed(runtime: cfg.RuntimeConfig) -> None:
    """Seeds Python, NumPy and TensorFlow, so that weights and dropout start the same each time."""
    if runtime.seed is not None:
        keras.utils.set_random_seed(runtime.seed)


def environment_variables(runtime: cfg.RuntimeConfig) -> dict[str, str]:
    """Returns the environment variables that TensorFlow is to find, by their name.

    Source: `tensorflow/core/common_runtime/gpu/gpu_device.cc` and
    `tensorflow/core/kernels/fused_batch_norm_op.cc` of TensorFlow 2.21.
    """
    variables = {}
    if runtime.gpu_thread_mode is not None:
        variables["TF_GPU_THREAD_MODE"] = runtime.gpu_thread_mode
    if runtime.per_gpu_thread_count:
        variables["TF_GPU_THREAD_COUNT"] = str(runtime.per_gpu_thread_count)
    if runtime.batchnorm_spatial_persistent:
        variables["TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT"] = "1"
    return variables


def with_private_threads(dataset: Any, num_threads: int | None) -> Any:
    """Returns a dataset with a thread pool of its own; as it is if `num_threads` is None."""
    if num_threads is None or not isinstance(dataset, tf.data.Dataset):
        return dataset
    options = tf.data.Options()
    options.threading.private_threadpool_size = num_threads
    return dataset.with_options(options)


def _keep_freed_memory() -> None:
    """Makes the C library keep the memory of tensors that are freed.

    Every step needs the same memory again. Given back to the system in between, it comes in small
    pages that have to be cleared first, which is 5 to 10 % of the time of a step on CPUs. Nothing
    is changed where the user has set `MALLOC_MMAP_THRESHOLD_` or the like.

    Source: mallopt(3) of the GNU C library; others have no such function.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
        mallopt(_M_TRIM_THRESHOLD, _NEVER)


def _split_cpu(count: int) -> None:
    if count == 1:
        return
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * count
        )
    except RuntimeError as error:
        found = len(tf.config.list_logical_devices("CPU"))
        if found < count:
            raise errors.ConfigError(
                f"runtime.num_virtual_cpus: got {count}, but TensorFlow has started with {found} "
                "in this process. Build the strategy before the first operation."
            ) from error
