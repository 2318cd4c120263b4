"""gin: binds arguments of a few functions and classes from files. The only file that imports gin.

A configurable is the plain function or class until a gin file is parsed, here or by the program
itself; only from then on do its calls go through gin. So a program without gin files does not see
gin in its tracebacks.
"""

import contextlib
import dataclasses
import functools
import importlib.util  # noqa: F401 - gin uses it without importing it
import inspect
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TextIO, TypeVar, overload

import gin

from quintain import errors
from quintain.files import file_io

T = TypeVar("T", bound=Callable[..., Any])

_UNKNOWN_CONFIGURABLE: Final = re.compile(r"No configurable matching (?:reference )?'@?([^'(]+)")
_UNKNOWN_PARAMETER: Final = re.compile(r"'([^']+)' doesn't have a parameter named '([^']+)'")
_IN_FILE: Final = re.compile(r'In file "([^"]+)", line (\d+)')
_PASSED_ON: Final = ("name", "dtype", "trainable")
"""Keywords that layers hand on to their base class."""

_IN_PARAMS: Final = re.compile(r"In bindings string line (\d+)")


@dataclasses.dataclass
class _Configurable:
    """A function whose arguments gin may bind."""

    name: str
    module: str
    function: Callable[..., Any]
    owner: type | None = None
    """The class whose constructor it is."""

    registered: Callable[..., Any] | None = None
    """The function as gin calls it; None once another of its name has taken its place."""

    def call(self, *args: Any, **kwargs: Any) -> Any:
        if self.registered is not None and is_bound():
            return self.registered(*args, **kwargs)
        return self.function(*args, **kwargs)

    def register(self) -> None:
        """Makes gin know the function, in place of one of the same name."""
        with gin.config.interactive_mode(), gin.unlock_config():
            self.registered = gin.external_configurable(
                self._find_target(), name=self.name, module=self.module
            )

    def _find_target(self) -> Callable[..., Any]:
        """Returns what gin calls: for a class, what constructs as well as what builds.

        `Class(...)` calls the constructor with an instance; a reference `@Class` in a gin file is
        called without one, and has to make it.
        """
        owner = self.owner
        if owner is None:
            return self.function

        @functools.wraps(self.function)
        def construct_or_build(*args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], owner):
                return self.function(*args, **kwargs)
            return owner(*args, **kwargs)

        # For gin, which does not look behind wrappers.
        setattr(construct_or_build, "__signature__", inspect.signature(self.function))  # noqa: B010
        return construct_or_build


_CONFIGURABLES: Final[dict[tuple[str, str], _Configurable]] = {}
"""By module and name. A module that is loaded again replaces its own."""


@overload
def configurable(target: T) -> T: ...
@overload
def configurable(*, name: str | None = None, module: str | None = None) -> Callable[[T], T]: ...
def configurable(
    target: T | None = None, *, name: str | None = None, module: str | None = None
) -> T | Callable[[T], T]:
    """Lets gin bind the arguments of a function, or of a class's constructor, by its name.

    A class stays the class that it is; so its subclasses get the bound arguments, too, where they
    call its constructor without giving them.

    Args:
        target: The function or class, if used without parentheses.
        name: Its name in gin files; its own by default.
        module: What tells it from others of that name, `module.name`; its own by default.

    Raises:
        TypeError: If a class has no constructor whose arguments could be bound.

    Example:
        >>> @configurable
        ... def build_wheel(width: int = 8) -> int:
        ...     return width
        >>> parse_files_and_params([], ["build_wheel.width = 16"])
        >>> build_wheel()
        16
        >>> clear()
        >>> build_wheel()
        8
    """
    if target is None:
        return functools.partial(_decorate, name=name, module=module)
    return _decorate(target, name=name, module=module)


def parse_files_and_params(files: Sequence[str], params: Sequence[str]) -> None:
    """Reads gin files, then single bindings such as `Trainer.train = False`.

    Bindings are locked after that. If anything is wrong, there are no bindings at all.

    Raises:
        ConfigError: If a file is missing or malformed, or naming the nearest configurable or
            parameter for one that there is not; or if bindings were read before and not cleared.
    """
    if gin.config_is_locked():
        raise errors.ConfigError(
            "gin: bindings were read before and are locked; call `gin_io.clear()` to replace them."
        )
    for path in files:
        try:
            is_file = file_io.isfile(path)
        except OSError as error:
            raise errors.ConfigError(
                f"--gin-file: {errors.show(path)}: {error.strerror}."
            ) from error
        if not is_file:
            raise errors.ConfigError(
                f"--gin-file: {errors.show(path)} can't be read, expected the name of a file."
            )
    try:
        gin.parse_config_files_and_bindings(list(files), list(params))
        _check_parameters()
    except errors.ConfigError:
        clear()
        raise
    except RecursionError as error:
        clear()
        raise errors.ConfigError(
            f"gin: {', '.join([*files, *map(errors.show, params)])}: the brackets are nested too "
            "deeply."
        ) from error
    except (ImportError, OSError, SyntaxError, tokenize.TokenError, TypeError, ValueError) as error:
        clear()
        raise errors.ConfigError(_explain(error, params)) from error


def is_bound() -> bool:
    """Returns whether gin files or bindings were read."""
    return bool(gin.config._CONFIG)


def is_locked() -> bool:
    """Returns whether the program, or this package, has read all that there is to be read."""
    return bool(gin.config_is_locked())


def bindings() -> str:
    """Returns the bindings that were read, as a gin file without comments; empty if there are none.

    Read again, they give the same text, whatever files and flags they came from.
    """
    if not is_bound():
        return ""
    lines = str(gin.config_str()).splitlines()
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("#"))


def operative_config() -> str:
    """Returns the bindings of all configurables that were called, as a gin file."""
    return str(gin.operative_config_str())


def clear() -> None:
    """Forgets all bindings; configurables are plain functions again."""
    gin.clear_config()


def known_names() -> list[str]:
    """Returns the names of all configurables that are loaded."""
    return [entry.name for entry in _CONFIGURABLES.values()]


def _decorate(target: T, *, name: str | None, module: str | None) -> T:
    is_class = isinstance(target, type)
    # Not `target.__init__`, which mypy takes for unsafe on an instance.
    function = inspect.getattr_static(target, "__init__") if is_class else target
    if function is object.__init__:
        raise TypeError(f"{target.__name__} has no `__init__` whose arguments gin could bind.")
    entry = _Configurable(
        name or target.__name__,
        module or target.__module__,
        function,
        owner=target if isinstance(target, type) else None,
    )
    key = (entry.module, entry.name)
    if key in _CONFIGURABLES:
        _CONFIGURABLES[key].registered = None
    _CONFIGURABLES[key] = entry
    entry.register()

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return entry.call(*args, **kwargs)

    # For gin, which does not look behind wrappers, where a subclass inherits this constructor.
    setattr(call, "__signature__", inspect.signature(function))  # noqa: B010 - mypy, as below
    if is_class:
        setattr(target, "__init__", call)  # noqa: B010 - mypy refuses to have it assigned
        return target
    return call  # type: ignore[return-value]  # the same signature, see `wraps`


def _check_parameters() -> None:
    """Checks the names of parameters that gin lets pass, where a function takes any keywords."""
    by_selector = {f"{entry.module}.{entry.name}": entry for entry in _CONFIGURABLES.values()}
    for (_, selector), bindings in gin.config._CONFIG.items():
        entry = by_selector.get(selector)
        if entry is None:
            continue
        names = [name for name in inspect.signature(entry.function).parameters if name != "self"]
        for name in bindings:
            if name not in names and name not in _PASSED_ON:
                raise errors.ConfigError(
                    f"gin: {errors.show(entry.name)} doesn't have a parameter named "
                    f"{errors.show(name)}.{errors.suggest(name, names)}"
                )


def _explain(error: Exception, params: Sequence[str]) -> str:
    """Returns gin's message with the place in front and the nearest name behind."""
    text = str(error).strip()
    message = text.partition("\n")[0].rstrip().removesuffix(" in config string:")
    lines = "\n".join(params).split("\n")
    place = "gin"
    if isinstance(error, IndentationError | tokenize.TokenError):
        error = _locate(error)
    if isinstance(error, SyntaxError):
        message = error.msg
        binding = errors.show(lines[min(error.lineno or 1, len(lines)) - 1])
        place = f"{error.filename}:{error.lineno}" if error.filename else f"--gin-params: {binding}"
    elif found := _IN_FILE.search(text):
        place = f"{found[1]}:{found[2]}"
    elif found := _IN_PARAMS.search(text):
        place = f"--gin-params: {errors.show(lines[int(found[1]) - 1])}"
    return f"{place}: {message}{_suggest(text)}"


@contextlib.contextmanager
def _open(path: str) -> Iterator[TextIO]:
    """Opens a gin file, whose errors of Python's tokenizer say then which file it is."""
    with file_io.open(path) as file:
        try:
            yield file
        except (IndentationError, tokenize.TokenError) as error:
            raise _locate(error, path) from error


def _locate(error: IndentationError | tokenize.TokenError, path: str | None = None) -> SyntaxError:
    """Returns what Python's tokenizer found as an error of gin's parser, with its place."""
    line = error.lineno if isinstance(error, IndentationError) else error.args[1][0]
    return SyntaxError(error.args[0], (path, line, None, None))


def _suggest(message: str) -> str:
    if match := _UNKNOWN_CONFIGURABLE.search(message):
        wanted = match[1].rpartition("/")[2]
        hint = errors.suggest(wanted, known_names())
        return hint or f" Known: {', '.join(sorted(known_names())) or 'none'}."
    if match := _UNKNOWN_PARAMETER.search(message):
        names = [
            parameter
            for entry in _CONFIGURABLES.values()
            if entry.name == match[1].rpartition(".")[2]
            for parameter in inspect.signature(entry.function).parameters
            if parameter != "self"
        ]
        return errors.suggest(match[2], names) or f" It has: {', '.join(names) or 'none'}."
    return ""


# Before gin's own, for files that are included, too.
gin.config._FILE_READERS.insert(0, (_open, file_io.isfile))
