"""Variables of a graph: fit with checkpoints, local ones, and temporary values."""

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
    def initial_values(self, session: Any) -> Iterator[None]:
        """Resets local variables to their initial values inside, and puts them back."""
        with variables_preserved(session, self._variables):
            session.run(self._initializer)
            yield


@contextlib.contextmanager
def variables_preserved(session: Any, variables: Sequence[Any]) -> Iterator[None]:
    """Puts back, at the end of the block, the values that variables had before it."""
    values = session.run(list(variables))
    try:
        yield
    finally:
        initializers = [variable.initializer for variable in variables]
        inputs = [initializer.inputs[1] for initializer in initializers]
        session.run(initializers, dict(zip(inputs, values, strict=True)))


def create_warm_saver() -> Any:
    """Creates a saver of all that a graph holds, such as tables, but the step."""
    counter = v1.train.get_global_step()
    held = (*v1.global_variables(), *v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS))
    return v1.train.Saver([one for one in held if one is not counter])


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
    for name, shape in dict(map(_describe_stored, variables)).items():
        if name not in shapes:
            problems.append(f"{name} is missing")
        elif list(shapes[name]) != shape:
            problems.append(f"{name} has the shape {shapes[name]}, not {shape}")
    if problems:
        raise errors.CheckpointError(
            f"{prefix}: the checkpoint is not one of this graph: {'; '.join(problems[:5])}."
        )


def _describe_stored(variable: Any) -> tuple[str, list[int]]:
    """Returns name and shape in a file; the parts of a partitioned variable are one there."""
    whole = variable._get_save_slice_info()
    if whole is None:
        return variable.op.name, variable.shape.as_list()
    return whole.full_name, list(whole.full_shape)
