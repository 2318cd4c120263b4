"""Settings of Keras models: gradient aggregation, threads, XLA."""

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from quintain import errors
from quintain.trials import trial_context

logger = logging.getLogger(__name__)


def accumulate_gradients(optimizer: keras.Optimizer, context: trial_context.TrialContext) -> None:
    """Lets an optimizer update as `optimizations.aggregation_frequency` says."""
    steps = context.get_optimization("aggregation_frequency") or 1
    if steps > 1:
        optimizer.gradient_accumulation_steps = steps
        if context.get_optimization("average_aggregated_gradients") is False:
            optimizer.apply = functools.partial(_apply_sums, optimizer.apply, steps)


def _apply_sums(
    apply: Callable[..., Any], steps: int, grads: Sequence[Any], *args: Any, **kwargs: Any
) -> Any:
    """Lets an optimizer apply the sum of accumulated gradients, where it takes their mean."""
    return apply([None if grad is None else grad * steps for grad in grads], *args, **kwargs)


def limit_threads(config: Any) -> None:
    """Keeps to the numbers of threads of a `tf.ConfigProto`, which make results repeatable."""
    threading = tf.config.threading
    for name in ("intra_op_parallelism_threads", "inter_op_parallelism_threads"):
        number = getattr(config, name, 0)
        if not number or getattr(threading, f"get_{name}")() == number:
            continue
        try:
            getattr(threading, f"set_{name}")(number)
        except RuntimeError:
            logger.warning(
                "session_config(): %s=%d comes too late; TensorFlow has computed something before, "
                "and keeps its number of threads.",
                name,
                number,
            )


def resolve_jit(jit_compile: bool | None, model: keras.Model, num_processes: int = 1) -> bool:
    """Returns whether XLA compiles the steps of a model.

    Raises:
        TrialError: If it is to, but can't.
    """
    if num_processes > 1:
        if jit_compile:
            raise errors.TrialError(
                "jit_compile: got True, but XLA can't sum gradients over several processes; leave "
                "it out, or set resources.processes_per_trial to 1."
            )
        return False
    if jit_compile is not None:
        return jit_compile
    return bool(model.jit_compile and tf.config.list_physical_devices("GPU"))
