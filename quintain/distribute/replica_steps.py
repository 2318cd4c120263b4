"""How the steps of a task run on one replica: compiled by XLA or not, with which options."""

import contextvars
import functools
import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from quintain.distribute import tpu
from quintain.modeling import rematerialization
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


def _rematerialize(step_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a step that computes layers again, and that warns if there is none in training."""

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

    Args:
        strategy: The strategy.
        runtime: How TPUs compile and split it.
        step_fn: Takes one replica's share of `inputs`.
        inputs: What the iterator of a distributed dataset gave.

    Returns:
        The outputs of all replicas, as `strategy.run` returns them.
    """

    def split_step_fn(replica_inputs: Any) -> Any:
        return step_fn(tpu.split_inputs(strategy, runtime, replica_inputs))

    return strategy.run(split_step_fn, args=(inputs,), options=tpu.run_options(runtime))
