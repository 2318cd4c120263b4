"""Which kernels the training steps of a run use."""

from collections.abc import Callable
from typing import Any

from quintain.distribute import replica_steps
from quintain.kernels import selection
from quintain.settings import config_definitions as cfg


def check(runtime: cfg.RuntimeConfig, obstacle: str | None = None) -> None:
    """Loads the kernels that `runtime.kernels` asks for. Call it in the strategy's scope.

    Args:
        runtime: The machine.
        obstacle: What else keeps the steps from using native ones.

    Raises:
        ConfigError: If it asks for native ones where there can't be any.
    """
    selection.check(runtime.kernel_mode, obstacle or _find_obstacle(runtime))


def compile_train_step(
    step_fn: Callable[..., Any], runtime: cfg.RuntimeConfig
) -> Callable[..., Any]:
    """Returns a task's training step as `runtime.enable_xla` and `runtime.kernels` ask."""
    obstacle = _find_obstacle(runtime)

    def scoped_step_fn(*args: Any, **kwargs: Any) -> Any:
        with selection.training_scope(runtime.kernel_mode, obstacle):
            return step_fn(*args, **kwargs)

    return replica_steps.compile_step(scoped_step_fn, runtime)


def _find_obstacle(runtime: cfg.RuntimeConfig) -> str | None:
    """Returns what of a run's settings keeps its steps from using native kernels."""
    if runtime.distribution is cfg.Distribution.TPU:
        return "steps run on TPUs"
    if runtime.enable_xla:
        return "runtime.enable_xla: XLA compiles the steps"
    if runtime.distribution is cfg.Distribution.PARAMETER_SERVER:
        return "steps run in the processes of other workers"
    return None
