"""Keeps AutoGraph to what users write, since the steps of this package do without it.

AutoGraph writes every function anew that a traced step calls, which takes three times as long as
tracing it. So a step runs as it is written, and conversion begins at the border to code that is not
this package's: at the methods of tasks and metrics that somebody's class overrides.
What Keras calls, such as the `call` of a layer, is never converted, here as anywhere.
"""

import contextlib
import inspect
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import keras
import tensorflow as tf

_OWN: Final = (
    "quintain.core.base_task",
    "quintain.core.base_trainer",
    "quintain.core.loop.",
    "quintain.core.task_serving",
    "quintain.nlp.",
    "quintain.optimization.",
    "quintain.orbit.",
)
"""Modules whose steps call no code of the user's but tasks, metrics, and what Keras calls."""

_FOUNDATIONS: Final = (
    "abc.",
    "builtins.",
    "dataclasses.",  # It adds `__replace__` from Python 3.13 on.
    "keras.",
    "tensorflow.",
    "typing.",
)
_KNOWN: Final = (*_FOUNDATIONS, *_OWN)


def without_autograph(
    step_fn: Callable[..., Any],
    task: object,
    model: object,
    metrics: Any,
    callers: Iterable[object] = (),
) -> Callable[..., Any]:
    """Returns a step of which AutoGraph converts only what users write.

    Where that can't be told apart, it returns the step itself, which is converted as a whole.

    Args:
        step_fn: The step. It needs no conversion itself. If replicas run it, it calls them.
        task: Whose methods it calls; of anybody's class.
        model: What it calls. Anything but a Keras model is converted with the rest.
        metrics: Nested structure of what it updates; of anybody's classes.
        callers: Other objects whose methods it calls. If one is of a user's class, all is
            converted.
    """
    hooks = [(task, _name_methods(task))]
    hooks += [(one, _name_methods(one) | {"update_state"}) for one in tf.nest.flatten(metrics)]
    is_known = all(map(is_own, callers)) and _is_called_by_keras(model)
    if not is_known or not all(_can_replace(one, names) for one, names in hooks):
        return step_fn
    context = tf.__internal__.autograph.control_status_ctx()  # Whether users have switched it off.

    def run_step(*args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for one, names in hooks:
                stack.enter_context(_converting(one, names, context))
            return step_fn(*args, **kwargs)

    unconverted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(run_step)
    return unconverted


def is_own(one: object) -> bool:
    """Returns whether an object's classes are of this package, and nothing of them was replaced."""
    classes = [cls for cls in type(one).__mro__ if not _is_of(cls, _FOUNDATIONS)]
    functions = [each for cls in classes for each in vars(cls).values() if inspect.isfunction(each)]
    is_untouched = not any(callable(getattr(type(one), name, None)) for name in vars(one))
    return is_untouched and all(_is_of(part, _KNOWN) for part in [*classes, *functions])


def _is_of(part: Any, modules: tuple[str, ...]) -> bool:
    return f"{getattr(part, '__module__', None)}.".startswith(modules)


def _is_called_by_keras(model: object) -> bool:
    return isinstance(model, keras.Layer) and _is_of(type(model).__call__, _KNOWN)


def _name_methods(one: object) -> set[str]:
    """Returns the names of methods of this package, which it may call of an object."""
    own = [cls for cls in type(one).__mro__ if _is_of(cls, _OWN)]
    names = {name for cls in own for name, value in vars(cls).items() if _is_method(value)}
    return {name for name in names if not name.startswith("__")}


def _is_method(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)


def _can_replace(one: object, names: Iterable[str]) -> bool:
    """Returns whether attributes of an object come before those of its class."""
    found = [inspect.getattr_static(type(one), name, None) for name in names]
    return hasattr(one, "__dict__") and not any(map(inspect.isdatadescriptor, found))


class _Border:
    """Stand-in for methods of an object that others wrote."""

    def __init__(self, one: object, names: Iterable[str], context: Any) -> None:
        others = [name for name in names if not _is_known(one, name)]
        self.num_steps = 0
        self._attributes = vars(one)
        self._converted = {name: _convert(getattr(one, name), context) for name in others}
        self._original = {name: vars(one)[name] for name in others if name in vars(one)}
        self._attributes.update(self._converted)

    def remove(self) -> None:
        for name, method in self._converted.items():
            if self._attributes.get(name) is method:  # Else a step has put another one there.
                del self._attributes[name]
                if name in self._original:
                    self._attributes[name] = self._original[name]


_borders: Final[dict[int, _Border]] = {}
_lock: Final = threading.Lock()


@contextlib.contextmanager
def _converting(one: object, names: Iterable[str], context: Any) -> Iterator[None]:
    """Has others' methods of an object converted. Several threads may enter it."""
    with _lock:
        if id(one) not in _borders:
            _borders[id(one)] = _Border(one, names, context)
        border = _borders[id(one)]
        border.num_steps += 1
    try:
        yield
    finally:
        with _lock:
            border.num_steps -= 1
            if not border.num_steps:
                _borders.pop(id(one)).remove()


def _is_known(one: object, name: str) -> bool:
    """Returns whether a method is this package's or that of what it stands on."""
    found = inspect.getattr_static(one, name)
    return _is_of(getattr(found, "__func__", found), _KNOWN)


def _convert(method: Callable[..., Any], context: Any) -> Callable[..., Any]:
    """Returns what calls a method converted; a bound method if it is one."""
    function = method.__func__ if inspect.ismethod(method) else method
    converted: Callable[..., Any] = tf.__internal__.autograph.tf_convert(function, context)
    return types.MethodType(converted, method.__self__) if inspect.ismethod(method) else converted
