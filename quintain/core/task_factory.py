"""Registry of `Task` classes by `TaskConfig` class."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from quintain import errors, registry
from quintain.core import base_task
from quintain.settings import config_definitions as cfg

T = TypeVar("T", bound=type[base_task.Task])

TASKS: Final = registry.Registry[type[cfg.TaskConfig], type[base_task.Task]]("task config")


def register_task_cls(task_config_cls: type[cfg.TaskConfig]) -> Callable[[T], T]:
    """Returns a class decorator that registers a `Task` for `task_config_cls`.

    Raises:
        RegistryError: If the config class has a task already.
    """
    return TASKS.register(task_config_cls)


def get_task(task_config: cfg.TaskConfig, **kwargs: Any) -> base_task.Task:
    """Builds the task that `task_config` describes.

    A builder bound to the config class (`quintain.config.bind`) comes first, then the task
    registered for the class or for its nearest registered base class.

    Args:
        task_config: The task's config.
        **kwargs: Further arguments of the task, such as `logging_dir`. `name` is that of the
            config, where it has one.

    Raises:
        RegistryError: If neither the class nor any of its bases has a task.
    """
    if task_config.name:
        kwargs.setdefault("name", task_config.name)
    if task_config.BUILDER is not None:
        return task_config.BUILDER(task_config, **kwargs)
    return get_task_cls(type(task_config))(task_config, **kwargs)


def get_task_cls(task_config_cls: type[cfg.TaskConfig]) -> type[base_task.Task]:
    """Returns the task registered for a config class or for its nearest registered base.

    Raises:
        RegistryError: If neither the class nor any of its bases has a task.
    """
    for base in task_config_cls.__mro__:
        if base in TASKS:
            return TASKS.lookup(base)
    names = sorted(key.__qualname__ for key in list(TASKS.keys()))
    raise errors.RegistryError(
        f"No task is registered for the config class {task_config_cls.__qualname__!r} or its "
        f"bases. Registered: {', '.join(names) or 'none'}. Import the module whose class is "
        f"decorated with `@task_factory.register_task_cls({task_config_cls.__qualname__})`."
    )


def find_task_cls(task_config: cfg.TaskConfig) -> type[base_task.Task]:
    """Returns the class of the task that `get_task` builds; `Task` itself where only that is known.

    Raises:
        RegistryError: If the config is bound to no builder, and has no task.
    """
    builder = task_config.BUILDER or get_task_cls(type(task_config))
    if isinstance(builder, type) and issubclass(builder, base_task.Task):
        return builder
    return base_task.Task
