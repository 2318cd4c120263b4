"""Compilation of a task's step on a replica: XLA, native kernels, rematerialisation."""

import contextvars
import functools
import logging
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from quintain.kernels import selection
from quintain.optimization import dense_gradients
from quintain.settings import config_definitions as cfg

_LOGGER = logging.getLogger(__name__)

_is_compiled: contextvars.ContextVar[bool] = contextvars.ContextVar("is_compiled", default=False)


def compile_step(step_fn: Callable[..., Any], runtime: cfg.RuntimeConfig) -> Callable[..., Any]:
    """Returns a task's step as `runtime` asks: compiled by XLA, or keeping less, or as it is.

    TPUs compile everything anyway.
    """
    if runtime.rematerialize:
        return _rematerialize(step_fn)
    is_tpu = runtime.distribution is cfg.Distribution.TPU
    if not runtime.enable_xla and not is_tpu:
        return step_fn

    def traced_step_fn(*args: Any, **kwargs: Any) -> Any:
        token = _is_compiled.set(True)
        try:
            return step_fn(*args, **kwargs)
        finally:
            _is_compiled.reset(token)

    if is_tpu:
        return traced_step_fn
    compiled: Callable[..., Any] = tf.function(traced_step_fn, jit_compile=True)
    return compiled


def compile_train_step(
    step_fn: Callable[..., Any], runtime: cfg.RuntimeConfig
) -> Callable[..., Any]:
    """Returns a task's training step as `runtime.enable_xla` and `runtime.kernels` ask."""
    obstacle = _find_obstacle(runtime)

    def scoped_step_fn(*args: Any, **kwargs: Any) -> Any:
        with selection.training_scope(runtime.kernel_mode, obstacle):
            outputs = step_fn(*args, **kwargs)
        if obstacle is None:
            dense_gradients.disable_copy_on_read()
        return outputs

    return compile_step(scoped_step_fn, runtime)


def check_kernels(runtime: cfg.RuntimeConfig, obstacle: str | None = None) -> None:
    """Loads the kernels that `runtime.kernels` asks for. Call it in the strategy's scope.

    Raises:
        ConfigError: If it asks for native ones where there can't be any.
    """
    selection.check(runtime.kernel_mode, obstacle or _find_obstacle(runtime))


def _find_obstacle(runtime: cfg.RuntimeConfig) -> str | None:
    """Returns what of a run's settings keeps its steps from using native kernels."""
    if runtime.distribution is cfg.Distribution.TPU:
        return "steps run on TPUs"
    if runtime.enable_xla:
        return "runtime.enable_xla: XLA compiles the steps"
    if runtime.distribution is cfg.Distribution.PARAMETER_SERVER:
        return "steps run in the processes of other workers"
    return None


def _rematerialize(step_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a step that computes layers again, and that warns if there is none in training."""
    from quintain.modeling import rematerialization  # noqa: PLC0415 - few runs do

    @functools.wraps(step_fn)
    def run_step(*args: Any, **kwargs: Any) -> Any:
        with rematerialization.enabled() as recomputed:
            outputs = step_fn(*args, **kwargs)
        if "optimizer" in kwargs and not recomputed.num_layers:
            _LOGGER.warning(
                "runtime.rematerialize: has no effect, since the training step runs none of the "
                "Transformer's blocks (TransformerEncoderBlock, TransformerDecoderBlock)."
            )
        return outputs

    return run_step


def count_replicas() -> int:
    """Returns the number of replicas, or shards, over which the gradients of a step are summed."""
    where = tf.distribute.get_replica_context() or tf.distribute.get_strategy()
    return int(where.num_replicas_in_sync)


def is_compiled() -> bool:
    """Returns whether the step being traced is compiled by XLA, which needs fixed shapes."""
    return _is_compiled.get()


def run(
    strategy: tf.distribute.Strategy,
    runtime: cfg.RuntimeConfig,
    step_fn: Callable[[Any], Any],
    inputs: Any,
) -> Any:
    """Runs a function on every replica.

    Returns:
        The outputs of all replicas, as `strategy.run` returns them.
    """
    if not isinstance(strategy, tf.distribute.TPUStrategy):
        return strategy.run(step_fn, args=(inputs,))
    from quintain.distribute import tpu  # noqa: PLC0415 - few machines have one

    def split_step_fn(replica_inputs: Any) -> Any:
        return step_fn(tpu.split_inputs(strategy, runtime, replica_inputs))

    return strategy.run(split_step_fn, args=(inputs,), options=tpu.get_runtime_options(runtime))


def add_to_mean(metric: keras.metrics.Mean, value: tf.Tensor, count: Any = 1.0) -> None:
    """Adds a value, as often as it counts, to a mean that several workers may add to at once.

    `Mean.update_state` reads, adds and writes, so that the value of another worker can get lost
    in between; here each addition is one operation of the parameter server.
    """
    count = tf.cast(count, metric.count.dtype)
    metric.total.value.assign_add(tf.cast(value, metric.total.dtype) * count)
    metric.count.value.assign_add(count)
