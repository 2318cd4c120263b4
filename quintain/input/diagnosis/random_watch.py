"""Finds random operations of a training step whose state no checkpoint reaches."""

import linecache
import logging
import pathlib
from typing import Any, Final

import keras
import tensorflow as tf

from quintain.input.diagnosis import pipeline_inspection

_LIBRARIES: Final = tuple(
    str(pathlib.Path(path).resolve())
    for path in (
        pathlib.Path(tf.__file__).parent.parent / "tensorflow",
        pathlib.Path(keras.__file__).parent,
        pathlib.Path(__file__).parent,
        pathlib.Path(__file__).parent.parent / "orbit",
        pathlib.Path(__file__).parent.parent.parent / "trials",
    )
)
"""Directories whose code is not that of whoever wrote the step."""

logger = logging.getLogger(__name__)


class RandomWatch:
    """Warns once of stateful random operations in a traced training step."""

    def __init__(self) -> None:
        self._has_warned = False

    # Called while a step is traced: AutoGraph would convert it, for a third of the tracing's time.
    @tf.autograph.experimental.do_not_convert
    def check_traced(self) -> None:
        """Looks through what was traced into the current graph; does nothing outside of one.

        Operations that run outside of a graph take new seeds from a sequence that is saved.
        """
        if self._has_warned or tf.executing_eagerly():
            return
        found = find_draws(tf.compat.v1.get_default_graph())
        if found:
            self._has_warned = True
            logger.warning(
                "The training step draws random numbers whose state can't be stored in a "
                "checkpoint, so that a run which is stopped and resumed draws others than one that "
                "is not: %s. Use Keras' random layers, or keras.random with a "
                "keras.random.SeedGenerator that the task or the model holds.",
                "; ".join(found),
            )


def find_draws(graph: Any) -> list[str]:
    """Returns the random operations of a graph that keep their own state, with their lines."""
    found: dict[str, None] = {}
    for current in list_graphs(graph):
        for operation in current.get_operations():
            if pipeline_inspection.draws_statefully(operation.type):
                found.setdefault(f"{operation.type}{find_line(operation)}")
    return list(found)


def list_graphs(graph: Any) -> list[Any]:
    """Returns a graph and those of all functions in it, each once."""
    found: dict[int, Any] = {}
    graphs = [graph]
    while graphs:
        current = graphs.pop()
        if id(current) not in found:
            found[id(current)] = current
            graphs += [function.graph for function in current._functions.values()]
    return list(found.values())


def find_line(operation: Any) -> str:
    """Returns the line of the user's code that made an operation, or nothing if it is not known."""
    for frame in reversed(operation.traceback):
        if not frame.filename.startswith((*_LIBRARIES, "<")):
            line = linecache.getline(frame.filename, frame.lineno).strip()
            return f" ({frame.filename}:{frame.lineno}: {line})"
    return ""
