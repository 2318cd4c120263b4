"""Which class or function builds what a config describes."""

from collections.abc import Callable
from typing import Any, TypeVar

from quintain import errors

B = TypeVar("B", bound=Callable[..., Any])


def bind(config_cls: type[Any]) -> Callable[[B], B]:
    """Returns a decorator that makes a class or function the builder of `config_cls`.

    Raises:
        ValueError: If it is no class, the class has a builder already, or the builder can't be
            called.

    Example:
        >>> import dataclasses
        >>> from quintain.config import base_config
        >>> @dataclasses.dataclass
        ... class Square(base_config.Config):
        ...     side: float = 1.0
        >>> @bind(Square)
        ... def build_area(config):
        ...     return config.side**2
        >>> square = Square(side=3.0)
        >>> square.BUILDER(square)
        9.0
    """
    if not isinstance(config_cls, type):
        raise errors.ConfigError(
            f"`config_cls`: got {errors.show(config_cls)}, expected a class of configs."
        )
    if config_cls.__dict__.get("BUILDER") is not None:
        raise ValueError(
            f"{config_cls.__name__} is bound to {errors.show(config_cls.BUILDER)} already."
        )

    def decorate(builder: B) -> B:
        if not callable(builder):
            raise errors.ConfigError(
                f"`builder`: got {errors.show(builder)}, expected a class or a function."
            )
        is_function = not isinstance(builder, type)
        config_cls.BUILDER = staticmethod(builder) if is_function else builder
        return builder

    return decorate
