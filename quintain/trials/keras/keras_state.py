"""State of a Keras trial: all variables, wherever they are held."""

import logging
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import keras
import tensorflow as tf
from keras.src.random import seed_generator
from tensorflow.python.framework import auto_control_deps_utils

from quintain import errors
from quintain.checkpoints import checkpoint_state, task_state
from quintain.input.diagnosis import random_watch
from quintain.trials.keras import keras_steps, keras_variables

_FILE: Final = "variables"
_RANDOM: Final = "random"
_CALLBACKS: Final = "callbacks"
_TABLE_WRITES: Final = ("LookupTableInsert", "LookupTableImport", "LookupTableRemove")
_MAX_NAMED: Final = 5

logger = logging.getLogger(__name__)


class KerasState:
    """Variables of model, trial and callbacks, and random states."""

    def __init__(
        self, model: keras.Model, trial: Any, callbacks: Iterable[keras.callbacks.Callback]
    ) -> None:
        self._model = model
        self._trial = trial
        self._callbacks = list(callbacks)
        self._values: dict[str, list[tf.Variable]] = {}
        self._step: Any = None
        self._has_warned = False

    @property
    def is_found(self) -> bool:
        """True if `find` was called."""
        return bool(self._values)

    @property
    def random(self) -> list[tf.Variable]:
        """Random states that are not the model's."""
        return self._values[_RANDOM]

    def find(self, steps: keras_steps.Steps) -> None:
        """Finds all variables, once they exist: in every process the same, in the same order.

        Raises:
            TrialError: If a training step changes what is not among them.
        """
        self._step = steps.step
        self._values = self._list_values()
        owner = f"{type(self._model).__name__}.train_step"
        _refuse_unsaved(steps.graph, [*self._list_all(), *self._list_restarted()], owner)

    def measure(self) -> int:
        """Returns the bytes of all values."""
        return keras_variables.measure(self._list_all())

    def write(self, folder: pathlib.Path) -> None:
        """Writes all values; warns once of variables that were made after they were found."""
        saved = set(map(id, self._list_all()))
        found = [variable for part in self._list_values().values() for variable in part]
        late = [variable.name for variable in found if id(variable) not in saved]
        if late and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "The checkpoint lacks %d variables that were made after training began, such as "
                "%s. Make them in build_model(), or in __init__ of what holds them.",
                len(late),
                late[0],
            )
        keras_variables.write(str(folder / _FILE), self._values)

    def read(self, folder: pathlib.Path, *, is_warm_start: bool) -> None:
        """Assigns the values that `write` wrote.

        Args:
            folder: Where they are.
            is_warm_start: Whether they are another trial's: then learning rates, which are
                hyperparameters, random states and what callbacks hold are left as they are.

        Raises:
            CheckpointError: If they are not those of this model.
        """
        path = str(folder / _FILE)
        if not is_warm_start:
            keras_variables.read(path, self._values)
            return
        own = (_RANDOM, _CALLBACKS)
        taken = {name: part for name, part in self._values.items() if name not in own}
        with keras_variables.learning_rates_preserved(self._list_all()):
            keras_variables.read(path, taken)

    def _list_all(self) -> list[tf.Variable]:
        return [variable for part in self._values.values() for variable in part]

    def _list_restarted(self) -> list[Any]:
        """Returns the variables of metrics, which begin anew with each step."""
        return [variable for metric in self._model.metrics for variable in metric.variables]

    def _list_values(self) -> dict[str, list[tf.Variable]]:
        model = self._model
        known = [
            *model.variables,
            *(generator.state for generator in checkpoint_state.seed_generators(model)),
            *model.optimizer.variables,
            *self._list_restarted(),
        ]
        held, drawing = task_state.find({"model": model, "trial": self._trial}, known)
        known += [*held.values(), *drawing.values()]
        called, also_drawing = task_state.find({"": self._callbacks}, known)
        others = [self._step, seed_generator.global_seed_generator().state]
        return {
            "model": keras_variables.unwrap(model.variables),
            "optimizer": keras_variables.unwrap(model.optimizer.variables),
            "attributes": keras_variables.unwrap(held.values()),
            _CALLBACKS: keras_variables.unwrap(called.values()),
            _RANDOM: keras_variables.unwrap([*others, *drawing.values(), *also_drawing.values()]),
        }


def _refuse_unsaved(graph: Any, saved: Iterable[Any], owner: str) -> None:
    """Checks that a checkpoint has what a training step changes; warns of what it only reads.

    The variables that are saved, or begin anew with each step, are in `saved`.
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
