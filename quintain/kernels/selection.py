"""Selection of native kernels: training steps on CPUs that XLA does not compile.

The trainer opens `training_scope` around a step; layers, losses and optimizers ask `is_native`
while the step is traced. Elsewhere - evaluation, exports, XLA, GPUs - the answer is no, so that
what is saved has operations of TensorFlow only.
"""

import contextlib
import contextvars
import functools
import logging
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import control_flow_util, control_flow_v2_func_graphs

from quintain import errors
from quintain.kernels.modes import KernelMode

_logger = logging.getLogger(__name__)
_found: dict[str, str] = {}
_scope: contextvars.ContextVar["_Scope | None"] = contextvars.ContextVar("scope", default=None)


class _Scope:
    """Scope of native kernels: one graph, or eager execution."""

    def __init__(self) -> None:
        self.graph = _find_graph()


def is_native() -> bool:
    """Returns whether what is traced now, or runs now, is to use native kernels.

    Not in a `tf.function` of the user's own within the step, such as a decorated layer: TensorFlow
    keeps what it has traced, and would give it to evaluations, exports and XLA, too.
    """
    scope = _scope.get()
    if scope is None:
        return False
    graph = _find_graph()
    if graph is not None and control_flow_util.GraphOrParentsInXlaContext(graph):
        return False
    while graph is not scope.graph:
        if not isinstance(graph, control_flow_v2_func_graphs.ControlFlowFuncGraph):
            _say_that_it_is_kept(getattr(graph, "name", ""))
            return False
        graph = graph.outer_graph  # Of a loop or a condition, which are traced each time.
    return True


def _find_graph() -> Any:
    """Returns the graph that is traced now; None where operations run at once."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


@functools.cache
def _say_that_it_is_kept(name: str) -> None:
    _logger.info(
        "Native kernels: off within %r, a function of its own, which could be called elsewhere. "
        "A training step needs no `tf.function` inside: it is compiled as a whole.",
        name,
    )


@contextlib.contextmanager
def training_scope(mode: KernelMode, obstacle: str | None = None) -> Iterator[None]:
    """Lets the training step inside use native kernels, if `find_reason` has nothing against it."""
    with _scope_entered(_Scope() if find_reason(mode, obstacle) is None else None):
        yield


@contextlib.contextmanager
def plain_scope() -> Iterator[None]:
    """Keeps native kernels out of what is inside, such as what is differentiated twice."""
    with _scope_entered(None):
        yield


@contextlib.contextmanager
def _scope_entered(scope: _Scope | None) -> Iterator[None]:
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


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
    from quintain.kernels import library  # noqa: PLC0415 - it finds compilers, and compiles

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
        _logger.info("Native kernels: on (%s, %s).", _found["instruction_set"], _found["origin"])
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
    from quintain.kernels import library  # noqa: PLC0415 - as above

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
