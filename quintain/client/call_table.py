"""Calls to a master, each declared once: its method, path, arguments and type of answer.

A declaration is a function without a body in a class. What the class is asked becomes a request:
arguments that the path names go there, the others into the query of `GET` and `DELETE`, and into
the JSON body of the rest. `http.http_calls` sends them; a class that answers by itself overrides
the functions.
"""

import dataclasses
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

    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Names of arguments in requests, where they differ."""

    @functools.cached_property
    def answer(self) -> Any:
        """Type of the answer."""
        return typing.get_type_hints(self.function)["return"]

    def build(self, arguments: Mapping[str, Any], fields: Mapping[str, Any] = {}) -> "Request":
        """Returns the request for arguments by name.

        Args:
            arguments: The arguments.
            fields: What stands in paths besides.
        """
        in_path = {name for _, name, _, _ in string.Formatter().parse(self.path) if name}
        given = {**fields, **arguments}
        path = self.path.format_map(
            {name: urllib.parse.quote(str(given[name]), safe="") for name in in_path}
        )
        rest = {name: value for name, value in arguments.items() if name not in in_path}
        secs = self.timeout_secs
        if secs is not None:
            secs += rest.get(_WAIT, 0.0)
        body = rest.pop(self.body) if self.body else None
        named = {}
        for name, value in rest.items():
            if dataclasses.is_dataclass(value) and self.method not in _WITH_BODY:
                named.update(vars(value))
            else:
                value = str(value.absolute()) if isinstance(value, pathlib.Path) else value
                named[self.names.get(name, name)] = value
        if self.method in _WITH_BODY and not self.body:
            named, body = {}, named or None
        return Request(
            self.method,
            PREFIX + path,
            codec.to_plain(named),
            codec.to_plain(body),
            secs,
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
        declared = Call(function, method, path, body, is_repeatable, timeout_secs, names)
        signature = inspect.signature(function)

        @functools.wraps(function)
        def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            return self.ask(declared, dict(list(bound.arguments.items())[1:]))

        ask.call = declared  # type: ignore[attr-defined] # For `list_calls`.
        return typing.cast(F, ask)

    return declare


def list_calls(kind: type) -> dict[str, Call]:
    """Returns the calls that a class or its bases declare and that it does not override."""
    found = {name: getattr(getattr(kind, name), "call", None) for name in dir(kind)}
    return {name: one for name, one in found.items() if isinstance(one, Call)}
