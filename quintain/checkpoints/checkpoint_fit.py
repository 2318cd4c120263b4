"""Variables of a checkpoint, compared with those of a model."""

import dataclasses
import fnmatch
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final

import keras
import tensorflow as tf
from tensorflow.python.training.saving import saveable_object, saveable_object_util
from typing_extensions import override

from quintain import errors
from quintain.checkpoints import checkpoint_state, saved_graph
from quintain.files import file_io, literal_paths
from quintain.orbit import checkpoint_watch

MAX_SHOWN_MISMATCHES: Final = 5
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
    comparison = Comparison(
        {
            name: child
            for name, child in checkpoint._trackable_children().items()
            if not isinstance(child, tf.train.experimental.PythonState)
        },
        saved_graph.SavedGraph(saved_graph.open_reader(path)),
    )
    differences, tolerated = [], []
    for difference in [*comparison.list_lacking(), *comparison.list_extra()]:
        if difference.key.startswith(f"{checkpoint_state.TASK_VARIABLES}/"):
            tolerated.append(_task_place(difference.key))
        else:
            differences.append(difference)
    retrained = comparison.list_retrained()
    if not differences and not retrained:
        _warn_of_task(checkpoint, path, sorted(tolerated), set(comparison.saved.shapes))
        return
    # The optimizer's values differ wherever the model's do, or others are trained.
    shown = [each.text for each in differences if not each.is_optimizer] + retrained
    before = "Set `trainable` as it was" if retrained else "Use the settings it was trained with"
    raise errors.CheckpointError(
        f"The checkpoint {path!r} does not fit this model:\n"
        f"{list_some(shown or [each.text for each in differences])}\n{before}, or start a new run "
        "from its weights: give the checkpoint as init_checkpoint, and another model_dir."
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
        return int(saved_graph.open_reader(path).get_tensor(_STEP_KEY))
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise errors.CheckpointError(
            f"The checkpoint {path!r} does not tell its step: {saved_graph.describe_error(error)}"
        ) from error


def restore_model(
    model: keras.Model,
    path: str,
    items: Mapping[str, Any] | None = None,
    *,
    exclude: Sequence[str] = (),
) -> None:
    """Restores only the weights of `model` from a training checkpoint.

    Args:
        model: A built model.
        path: Prefix of a checkpoint written during training.
        items: The parts to restore, by their names in the checkpoint; None for all of the model.
        exclude: Patterns of variables that stay as they are, as for `find_excluded`.

    Raises:
        CheckpointError: If a variable of the model has no matching value in the file.
        ConfigError: If a pattern matches nothing.
    """
    excluded = find_excluded(model, exclude)
    optimizer = getattr(model, "optimizer", None)  # Of a compiled model.
    if optimizer is not None:
        excluded.add(id(optimizer))
    items = leave_out(items or model_items(model), excluded)
    saved = saved_graph.SavedGraph(saved_graph.open_reader(path))
    differences = Comparison(items, saved, name_variables(model)).list_lacking()
    if differences:
        shown = list_some([each.text for each in differences])
        raise errors.CheckpointError(
            f"The checkpoint {path!r} does not fit the model:\n{shown}\n"
            "It is of a model with other settings, or of another vocabulary."
        )
    read_items(items, path)


def read_items(items: Mapping[str, Any], path: str) -> None:
    """Reads what has been compared with a checkpoint.

    Raises:
        CheckpointError: If a value can't be read.
    """
    try:
        tf.train.Checkpoint(**items).read(literal_paths.checkpoint(path)).expect_partial()
    except (tf.errors.OpError, ValueError) as error:
        raise errors.CheckpointError(
            f"The checkpoint {path!r} can't be read: {saved_graph.describe_error(error)}"
        ) from error


def leave_out(items: Mapping[str, Any], excluded: Set[int]) -> Mapping[str, Any]:
    """Returns objects without some of those below them, which are given by `id`."""
    if not excluded:
        return items
    made = {id(owner): owner for owner, _ in _gather_values(tf.train.Checkpoint(**items))}

    def copy(item: Any) -> Any:
        if id(item) not in made:  # Objects may have each other.
            made[id(item)] = part = tf.train.Checkpoint()
            for name, child in tf.train.TrackableView.children(item).items():
                if id(child) not in excluded:
                    setattr(part, name, copy(child))
        return made[id(item)]

    return {name: copy(item) for name, item in items.items() if id(item) not in excluded}


def name_variables(model: keras.Model) -> dict[int, str]:
    """Returns the paths of a model's variables, without its own name, by `id`.

    Keras begins them with the name of some models, which it counts.
    """
    return {
        id(trackable): variable.path.removeprefix(f"{model.name}/")
        for variable in model.variables
        for trackable in (variable, variable.value)
    }


def find_excluded(model: keras.Model, patterns: Sequence[str]) -> set[int]:
    """Returns the variables of a model that `task.init_exclude` leaves as they are, by `id`.

    Args:
        model: A built model.
        patterns: As in a shell, of paths as `name_variables` gives them.

    Raises:
        ConfigError: If a pattern matches nothing.
    """
    names = name_variables(model)
    excluded: set[int] = set()
    for pattern in patterns:
        found = {each for each, name in names.items() if fnmatch.fnmatchcase(name, pattern)}
        if not found:
            known = list(dict.fromkeys(names.values()))
            layers = [f"{name.rpartition('/')[0]}/*" for name in known]
            raise errors.ConfigError(
                f"task.init_exclude: {pattern!r} matches no variable of the model."
                f"{errors.suggest(pattern, [*known, *layers])} Its variables: "
                f"{errors.enumerate_some(known)}."
            )
        excluded |= found
    return excluded


def find_newest(path: str, field: str) -> str:
    """Returns the newest checkpoint of a directory, or a path of a checkpoint as it is.

    Args:
        path: Prefix of a checkpoint, or a directory of checkpoints.
        field: What errors call `path`.

    Raises:
        CheckpointError: If there is none.
    """
    if not file_io.isdir(path):
        saved_graph.open_reader(path, field)
        return path
    latest = checkpoint_watch.find_latest(path)
    if latest is None:
        raise errors.CheckpointError(f"{field}: got {path!r}, a directory without a checkpoint.")
    return latest


def restore_newest(model: keras.Model, path: str, field: str, exclude: Sequence[str] = ()) -> None:
    """Restores the weights of `model` from a checkpoint file, or the newest one of a directory.

    Args:
        model: A built model. Where it offers `checkpoint_items`, these are restored.
        path: Prefix of a checkpoint, or a directory of checkpoints.
        field: What errors call `path`.
        exclude: Patterns of variables that stay as they are, as for `find_excluded`.

    Raises:
        CheckpointError: If there is no checkpoint at the path, or it does not fit the model.
        ConfigError: If a pattern matches nothing.
    """
    path = find_newest(path, field)
    try:
        restore_model(model, path, getattr(model, "checkpoint_items", None), exclude=exclude)
    except errors.CheckpointError as error:
        raise errors.CheckpointError(
            f"{field}: {error} Layers that shall stay new are named in init_exclude."
        ) from error


def model_items(model: keras.Model) -> dict[str, Any]:
    """Returns the parts of a model that a checkpoint holds, by name.

    These are `model.checkpoint_items`, if the model offers them, the model itself, and the
    variables that TensorFlow does not find from there: it follows attributes, and does not see
    layers in lists that were made after `__init__`. Without them a resumed model would be partly
    new, and nobody would notice.

    A model may offer `find_kept_variables`, a function that returns all that checkpoints hold of
    it, by name: the rest comes from elsewhere each time that it is built.
    """
    if find_kept := getattr(model, "find_kept_variables", None):
        return {"model": tf.train.Checkpoint(**find_kept())}
    items = {**(getattr(model, "checkpoint_items", None) or {}), "model": model}
    reachable = tf.train.Checkpoint(**items)
    found = {id(owner) for owner, _ in _gather_values(reachable)}
    states = {id(generator.state) for generator in checkpoint_state.seed_generators(model)}
    hidden = {
        f"variable_{index}": variable
        for index, variable in enumerate(model.variables)
        if not {id(variable), id(variable.value)} & found and id(variable) not in states
    }
    return {**items, "hidden_variables": tf.train.Checkpoint(**hidden)} if hidden else items


def _gather_values(checkpoint: tf.train.Checkpoint) -> list[tuple[Any, Mapping[str, Any]]]:
    """Returns the objects of a checkpoint that have values, and these by their keys."""
    tensors, *_ = checkpoint._saver._gather_serialized_tensors()
    wrapper = saveable_object_util.SaveableCompatibilityConverter
    return [
        (owner.obj if isinstance(owner, wrapper) else owner, values)
        for owner, values in tensors.items()
        if values
    ]


def _shape(owner: Any, value: Any) -> tuple[int, ...]:
    """Returns the shape of a value that an object is saved by; variables need not be read."""
    is_known = isinstance(owner, tf.Variable) and owner.shape.is_fully_defined()
    return tuple((owner if is_known else read_value(value)).shape)


def read_value(value: Any) -> Any:
    """Returns the tensor, or nested tensors, that TensorFlow would write for a variable."""
    if isinstance(value, dict):
        return {key: read_value(part) for key, part in value.items()}
    if isinstance(value, saveable_object.SaveSpec):
        value = value.tensor
    value = value() if callable(value) else value
    # Under a distribution strategy it is a variable still, which would be read when it is written.
    return value.read_value() if isinstance(value, tf.Variable) else value


def is_variable(key: str) -> bool:
    """True if a key of a file is that of a variable, not of a state or of the object graph."""
    return key != saved_graph.OBJECT_GRAPH and not key.endswith(_OPTIONAL_SUFFIX)


@dataclasses.dataclass(frozen=True)
class Difference:
    """Difference of a model and a checkpoint."""

    key: str
    """Key of the value, in the file or in one that the model would write."""

    text: str
    """Name of the variable, and what is different."""

    is_optimizer: bool
    """Whether it is of an optimizer's state."""


def _is_optimizer(path: str, separator: str) -> bool:
    return saved_graph.OPTIMIZER in path.split(separator)


class Comparison:
    """Objects beside what a checkpoint holds of them.

    Objects are found by all paths that lead to them: the keys of a file say only the shortest one,
    which is another when other variables are trained.
    """

    def __init__(
        self,
        items: Mapping[str, Any],
        saved: saved_graph.SavedGraph,
        names: Mapping[int, str] | None = None,
    ) -> None:
        """Looks for the objects.

        Args:
            items: The objects, by their names in the checkpoint.
            saved: The objects of the checkpoint.
            names: What to call variables, by `id`. None takes the paths that models give them.
        """
        self.saved = saved
        self._items = items
        self._names = _name_all(items) if names is None else names
        self._matched = saved.match(items)
        self._nodes = {id(item): node for node, item in self._matched.items()}

    def list_lacking(self, excluded: Set[int] = frozenset()) -> list[Difference]:
        """Returns what the checkpoint lacks, or has in another shape.

        Args:
            excluded: Variables that are not compared, by `id`.
        """
        checkpoint = tf.train.Checkpoint(**self._items)
        lacking = []
        for owner, values in _gather_values(checkpoint):
            name = self._names.get(id(owner))
            for key, value in values.items():
                difference = self._compare(owner, key, value) if is_variable(key) else None
                if difference and id(owner) not in excluded:
                    text = f"{name or plain_key(key)}: in the model {difference}"
                    lacking.append(Difference(key, text, not name and _is_optimizer(key, "/")))
        return lacking

    def _compare(self, owner: Any, key: str, value: Any) -> str | None:
        node = self._nodes.get(id(owner))
        values = {} if node is None else self.saved.list_values(node)
        saved_key = values.get(key.rpartition("/.ATTRIBUTES/")[2])
        shape = list(_shape(owner, value))
        if saved_key is None:
            return f"{shape}, not in the checkpoint"
        found = list(self.saved.shapes[saved_key])
        is_table = not key.endswith(VARIABLE_SUFFIX)  # Restored with as much as was saved.
        return None if found == shape or is_table else f"{shape}, in the checkpoint {found}"

    def list_extra(self, root: int = saved_graph.ROOT) -> list[Difference]:
        """Returns what only the checkpoint has, below one of its objects."""
        extra = []
        for node, label in self.saved.walk(root, ""):
            if node in self._matched:
                continue
            for key in filter(is_variable, self.saved.list_values(node).values()):
                name = self.saved.get_name(node) or plain_key(key)
                text = f"{name}: in the checkpoint {list(self.saved.shapes[key])}, not in the model"
                extra.append(Difference(key, text, _is_optimizer(label, ".")))
        return extra

    def list_retrained(self) -> list[str]:
        """Returns the variables that an optimizer trains now, or did then, but not both."""
        changes = []
        for node in self._matched:
            trained = self.saved.list_children(node).get("_trainable_variables")
            if trained is None or trained not in self._matched:
                continue
            variables = tf.train.TrackableView.children(self._matched[trained]).values()
            now = [self._nodes.get(id(variable)) for variable in variables]
            then = list(self.saved.list_children(trained).values())
            changes += [
                f"{self._label(each)}: trainable now, frozen when the checkpoint was written"
                for each in now
                if each is not None and each not in then
            ]
            changes += [
                f"{self._label(each)}: frozen now, trainable when the checkpoint was written"
                for each in then
                if each in self._matched and each not in now
            ]
            if sorted(then) == sorted(each for each in now if each is not None) and then != now:
                changes.append("the trainable variables: in another order in the checkpoint")
        return list(dict.fromkeys(changes))

    def _label(self, node: int) -> str:
        return self._names.get(id(self._matched[node]), self.saved.get_name(node))


def _name_all(items: Mapping[str, Any]) -> dict[int, str]:
    """Returns the paths of the variables of all models and layers, by `id`."""
    names: dict[int, str] = {}
    for item in items.values():
        if isinstance(item, keras.Layer):
            names = name_variables(item) | names
    return names


def list_some(differences: Sequence[str], most: int = MAX_SHOWN_MISMATCHES) -> str:
    """Returns the first differences, one a line, and how many more there are."""
    more = len(differences) - most
    return "\n".join(f"  {line}" for line in differences[:most]) + (
        f"\n  and {more} more differences" if more > 0 else ""
    )


def plain_key(key: str) -> str:
    """Returns the name of a variable from its key in a file."""
    return key.removesuffix(VARIABLE_SUFFIX)
