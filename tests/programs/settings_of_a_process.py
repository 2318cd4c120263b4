"""Sets what can only be set before TensorFlow's devices start, or is for the whole process."""

import json
import os

from quintain import errors
from quintain.core import config_definitions as cfg
from quintain.core import task_factory, train_lib  # noqa: F401 - must not start the devices
from quintain.distribute import distribution

strategy = distribution.build_strategy(
    cfg.RuntimeConfig(
        distribution_strategy="multi_worker_mirrored",
        worker_hosts="127.0.0.1:0",
        all_reduce_alg="ring",
        num_packs=3,
        gpu_thread_mode="gpu_private",
        per_gpu_thread_count=2,
        batchnorm_spatial_persistent=True,
        deterministic=True,
    )
)
import keras
from tensorflow.python.framework import config

with strategy.scope():
    model = keras.Sequential([keras.Input([9]), keras.layers.Dense(1, use_bias=False)])
distribution.pack_gradients(strategy, cfg.RuntimeConfig(num_packs=4), model)
options = strategy.extended._communication_options
try:
    distribution.build_strategy(cfg.RuntimeConfig(num_virtual_cpus=3))
    message = ""
except errors.ConfigError as error:
    message = str(error)
keras.utils.set_random_seed(1)
print(
    json.dumps(
        {
            "threads": [os.environ[name] for name in ("TF_GPU_THREAD_MODE", "TF_GPU_THREAD_COUNT")],
            "persistent": os.environ["TF_USE_CUDNN_BATCHNORM_SPATIAL_PERSISTENT"],
            "implementation": options.implementation.value,
            "bytes_per_pack": options.bytes_per_pack,
            "is_deterministic": config.is_op_determinism_enabled(),
            "message": message,
        }
    )
)
