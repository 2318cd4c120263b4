"""Registry of `DataLoader` classes by `DataConfig` class."""

from collections.abc import Callable
from typing import Final, TypeVar

from quintain import errors, registry
from quintain.nlp.data import data_loader
from quintain.settings import config_definitions as cfg

L = TypeVar("L", bound=Callable[..., data_loader.DataLoader])

LOADERS: Final = registry.Registry[type[cfg.DataConfig], Callable[..., data_loader.DataLoader]](
    "data config"
)


def register_data_loader_cls(data_config_cls: type[cfg.DataConfig]) -> Callable[[L], L]:
    """Returns a class decorator that registers a `DataLoader` for `data_config_cls`.

    Example:
        >>> import dataclasses
        >>> @dataclasses.dataclass
        ... class NumbersConfig(cfg.DataConfig):
        ...     count: int = 3
        >>> with LOADERS.temporarily():
        ...     @register_data_loader_cls(NumbersConfig)
        ...     class NumbersLoader(data_loader.DataLoader):
        ...         def __init__(self, params):
        ...             self._params = params
        ...         def load(self, input_context=None):
        ...             import tensorflow as tf
        ...             return tf.data.Dataset.range(self._params.count)
        ...     [int(number) for number in get_data_loader(NumbersConfig()).load()]
        [0, 1, 2]

    Raises:
        RegistryError: If the config class has a loader already.
    """
    return LOADERS.register(data_config_cls)


def get_data_loader(data_config: cfg.DataConfig) -> data_loader.DataLoader:
    """Builds the loader registered for the class of `data_config` or its nearest registered base.

    Raises:
        RegistryError: If neither the class nor any of its bases has a loader.
    """
    for base in type(data_config).__mro__:
        if base in LOADERS:
            return LOADERS.lookup(base)(data_config)
    name = type(data_config).__qualname__
    known = sorted(key.__qualname__ for key in list(LOADERS.keys()))
    raise errors.RegistryError(
        f"No data loader is registered for the config class {name!r} or its bases. Registered: "
        f"{', '.join(known) or 'none'}. Import the module whose class is decorated with "
        f"`@data_loader_factory.register_data_loader_cls({name})`."
    )
