"""State that a traced training step changes and no checkpoint of the trial would have."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.framework import auto_control_deps_utils

from quintain import errors
from quintain.checkpoints import checkpoint_state
from quintain.input.diagnosis import random_watch

_TABLE_WRITES: Final = ("LookupTableInsert", "LookupTableImport", "LookupTableRemove")
_MAX_NAMED: Final = 5

logger = logging.getLogger(__name__)


def refuse(graph: Any, saved: Iterable[Any], owner: str) -> None:
    """Checks that a checkpoint has what a training step changes; warns of what it only reads.

    Args:
        graph: The graph of the traced step.
        saved: The variables that are saved, or begin anew with each step.
        owner: The step's place, such as `Model.train_step`.

    Raises:
        TrialError: Naming the lines of the user's code that change something else.
    """
    handles = {id(part.handle) for part in checkpoint_state.local_parts(list(saved))}
    handles |= set(map(id, _list_tokens()))
    unsaved = [
        (inside, outside)
        for outside, inside in graph.captures
        # Those of tables and iterators have no shapes.
        if outside.dtype == tf.resource and _shapes(outside) and id(outside) not in handles
    ]
    read_only = auto_control_deps_utils.get_read_only_resource_input_indices_graph(graph)
    only_read = {id(graph.inputs[index]) for index in read_only}
    changed = [_describe(*pair) for pair in unsaved if id(pair[0]) not in only_read]
    changed += [f"a table{random_watch.find_line(one)}" for one in _find_table_writes(graph)]
    if changed:
        raise errors.TrialError(
            f"{owner} changes what no checkpoint would have: {_join(changed)}. Let it be variables "
            "that are attributes of the model or the trial, or stand in lists or dicts of theirs."
        )
    if unsaved:
        logger.warning(
            "%s reads variables that no checkpoint has, because neither the model nor the trial "
            "holds them: %s. If anything changes them, they begin anew after each restart.",
            owner,
            _join([_describe(*pair) for pair in unsaved]),
        )


def _list_tokens() -> Iterator[Any]:
    """Yields the handles by which TensorFlow orders messages between processes; they hold nothing.

    Workaround for TensorFlow 2.21, whose launchers of collectives do not offer them.
    """
    extended = tf.distribute.get_strategy().extended
    for name in ("_cross_device_ops", "_host_cross_device_ops"):
        for launcher in getattr(getattr(extended, name, None), "_launchers", ()):
            yield launcher._get_ordering_token()


def _shapes(handle: Any) -> Any:
    data = getattr(handle, "_handle_data", None)
    return None if data is None else data.shape_and_type


def _describe(inside: Any, outside: Any) -> str:
    """Returns shape and type of a variable, and the first line that uses it."""
    found = _shapes(outside)[0]
    line = next(filter(None, map(random_watch.find_line, inside.consumers())), "")
    return f"a variable {tf.TensorShape(found.shape)} of {tf.as_dtype(found.dtype).name}{line}"


def _find_table_writes(graph: Any) -> Iterator[Any]:
    for one in random_watch.list_graphs(graph):
        for operation in one.get_operations():
            if operation.type.startswith(_TABLE_WRITES):
                yield operation


def _join(found: list[str]) -> str:
    more = len(found) - _MAX_NAMED
    return "; ".join(found[:_MAX_NAMED]) + (f"; and {more} more" if more > 0 else "")
