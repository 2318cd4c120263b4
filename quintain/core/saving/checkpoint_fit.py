"""Which variables a checkpoint holds, and whether they fit a model."""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors, file_io
from quintain.core.saving import checkpoint_state
from quintain.orbit import background_checkpointer, checkpoint_watch, literal_paths

MAX_SHOWN_MISMATCHES: Final = 5
OBJECT_GRAPH: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""Key of what a checkpoint tells of its objects."""

VARIABLE_SUFFIX: Final = "/.ATTRIBUTES/VARIABLE_VALUE"
"""End of the key of a variable's value."""

_STEP_KEY: Final = "global_step/.ATTRIBUTES/VARIABLE_VALUE"
_OPTIONAL_SUFFIX: Final = "/.ATTRIBUTES/py_state"

logger = logging.getLogger(__name__)


class HookedCheckpoint(tf.train.Checkpoint):
    """A checkpoint whose objects can be exchanged for others that fit what is about to be read."""

    def __init__(self, before_load_hook: Callable[[str], None], **items: Any) -> None:
        """Stores the objects.

        Args:
            before_load_hook: Called with the path of every file before it is read, to put the right
                objects in place (`set_items`).
            **items: The objects.
        """
        super().__init__(**items)
        self._before_load_hook = before_load_hook
        self._item_names = tuple(items)

    def set_items(self, items: Mapping[str, Any]) -> None:
        """Puts other objects in place of all those there are."""
        for name in self._item_names:
            delattr(self, name)
        for name, item in items.items():
            setattr(self, name, item)
        self._item_names = tuple(items)

    def prepare(self, path: str) -> None:
        """Makes the objects fit a file."""
        self._before_load_hook(path)

    @override
    def read(self, save_path: str, options: tf.train.CheckpointOptions | None = None) -> Any:
        """Makes the objects fit a file, and reads it."""
        self.prepare(save_path)
        return super().read(save_path, options)


def check_fit(checkpoint: tf.train.Checkpoint, path: str) -> None:
    """Checks that a file holds just the variables of `checkpoint`, in the same shapes.

    States that are not variables (data position, random state) may be missing on either side, and
    so may what a task holds, of which a warning tells.

    Raises:
        CheckpointError: Naming the first differences.
    """
    if isinstance(checkpoint, HookedCheckpoint):
        checkpoint.prepare(path)
    shapes = _open(path).get_variable_to_shape_map()
    found = {key: tuple(shape) for key, shape in shapes.items() if is_variable(key)}
    expected = _expected_variables(checkpoint)
    tolerated = {
        key: expected.get(key)
        for key in expected.keys() ^ found.keys()
        if key.startswith(f"{checkpoint_state.TASK_VARIABLES}/")
    }
    differences = list(
        _differences(
            {key: value for key, value in expected.items() if key not in tolerated},
            {key: shape for key, shape in found.items() if key not in tolerated},
        )
    )
    if not differences:
        _warn_of_task(checkpoint, path, sorted(map(_task_place, tolerated)), set(shapes))
        return
    raise errors.CheckpointError(
        f"The checkpoint {path!r} does not fit this model:\n{list_some(differences)}"
        "\nUse the settings it was trained with, or another model_dir."
    )


def _warn_of_task(
    checkpoint: tf.train.Checkpoint, path: str, different: Sequence[str], keys: Set[str]
) -> None:
    """Warns of what the task holds and a file does not, or the other way round."""
    states = checkpoint._trackable_children().get(checkpoint_state.TASK_RANDOM_STATE)
    lacking = list(different)
    if f"{checkpoint_state.TASK_RANDOM_STATE}{_OPTIONAL_SUFFIX}" not in keys and states is not None:
        lacking += states.list_names()
    if lacking:
        logger.warning(
            "The checkpoint %r and the task differ in what the task holds, which is not restored, "
            "so that this run is not an exact continuation:\n%s\nA task makes what it holds in "
            "`__init__` or `build_model`, not in its steps.",
            path,
            list_some(lacking),
        )


def _task_place(key: str) -> str:
    """Returns the place in its task of a variable, from its key in a file."""
    place = plain_key(key).removeprefix(f"{checkpoint_state.TASK_VARIABLES}/")
    return place.replace("..", ".").replace(".S", "/")


def read_step(path: str) -> int:
    """Returns the training step of a checkpoint, without restoring it.

    Raises:
        CheckpointError: If it does not exist, or is not of a training.
    """
    try:
        return int(_open(path).get_tensor(_STEP_KEY))
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise errors.CheckpointError(
            f"The checkpoint {path!r} does not tell its step: {describe_error(error)}"
        ) from error


def restore_model(model: keras.Model, path: str, items: Mapping[str, Any] | None = None) -> None:
    """Restores only the weights of `model` from a training checkpoint.

    Args:
        model: A built model.
        path: Prefix of a checkpoint written during training.
        items: The parts to restore, by their names in the checkpoint; None for all of the model.

    Raises:
        CheckpointError: If a variable of the model has no matching value in the file.
    """
    checkpoint = tf.train.Checkpoint(**(items or model_items(model)))
    try:
        status = checkpoint.read(literal_paths.checkpoint(path))
        status.expect_partial().assert_existing_objects_matched()
    except tf.errors.OpError as error:
        raise errors.CheckpointError(
            f"The checkpoint {path!r} can't be read: {describe_error(error)}"
        ) from error
    except (ValueError, AssertionError) as error:
        lacking = list(_find_lacking(checkpoint, path))
        raise errors.CheckpointError(
            f"The checkpoint {path!r} does not fit the model: "
            + (f"\n{list_some(lacking)}" if lacking else describe_error(error))
            + "\nIt is of a model with other settings, or of another vocabulary."
        ) from error


def find_newest(path: str, field: str) -> str:
    """Returns the newest checkpoint of a directory, or a path of a checkpoint as it is.

    Args:
        path: Prefix of a checkpoint, or a directory of checkpoints.
        field: What errors call `path`.

    Raises:
        CheckpointError: If a directory holds none.
    """
    if not file_io.isdir(path):
        return path
    latest = checkpoint_watch.find_latest(path)
    if latest is None:
        raise errors.CheckpointError(f"{field}: got {path!r}, a directory without a checkpoint.")
    return latest


def restore_newest(model: keras.Model, path: str, field: str) -> None:
    """Restores the weights of `model` from a checkpoint file, or the newest one of a directory.

    Args:
        model: A built model. Where it offers `checkpoint_items`, these are restored.
        path: Prefix of a checkpoint, or a directory of checkpoints.
        field: What errors call `path`.

    Raises:
        CheckpointError: If there is no checkpoint at the path, or it does not fit the model.
    """
    path = find_newest(path, field)
    try:
        restore_model(model, path, getattr(model, "checkpoint_items", None))
    except errors.CheckpointError as error:
        raise errors.CheckpointError(f"{field}: {error}") from error


def model_items(model: keras.Model) -> dict[str, Any]:
    """Returns the parts of a model that a checkpoint holds, by name.

    These are `model.checkpoint_items`, if the model offers them, the model itself, and the
    variables that TensorFlow does not find from there: it follows attributes, and does not see
    layers in lists that were made after `__init__`. Without them a resumed model would be partly
    new, and nobody would notice.
    """
    items = {**(getattr(model, "checkpoint_items", None) or {}), "model": model}
    reachable = tf.train.Checkpoint(**items)
    tensors, *_ = reachable._saver._gather_serialized_tensors()
    found = {id(owner) for owner in tensors}
    states = {id(generator.state) for generator in checkpoint_state.seed_generators(model)}
    hidden = {
        f"variable_{index}": variable
        for index, variable in enumerate(model.variables)
        if not {id(variable), id(variable.value)} & found and id(variable) not in states
    }
    return {**items, "hidden_variables": tf.train.Checkpoint(**hidden)} if hidden else items


def _shape(owner: Any, value: Any) -> tuple[int, ...]:
    """Returns the shape of a value that an object is saved by; variables need not be read."""
    is_known = isinstance(owner, tf.Variable) and owner.shape.is_fully_defined()
    return tuple((owner if is_known else background_checkpointer.read_value(value)).shape)


def describe_error(error: Exception) -> str:
    """Returns the first line of what TensorFlow or the operating system says."""
    return (getattr(error, "message", None) or str(error)).strip().partition("\n")[0]


def is_variable(key: str) -> bool:
    """Whether a key of a file is that of a variable, not of a state or of the object graph."""
    return key != OBJECT_GRAPH and not key.endswith(_OPTIONAL_SUFFIX)


def _open(path: str) -> Any:
    return literal_paths.read(path)


@dataclasses.dataclass(frozen=True)
class _Variable:
    """A variable that a checkpoint should hold."""

    name: str
    shape: tuple[int, ...]


def _expected_variables(checkpoint: tf.train.Checkpoint) -> dict[str, _Variable]:
    """Returns the variables of `checkpoint` by their key in a file."""
    children = {
        name: child
        for name, child in checkpoint._trackable_children().items()
        if not isinstance(child, tf.train.experimental.PythonState)
    }
    names = {
        id(trackable): variable.path
        for child in children.values()
        if isinstance(child, keras.Layer)
        for variable in child.variables
        for trackable in (variable, variable.value)
    }
    variables_only = tf.train.Checkpoint(**children)
    tensors, *_ = variables_only._saver._gather_serialized_tensors()
    return {
        key: _Variable(names.get(id(owner), plain_key(key)), _shape(owner, value))
        for owner, values in tensors.items()
        for key, value in values.items()
        if is_variable(key)
    }


def list_some(differences: Sequence[str], most: int = MAX_SHOWN_MISMATCHES) -> str:
    """Returns the first differences, one a line, and how many more there are."""
    more = len(differences) - most
    return "\n".join(f"  {line}" for line in differences[:most]) + (
        f"\n  and {more} more differences" if more > 0 else ""
    )


def _find_lacking(checkpoint: tf.train.Checkpoint, path: str) -> Iterator[str]:
    """Yields the variables of `checkpoint` for which a file, which may hold more, has no value."""
    found = _open(path).get_variable_to_shape_map()
    expected = _expected_variables(checkpoint)
    shapes = {key: tuple(found[key]) for key in expected if key in found}
    return _differences(expected, shapes)


def _differences(
    expected: Mapping[str, _Variable], found: Mapping[str, tuple[int, ...]]
) -> Iterator[str]:
    for key in sorted(expected.keys() | found.keys()):
        if key not in expected:
            yield f"{plain_key(key)}: in the checkpoint {list(found[key])}, not in the model"
            continue
        name, shape = expected[key].name, list(expected[key].shape)
        if key not in found:
            yield f"{name}: in the model {shape}, not in the checkpoint"
        elif shape != list(found[key]):
            yield f"{name}: in the model {shape}, in the checkpoint {list(found[key])}"


def plain_key(key: str) -> str:
    """Returns the name of a variable from its key in a file."""
    return key.removesuffix(VARIABLE_SUFFIX)
