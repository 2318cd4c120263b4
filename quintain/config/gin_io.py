"""gin: binds arguments of a few functions and classes from files. The only file that imports gin.

A configurable is the plain function or class until a gin file is parsed; only from then on do its
calls go through gin. So a program without gin files neither pays for gin nor sees it in its
tracebacks.
"""

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import gin

from quintain import errors

T = TypeVar("T", bound=Callable[..., Any])

_UNKNOWN_CONFIGURABLE: Final = re.compile(r"No configurable matching '([^']+)'")
_UNKNOWN_PARAMETER: Final = re.compile(r"doesn't have a parameter named '([^']+)'")


@dataclasses.dataclass
class _Configurable:
    """A function whose arguments gin may bind."""

    name: str
    module: str
    function: Callable[..., Any]
    bound: Callable[..., Any] | None = None
    """The function as gin calls it, once a file was parsed."""

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return (self.bound or self.function)(*args, **kwargs)

    def parameters(self) -> list[str]:
        return list(inspect.signature(self.function).parameters)


_CONFIGURABLES: Final[list[_Configurable]] = []


def configurable(target: T) -> T:
    """Lets gin bind the arguments of a function, or of a class's constructor, by its name.

    Example:
        >>> @configurable
        ... def build_encoder(width: int = 8) -> int:
        ...     return width
        >>> parse_files_and_params([], ["build_encoder.width = 16"])
        >>> build_encoder()
        16
        >>> clear()
        >>> build_encoder()
        8
    """
    is_class = isinstance(target, type)
    function = vars(target)["__init__"] if is_class else target
    entry = _Configurable(target.__name__, target.__module__, function)
    _CONFIGURABLES.append(entry)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return entry.call(*args, **kwargs)

    if is_class:
        setattr(target, "__init__", call)  # noqa: B010 - mypy refuses to have it assigned
        return target
    return call  # type: ignore[return-value]  # the same signature, see `wraps`


def parse_files_and_params(files: Sequence[str], params: Sequence[str]) -> None:
    """Reads gin files, then single bindings such as `Trainer.train = False`.

    Raises:
        ConfigError: If a file is missing or malformed, or naming the nearest configurable or
            parameter for one that there is not.
    """
    _register()
    try:
        gin.parse_config_files_and_bindings(list(files), list(params))
    except OSError as error:
        clear()
        raise errors.ConfigError(f"--gin_file: {_first_line(error)}") from error
    except (ValueError, SyntaxError) as error:
        clear()
        raise errors.ConfigError(f"gin: {_first_line(error)}{_suggest(str(error))}") from error


def operative_config() -> str:
    """Returns the bindings of all configurables that were called, as a gin file."""
    return str(gin.operative_config_str())


def clear() -> None:
    """Forgets all bindings; configurables are plain functions again."""
    gin.clear_config()
    for entry in _CONFIGURABLES:
        entry.bound = None


def known_names() -> list[str]:
    """Returns the names of all configurables that are loaded."""
    return [entry.name for entry in _CONFIGURABLES]


_registered: Final[dict[int, Callable[..., Any]]] = {}


def _register() -> None:
    """Makes the configurables known to gin and routes their calls through it."""
    for entry in _CONFIGURABLES:
        if id(entry) not in _registered:
            _registered[id(entry)] = gin.external_configurable(
                entry.function, name=entry.name, module=entry.module
            )
        entry.bound = _registered[id(entry)]


def _suggest(message: str) -> str:
    if match := _UNKNOWN_CONFIGURABLE.search(message):
        return errors.suggest(match[1].rpartition("/")[2], known_names())
    if match := _UNKNOWN_PARAMETER.search(message):
        names = [name for entry in _CONFIGURABLES for name in entry.parameters()]
        return errors.suggest(match[1], names)
    return ""


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
