"""Named experiments: a function that returns an `ExperimentConfig`, registered under a name."""

import inspect
from collections.abc import Callable
from typing import Final, TypeVar

from quintain import registry
from quintain.core import config_definitions as cfg

ConfigFactory = Callable[[], cfg.ExperimentConfig]
F = TypeVar("F", bound=ConfigFactory)

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


def get_exp_config(exp_name: str) -> cfg.ExperimentConfig:
    """Returns a new config of a registered experiment.

    Raises:
        RegistryError: If no experiment of this name is registered. Experiments register when their
            module is imported; those of this package come with `import quintain.nlp.experiments`.
    """
    return EXPERIMENTS.lookup(exp_name)()


def registered_experiments() -> dict[str, str]:
    """Returns every registered name with the first line of its factory's docstring, sorted."""
    return {
        name: (inspect.getdoc(EXPERIMENTS.lookup(name)) or "").partition("\n")[0]
        for name in sorted(EXPERIMENTS.keys())
    }
