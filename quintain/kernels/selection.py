"""Where native kernels are used: in training steps on CPUs that XLA does not compile.

The trainer opens `training_scope` around a step; layers, losses and optimizers ask `is_native`
while the step is traced. Elsewhere - evaluation, exports, XLA, GPUs - the answer is no, so that
what is saved has operations of TensorFlow only.
"""

import contextlib
import contextvars
import logging
from collections.abc import Iterator

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from quintain import errors
from quintain.kernels import library
from quintain.kernels.modes import KernelMode

_logger = logging.getLogger(__name__)
_found: dict[str, str] = {}
_is_native: contextvars.ContextVar[bool] = contextvars.ContextVar("is_native", default=False)


def is_native() -> bool:
    """Returns whether what is traced now, or runs now, is to use native kernels."""
    return _is_native.get() and not _is_compiled_by_xla()


def _is_compiled_by_xla() -> bool:
    """Returns whether a function that XLA compiles is traced, such as a layer of the user's own."""
    graph = tf.compat.v1.get_default_graph() if not tf.executing_eagerly() else None
    return graph is not None and control_flow_util.GraphOrParentsInXlaContext(graph)


@contextlib.contextmanager
def training_scope(mode: KernelMode, obstacle: str | None = None) -> Iterator[None]:
    """Lets the training step inside use native kernels, if `find_reason` has nothing against it."""
    token = _is_native.set(find_reason(mode, obstacle) is None)
    try:
        yield
    finally:
        _is_native.reset(token)


@contextlib.contextmanager
def plain_scope() -> Iterator[None]:
    """Keeps native kernels out of what is inside, such as what is differentiated twice."""
    token = _is_native.set(False)
    try:
        yield
    finally:
        _is_native.reset(token)


def find_reason(mode: KernelMode, obstacle: str | None = None) -> str | None:
    """Returns why training steps use TensorFlow's kernels; None if they use native ones.

    Args:
        mode: What `runtime.kernels` asks for.
        obstacle: What keeps these steps from using native ones, if anything does.
    """
    if mode is KernelMode.TENSORFLOW:
        return "runtime.kernels is 'tensorflow'"
    if obstacle is not None:
        return obstacle
    for kind in ("GPU", "TPU"):
        if _trains_on(kind):
            return f"steps run on a {kind}"
    return library.find_reason()


def check(mode: KernelMode, obstacle: str | None = None) -> None:
    """Loads what a run needs, and says so.

    Args:
        mode: What `runtime.kernels` asks for.
        obstacle: What keeps its steps from using native kernels, if anything does.

    Raises:
        ConfigError: If it asks for native kernels where there can't be any.
    """
    reason = find_reason(mode, obstacle)
    _found.clear()
    _found.update(_describe(reason))
    if reason is None:
        loaded = library.load()
        _logger.info("Native kernels: on (%s, %s).", loaded.instruction_set, loaded.origin)
    elif mode is KernelMode.NATIVE:
        raise errors.ConfigError(
            f"runtime.kernels: got 'native', but there can't be native kernels here: {reason}. Set "
            "it to 'auto' to train with TensorFlow's; `quintain doctor` shows what is there."
        )
    else:
        _logger.info("Native kernels: off (%s).", reason)


def describe() -> dict[str, str]:
    """Returns what `check` found last: `used`, and what they are or `reason`; empty if nothing."""
    return dict(_found)


def _describe(reason: str | None) -> dict[str, str]:
    if reason is not None:
        return {"used": KernelMode.TENSORFLOW.value, "reason": reason}
    loaded = library.load()
    return {
        "used": KernelMode.NATIVE.value,
        "instruction_set": loaded.instruction_set,
        "origin": loaded.origin,
        "compiler": loaded.compiler,
    }


def _trains_on(kind: str) -> bool:
    """Returns whether the current strategy's replicas are on devices of a kind."""
    if not tf.distribute.has_strategy():
        return bool(tf.config.list_logical_devices(kind))
    devices = tf.distribute.get_strategy().extended.worker_devices
    return any(f"{kind}:" in device.upper() for device in devices)
