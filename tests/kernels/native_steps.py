"""Functions traced as training steps are."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from quintain.kernels import modes, selection


def trace(function: Callable[..., Any], mode: modes.KernelMode = modes.KernelMode.NATIVE) -> Any:
    """Returns a `tf.function` that opens the scope of training steps while it is traced."""

    @tf.function(autograph=False)
    def step(*args: Any) -> Any:
        with selection.training_scope(mode):
            return function(*args)

    return step


def list_operations(step: Any, *args: Any) -> list[str]:
    """Returns the types of a step's operations, also of functions that it calls."""
    graph = step.get_concrete_function(*args).graph.as_graph_def()
    nodes = [*graph.node, *(node for one in graph.library.function for node in one.node_def)]
    return [node.op for node in nodes]
