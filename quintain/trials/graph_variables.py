"""Variables of a graph: checks against checkpoints, local ones, and values that are restored."""

import contextlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import tensorflow as tf

from quintain import errors

v1 = tf.compat.v1

_FILE: Final = "local_variables"


class LocalVariables:
    """Saves and restores local variables of the current graph, such as the sums of `tf.metrics`."""

    def __init__(self) -> None:
        """Adds what is needed to the graph, if it has local variables."""
        self._variables = v1.local_variables()
        self._saver = v1.train.Saver(self._variables) if self._variables else None
        self._initializer = v1.variables_initializer(self._variables)

    def save(self, session: Any, folder: pathlib.Path) -> None:
        """Writes their values."""
        if self._saver is not None:
            path = str(folder / _FILE)
            self._saver.save(session, path, write_meta_graph=False, write_state=False)

    def restore(self, session: Any, folder: pathlib.Path) -> None:
        """Reads what `save` wrote; checkpoints of former versions have none."""
        if self._saver is not None and (folder / f"{_FILE}.index").exists():
            self._saver.restore(session, str(folder / _FILE))

    @contextlib.contextmanager
    def begun_anew(self, session: Any) -> Iterator[None]:
        """Gives them their initial values for this block, and back what they had."""
        with restored(session, self._variables):
            session.run(self._initializer)
            yield


@contextlib.contextmanager
def restored(session: Any, variables: Sequence[Any]) -> Iterator[None]:
    """Gives variables the values back after this block that they had before it."""
    values = session.run(list(variables))
    try:
        yield
    finally:
        initializers = [variable.initializer for variable in variables]
        inputs = [initializer.inputs[1] for initializer in initializers]
        session.run(initializers, dict(zip(inputs, values, strict=True)))


def check_fit(prefix: str, variables: Sequence[Any]) -> None:
    """Checks that a checkpoint has the variables of the graph.

    Raises:
        CheckpointError: Naming those that are missing or have other shapes.
    """
    try:
        shapes = dict(tf.train.list_variables(prefix))
    except (tf.errors.OpError, ValueError) as error:
        raise errors.CheckpointError(f"{prefix}: {error}") from error
    problems = []
    for variable in variables:
        name = variable.op.name
        if name not in shapes:
            problems.append(f"{name} is missing")
        elif list(shapes[name]) != variable.shape.as_list():
            problems.append(f"{name} has the shape {shapes[name]}, not {variable.shape}")
    if problems:
        raise errors.CheckpointError(
            f"{prefix}: the checkpoint is not one of this graph: {'; '.join(problems[:5])}."
        )
