"""Trackable state of a task: its variables and random states, wherever it holds them.

A task may keep a `keras.random.SeedGenerator`, a `tf.random.Generator`, variables, metrics, layers
or a second model with its optimizer, as attributes, in lists and mappings, and in objects of its
own.
"""

import collections
import contextlib
import contextvars
import logging
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain.checkpoints import checkpoint_state
from quintain.config import base_config

_PLAIN: Final = (str, bytes, int, float, complex, type(None))
_CLOSED: Final = sys.stdlib_module_names | {"tensorflow", "keras", "numpy", "absl"}
"""Packages into whose objects is not looked, unless they are containers."""

logger = logging.getLogger(__name__)

_Found = tuple[dict[str, Any], dict[str, Any]]
_CACHE: Final[contextvars.ContextVar[dict[int, _Found] | None]] = contextvars.ContextVar(
    "held", default=None
)

ListKnown = Callable[[], Iterable[Any]]
"""Returns the variables that are saved as parts of something else."""


@contextlib.contextmanager
def lookups_cached() -> Iterator[None]:
    """Caches what tasks hold while a checkpoint gathers its values, which asks three times."""
    token = _CACHE.set({})
    try:
        yield
    finally:
        _CACHE.reset(token)


class TaskVariables(tf.__internal__.tracking.Trackable):
    """The variables that tasks hold, random states excepted, looked up at each save and restore.

    Args:
        tasks: The tasks by their names.
        list_known: Returns variables to leave out, because they are saved already.
    """

    def __init__(self, tasks: Mapping[str, Any], list_known: ListKnown) -> None:
        self._tasks = tasks
        self._list_known = list_known

    def find(self) -> _Found:
        """Returns the variables, and the random states, by their places."""
        cache = _CACHE.get()
        found = (cache or {}).get(id(self)) or find(self._tasks, self._list_known())
        if cache is not None:
            cache[id(self)] = found
        return found

    def list_held(self) -> list[Any]:
        """Returns the variables, and those of random states as well."""
        variables, states = self.find()
        return [*variables.values(), *states.values()]

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        del save_type, kwargs
        return self.find()[0]

    def list_variables(self) -> list[Any]:
        """Returns the variables."""
        return list(self._trackable_children().values())

    def _lookup_dependency(self, name: str, cached_dependencies: Any = None) -> Any:
        return (cached_dependencies or self._trackable_children()).get(name)


class TaskRandomState(checkpoint_state.ArrayState):
    """The random states among what tasks hold, by their places."""

    def __init__(self, held: TaskVariables) -> None:
        self._held = held
        super().__init__(self._read_states, self._write_states)

    @override
    def list_names(self) -> list[str]:
        return list(self._held.find()[1])

    def list_variables(self) -> list[Any]:
        """Returns the states."""
        return list(self._held.find()[1].values())

    def _parts(self) -> dict[str, Any]:
        return {
            f"{name} {index}": part
            for name, state in self._held.find()[1].items()
            for index, part in enumerate(checkpoint_state.local_parts([state]))
        }

    def _read_states(self) -> dict[str, np.ndarray]:
        return {name: part.numpy() for name, part in self._parts().items()}

    def _write_states(self, arrays: Mapping[str, np.ndarray]) -> None:
        parts = self._parts()
        if different := sorted(parts.keys() ^ arrays.keys()):
            logger.warning(
                "The random states that the task holds are not those in the checkpoint: %s. This "
                "run is not an exact continuation.",
                ", ".join(different),
            )
        for name in parts.keys() & arrays.keys():
            parts[name].assign(arrays[name])


def checkpoint_items(
    tasks: Mapping[str, Any],
    list_known: ListKnown,
    wrap: Callable[[checkpoint_state.NamedState], checkpoint_state.NamedState],
) -> dict[str, Any]:
    """Returns the parts of a checkpoint that hold what tasks hold, by name.

    Args:
        tasks: The tasks by their names; an empty name is left out of the names of variables.
        list_known: Returns variables to leave out, because they are saved already.
        wrap: Makes a state of each worker's own a part of the checkpoint.
    """
    held = TaskVariables(tasks, list_known)
    return {
        checkpoint_state.TASK_VARIABLES: held,
        checkpoint_state.TASK_RANDOM_STATE: wrap(TaskRandomState(held)),
    }


def find(tasks: Mapping[str, Any], known: Iterable[Any]) -> _Found:
    """Returns the variables and the random states that tasks hold, by their places."""
    search = _Search({id(part) for variable in known for part in _identities(variable)})
    for name, task in tasks.items():
        search.visit(task, name)
    return search.variables, search.random_states


def has_unbuilt_optimizers(holders: Iterable[Any]) -> bool:
    """Returns whether objects hold optimizers that get their variables in the first step."""
    search = _Search(set())
    for holder in holders:
        search.visit(holder, "")
    return any(not optimizer.built for optimizer in search.optimizers)


class _Search:
    """Looks for variables in Python objects, each of which is visited once."""

    def __init__(self, known: set[int]) -> None:
        self.variables: dict[str, Any] = {}
        self.random_states: dict[str, Any] = {}
        self.optimizers: list[keras.optimizers.Optimizer] = []
        self._known = known
        self._seen: dict[int, Any] = {}

    def _look_into(self, parts: Mapping[Any, Any], place: str) -> None:
        for name, part in parts.items():
            if str(name).startswith("_self_"):  # where TensorFlow keeps what it tracks
                continue
            self.visit(part, f"{place}.{name}" if place else str(name))

    def visit(self, value: Any, place: str) -> None:
        """Notes a variable, or looks into what may hold some."""
        if isinstance(value, _PLAIN) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        match value:
            case tf.Variable() | keras.Variable():
                self._add(self.variables, place, value)
            case keras.random.SeedGenerator():
                self._add(self.random_states, place, value.state)
            case tf.random.Generator():
                self._add(self.random_states, place, value._state_var)
            case keras.Layer() | keras.Metric() | keras.optimizers.Optimizer():
                self._visit_keras(value, place)
            case Mapping():
                self._look_into(value, place)
            case list() | tuple() | collections.deque():
                self._visit_all(value, place)
            case type():
                pass
            case _ if hasattr(value, "__dict__") and _is_open(value):
                self._look_into(vars(value), place)

    def _visit_keras(self, part: Any, place: str) -> None:
        """Notes what Keras tracks, and looks for what it does not, such as further optimizers."""
        if isinstance(part, keras.optimizers.Optimizer):
            self.optimizers.append(part)
        generators = checkpoint_state.seed_generators(part) if isinstance(part, keras.Layer) else []
        for index, generator in enumerate(generators):
            self.visit(generator, f"{place}.seed_generators.{index}")
        states = {id(generator.state) for generator in generators}
        self._visit_all(
            [variable for variable in part.variables if id(variable) not in states], place
        )
        self._look_into(vars(part), place)

    def _visit_all(self, values: Iterable[Any], place: str) -> None:
        for index, value in enumerate(values):
            self.visit(value, f"{place}.{index}")

    def _add(self, found: dict[str, Any], place: str, variable: Any) -> None:
        if not any(id(part) in self._known for part in _identities(variable)):
            self._known.update(id(part) for part in _identities(variable))
            while place in found:
                place += "'"
            found[place] = variable


def _is_open(value: Any) -> bool:
    """Whether to look into an object that is neither a variable nor a container."""
    package = type(value).__module__.partition(".")[0]
    is_config = isinstance(value, base_config.Config)
    return isinstance(value, tf.Module | types.SimpleNamespace) or not (
        is_config or package in _CLOSED
    )


def _identities(variable: Any) -> Iterator[Any]:
    """Yields a variable, and what Keras wraps."""
    yield variable
    if isinstance(variable, keras.Variable):
        yield variable.value
