"""Named experiments: a function that returns an `ExperimentConfig`, registered under a name."""

import contextlib
import inspect
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from quintain import errors, registry
from quintain.core import user_modules
from quintain.settings import config_definitions as cfg

ConfigFactory = Callable[[], cfg.ExperimentConfig]
F = TypeVar("F", bound=ConfigFactory)

_NAME: Final = "_experiment_name"
_ADVICE: Final = "One of your own needs the module that registers it: --import=MODULE."

EXPERIMENTS: Final = registry.Registry[str, ConfigFactory]("experiment")


def register_config_factory(name: str) -> Callable[[F], F]:
    """Returns a decorator that registers an experiment's config factory under `name`.

    The first line of the factory's docstring is what `quintain config list` shows.

    Args:
        name: Name of the experiment; parts are separated by `/`, as in `translation/local`.

    Raises:
        RegistryError: If the name is taken.

    Example:
        >>> @register_config_factory("docs/empty")
        ... def empty() -> cfg.ExperimentConfig:
        ...     return cfg.ExperimentConfig()
        >>> get_exp_config("docs/empty").trainer.train_steps
        0
    """
    return EXPERIMENTS.register(name)


def get_exp_config(exp_name: str, *, advice: str = _ADVICE) -> cfg.ExperimentConfig:
    """Returns a new config of a registered experiment, or of a class of the user's.

    Args:
        exp_name: Name of a registered experiment. `MODULE:CLASS` needs no registration: CLASS is a
            `TaskConfig`, which is trained with an `ExperimentConfig` as it is, or an
            `ExperimentConfig` itself.
        advice: What an error says on how to register it.

    Raises:
        RegistryError: If no experiment of this name is registered. Experiments register when their
            module is imported; those of this package come with
            `import quintain.registered_experiments`.
        ConfigError: If there is no such module or class.
    """
    if ":" in exp_name and exp_name not in EXPERIMENTS:
        return _build_from_class(*exp_name.split(":", 1))
    params = EXPERIMENTS.lookup(exp_name, advice=advice)()
    vars(params)[_NAME] = exp_name  # Copies keep it.
    return params


def find_name(params: cfg.ExperimentConfig) -> tuple[str, str] | None:
    """Returns a name from which a config like this can be built, and the module that it needs.

    Returns:
        The name of the registered experiment that it came from, or else one made of its classes.
        None if neither gives a config with the same fields.
    """
    name: str = vars(params).get(_NAME, "")
    if name in EXPERIMENTS:
        factory = EXPERIMENTS.lookup(name)
        if _can_become(factory(), params):
            return name, user_modules.name_module(factory.__module__)
    is_plain = type(params) is cfg.ExperimentConfig
    found = type(params.task) if is_plain else type(params)
    module = user_modules.name_module(found.__module__)
    with contextlib.suppress(errors.QuintainError, TypeError):
        if "<locals>" not in found.__qualname__ and _can_become(_build_default(found), params):
            return f"{module}:{found.__qualname__}", module
    return None


def _can_become(base: cfg.ExperimentConfig, params: cfg.ExperimentConfig) -> bool:
    """True if a config has the same fields as another one, so that a file can make it equal."""
    values = params.as_dict()
    try:
        base.override(values)
    except errors.QuintainError:
        return False
    return base.as_dict() == values and type(base.task) is type(params.task)


def _build_from_class(module: str, name: str) -> cfg.ExperimentConfig:
    user_modules.import_modules([module])
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, cfg.TaskConfig | cfg.ExperimentConfig)):
        known = [
            key
            for key, value in vars(sys.modules[module]).items()
            if isinstance(value, type) and issubclass(value, cfg.TaskConfig | cfg.ExperimentConfig)
        ]
        raise errors.ConfigError(
            f"experiment: got '{module}:{name}', but {module} has no TaskConfig or "
            f"ExperimentConfig of this name.{errors.suggest(name, known)}"
        )
    return _build_default(found)


def _build_default(kind: type[cfg.TaskConfig | cfg.ExperimentConfig]) -> cfg.ExperimentConfig:
    if issubclass(kind, cfg.ExperimentConfig):
        return kind()
    return cfg.ExperimentConfig(task=kind())


def registered_experiments() -> dict[str, str]:
    """Returns every registered name with the first line of its factory's docstring, sorted."""
    return {
        name: (inspect.getdoc(EXPERIMENTS.lookup(name)) or "").partition("\n")[0]
        for name in sorted(EXPERIMENTS.keys())
    }
