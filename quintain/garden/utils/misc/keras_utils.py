"""Callbacks and settings for programs that train by `keras.Model.fit`."""

import dataclasses
import logging
import os
import time
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.reference import reference_names

__getattr__ = reference_names.refusing(__name__)

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class BatchTimestamp:
    """Time at which a batch ended."""

    batch_index: int
    """Steps done."""

    timestamp: float
    """Seconds since the epoch."""


class TimeHistory(keras.callbacks.Callback):
    """Measures steps and examples per second, and writes them to the log."""

    def __init__(
        self, batch_size: int, log_steps: int, initial_step: int = 0, logdir: str | None = None
    ) -> None:
        """Initializes the callback.

        Args:
            batch_size: Examples of a step, of all replicas.
            log_steps: Steps between two lines of the log.
            initial_step: Steps done before.
            logdir: Directory for summaries; None writes none.
        """
        super().__init__()
        self.batch_size = batch_size
        self.log_steps = log_steps
        self.last_log_step = initial_step
        self.steps_before_epoch = initial_step
        self.steps_in_epoch = 0
        self.start_time: float | None = None
        self.epoch_start = 0.0
        self.train_finish_time: float | None = None
        self.summary_writer = tf.summary.create_file_writer(logdir) if logdir else None
        self.timestamp_log: list[BatchTimestamp] = []
        self.epoch_runtime_log: list[float] = []

    @property
    def global_steps(self) -> int:
        """Steps done, those before included."""
        return self.steps_before_epoch + self.steps_in_epoch

    @property
    def average_steps_per_second(self) -> float:
        """Steps per second over all epochs that have ended."""
        return self.global_steps / sum(self.epoch_runtime_log)

    @property
    def average_examples_per_second(self) -> float:
        """Examples per second over all epochs that have ended."""
        return self.average_steps_per_second * self.batch_size

    def get_examples_per_sec(self, warmup: int = 1) -> float:
        """Returns the examples per second after the first `warmup` lines of the log."""
        first, last = self.timestamp_log[warmup], self.timestamp_log[-1]
        steps = last.batch_index - first.batch_index
        return self.batch_size * steps / (last.timestamp - first.timestamp)

    def get_startup_time(self, start_time_sec: float) -> float:
        """Returns the seconds from a point in time to the first step."""
        return self.timestamp_log[0].timestamp - start_time_sec

    @override
    def on_train_end(self, logs: Any = None) -> None:
        self.train_finish_time = time.time()
        if self.summary_writer:
            self.summary_writer.flush()

    @override
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch_start = time.time()

    @override
    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self.start_time is None:
            self.start_time = time.time()
        if not self.timestamp_log:
            self.timestamp_log.append(BatchTimestamp(self.global_steps, self.start_time))

    @override
    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Writes the speed of the last `log_steps` steps."""
        self.steps_in_epoch = batch + 1
        steps = self.global_steps - self.last_log_step
        if steps < self.log_steps or self.start_time is None:
            return
        now = time.time()
        elapsed_secs = now - self.start_time
        values = {
            "steps_per_second": steps / elapsed_secs,
            "examples_per_second": steps * self.batch_size / elapsed_secs,
        }
        self.timestamp_log.append(BatchTimestamp(self.global_steps, now))
        logger.info(
            "%.2f seconds, %.2f examples/second between steps %d and %d",
            elapsed_secs,
            values["examples_per_second"],
            self.last_log_step,
            self.global_steps,
        )
        if self.summary_writer:
            with self.summary_writer.as_default():
                for name, value in values.items():
                    tf.summary.scalar(name, value, self.global_steps)
        self.last_log_step = self.global_steps
        self.start_time = None

    @override
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epoch_runtime_log.append(time.time() - self.epoch_start)
        self.steps_before_epoch += self.steps_in_epoch
        self.steps_in_epoch = 0


class SimpleCheckpoint(keras.callbacks.Callback):
    """Saves a checkpoint at the end of each epoch."""

    def __init__(self, checkpoint_manager: tf.train.CheckpointManager) -> None:
        super().__init__()
        self.checkpoint_manager = checkpoint_manager

    @override
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.checkpoint_manager.save(
            checkpoint_number=int(self.checkpoint_manager._step_counter.numpy())
        )


def set_session_config(enable_xla: bool = False) -> None:
    """Makes TensorFlow compile graphs by XLA.

    Args:
        enable_xla: Whether it does; False changes nothing.
    """
    if enable_xla:
        tf.config.optimizer.set_jit(True)


set_config_v2 = set_session_config


def set_gpu_thread_mode_and_count(
    gpu_thread_mode: str,
    datasets_num_private_threads: int | None,
    num_gpus: int,
    per_gpu_thread_count: int | None,
) -> None:
    """Sets how work of GPUs is given to threads; before TensorFlow's first operation.

    Args:
        gpu_thread_mode: `global`, `gpu_private` or `gpu_shared`.
        datasets_num_private_threads: Only written to the log: `tf.data` sets it by its options.
        num_gpus: Number of GPUs.
        per_gpu_thread_count: Threads of each GPU; None or 0 is 2.
    """
    num_threads = per_gpu_thread_count or 2
    os.environ["TF_GPU_THREAD_MODE"] = gpu_thread_mode
    os.environ["TF_GPU_THREAD_COUNT"] = str(num_threads)
    num_cpus = os.cpu_count() or 1
    rest = min(num_cpus - (num_threads + 1) * num_gpus, num_gpus * 8)
    logger.info(
        "%d CPUs, %d threads for each GPU (%s), %d for datasets",
        num_cpus,
        num_threads,
        gpu_thread_mode,
        datasets_num_private_threads or rest,
    )
