"""Calls to a master, each declared once: its method, path, arguments, answer and status.

A declaration is a function without a body in a class. Arguments that the path names go there, the
others into the query of `GET` and `DELETE`, and into the JSON body of the rest. `http.http_calls`
sends them, and the server derives its routes from them; a class that answers by itself overrides
the functions.
"""

import dataclasses
import enum
import functools
import inspect
import pathlib
import string
import typing
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from quintain.records.rows import codec

PREFIX: Final = "/api/v1"
_WAIT: Final = "wait_secs"
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_SECRET: Final = "secret"
Secret = typing.Annotated[T, _SECRET]
"""Type of an argument that may hold secrets, such as a config: no log has its value."""


class Place(enum.Enum):
    """Places of arguments in requests."""

    PATH = enum.auto()
    QUERY = enum.auto()
    QUERY_FIELDS = enum.auto()
    """The fields of a dataclass, each in the query."""

    FIELD = enum.auto()
    """A field of the body."""

    BODY = enum.auto()
    """The whole body."""


class Parameter(typing.NamedTuple):
    """One argument of a call."""

    name: str
    sent_name: str
    """Its name in requests."""

    place: Place
    kind: Any
    default: Any
    """`inspect.Parameter.empty` if there is none."""

    is_secret: bool
    """Whether it may hold secrets."""


@dataclasses.dataclass(frozen=True)
class Call:
    """One declaration."""

    function: Callable[..., Any]
    """Has the arguments, and the type of the answer."""

    method: str
    """`GET`, `POST`, `PUT`, `PATCH` or `DELETE`."""

    path: str
    """Below `PREFIX`, with the names of arguments in braces."""

    body: str = ""
    """The argument that is the whole body; the others go into the query then."""

    is_repeatable: bool | None = None
    """Whether doing it twice does no harm; None for what the method promises."""

    timeout_secs: float | None = None
    """Seconds to wait for the answer beyond `wait_secs`; None for those of the connection."""

    status: int = 200
    """HTTP status of the answer."""

    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Names of arguments in requests, where they differ."""

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.__name__

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The arguments and their defaults."""
        return inspect.signature(self.function)

    @functools.cached_property
    def answer(self) -> Any:
        """Type of the answer."""
        return typing.get_type_hints(self.function)["return"]

    @functools.cached_property
    def path_names(self) -> list[str]:
        """Names in the path, in order; a client may know some of them besides the arguments."""
        return [name for _, name, _, _ in string.Formatter().parse(self.path) if name]

    @functools.cached_property
    def parameters(self) -> list[Parameter]:
        """The arguments, in order."""
        kinds = typing.get_type_hints(self.function)
        marked = typing.get_type_hints(self.function, include_extras=True)
        declared = list(self.signature.parameters.values())[1:]
        return [
            Parameter(
                each.name,
                self.names.get(each.name, each.name),
                self._find_place(each.name, kinds.get(each.name, Any)),
                kinds.get(each.name, Any),
                each.default,
                _SECRET in getattr(marked.get(each.name), "__metadata__", ()),
            )
            for each in declared
        ]

    def _find_place(self, name: str, kind: Any) -> Place:
        if name in self.path_names:
            return Place.PATH
        if name == self.body:
            return Place.BODY
        if self.method in _WITH_BODY and not self.body:
            return Place.FIELD
        return Place.QUERY_FIELDS if dataclasses.is_dataclass(kind) else Place.QUERY

    def build(self, arguments: Mapping[str, Any], fields: Mapping[str, Any] = {}) -> "Request":
        """Returns the request for arguments by name."""
        query: dict[str, Any] = {}
        body: Any = {}
        for each in self.parameters:
            value = arguments[each.name]
            match each.place:
                case Place.QUERY:
                    query[each.sent_name] = value
                case Place.QUERY_FIELDS:
                    query |= vars(value)
                case Place.FIELD:
                    is_path = isinstance(value, pathlib.Path)
                    body[each.sent_name] = str(value.absolute()) if is_path else value
                case Place.BODY:
                    body = value
        given = {**fields, **arguments}
        quoted = {name: urllib.parse.quote(str(given[name]), safe="") for name in self.path_names}
        secs = self.timeout_secs
        return Request(
            self.method,
            PREFIX + self.path.format_map(quoted),
            codec.to_plain(query),
            codec.to_plain(body) if self.body or body else None,
            None if secs is None else secs + arguments.get(_WAIT, 0.0),
            self.is_repeatable,
        )


@dataclasses.dataclass(frozen=True)
class Request:
    """Arguments of `connection.Connection.request`."""

    method: str
    path: str
    query: Mapping[str, Any]
    body: Any
    timeout_secs: float | None
    is_repeatable: bool | None


def call(
    method: str,
    path: str,
    *,
    body: str = "",
    is_repeatable: bool | None = None,
    timeout_secs: float | None = None,
    status: int = 200,
    **names: str,
) -> Callable[[F], F]:
    """Declares a call; see `Call` for the arguments, of which `names` are by keyword.

    Example:
        >>> class Shop:
        ...     @call("GET", "/shops/{shop_id}/tools", number="least")
        ...     def list_tools(self, shop_id: int, number: int = 1) -> list[str]:
        ...         "Returns tools."
        ...
        ...     def ask(self, call, arguments):
        ...         return call.build(arguments)
        >>> request = Shop().list_tools(5, number=2)
        >>> request.path, request.query
        ('/api/v1/shops/5/tools', {'least': 2})
    """

    def declare(function: F) -> F:
        declared = Call(function, method, path, body, is_repeatable, timeout_secs, status, names)

        @functools.wraps(function)
        def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
            bound = declared.signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            return self.ask(declared, dict(list(bound.arguments.items())[1:]))

        ask.call = declared  # type: ignore[attr-defined] # For `list_calls`.
        return typing.cast(F, ask)

    return declare


def list_calls(kind: type) -> dict[str, Call]:
    """Returns the calls that a class or its bases declare and that it does not override."""
    found = {name: getattr(getattr(kind, name), "call", None) for name in dir(kind)}
    return {name: one for name, one in found.items() if isinstance(one, Call)}
