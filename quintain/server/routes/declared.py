"""Routes of declared calls, derived from `client.call_table`."""

import functools
import inspect
import pathlib
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import fastapi
import pydantic

from quintain.client import call_table
from quintain.client.call_table import Place
from quintain.server import page_rights
from quintain.server.http import responses

Answers = Mapping[str, Callable[..., Any]]
"""Functions that answer calls, by the names of the calls and with their arguments."""

Note = Callable[[fastapi.Request, call_table.Call, Mapping[str, Any], Any], None]
"""Takes a request, its call, the arguments by name and the answer."""


def find_answers(source: object, kind: type) -> dict[str, Callable[..., Any]]:
    """Returns the methods of an object that have the names of the calls of a class."""
    return {name: functools.partial(_ask, source, name) for name in call_table.list_calls(kind)}


def _ask(source: object, name: str, /, *args: Any, **given: Any) -> Any:
    return getattr(source, name)(*args, **given)


def build_router(
    calls: Mapping[str, call_table.Call],
    answers: Answers,
    commands: Answers | None = None,
    *,
    note: Note | None = None,
    tags: Sequence[str] = (),
) -> fastapi.APIRouter:
    """Returns a route for each call.

    Args:
        calls: The calls by name.
        answers: Answer calls: by position what their paths name, also what a client adds itself,
            and the others by name.
        commands: Answer others; each gets `user_commands.Commands` first, with the rights of the
            request. All else is answered by their methods of the same name.
        note: Notes calls that may have changed something.
        tags: Groups of the routes in the schema; the first part of each path if empty.
    """
    router = responses.build_router()
    # Fixed parts go before arguments, which would hide them.
    for call in sorted(calls.values(), key=_find_order):
        is_command = call.name not in answers
        command = (commands or {}).get(call.name) or functools.partial(_command, call.name)
        answer = command if is_command else answers[call.name]
        router.add_api_route(
            call.path,
            _build_endpoint(
                call, answer, note if call.method != "GET" else None, is_command=is_command
            ),
            methods=[call.method],
            status_code=call.status,
            response_model=None if call.status == 204 else call.answer,
            tags=list(tags) or [call.path.split("/")[1]],
        )
    return router


def _command(name: str, commands: object, /, *args: Any, **given: Any) -> Any:
    return _ask(commands, name, *args, **given)


def _find_order(call: call_table.Call) -> list[bool]:
    return [part.startswith("{") for part in call.path.split("/")]


def _build_endpoint(
    call: call_table.Call, answer: Callable[..., Any], note: Note | None, *, is_command: bool
) -> Callable[..., fastapi.Response]:
    body = _build_body(call)

    def endpoint(**given: Any) -> fastapi.Response:
        request = given.pop("request", None)
        first = [given.pop("commands")] if is_command else []
        if body is not None:
            content = given.pop("content")
            fields = (each for each in call.parameters if each.place is Place.FIELD)
            given |= {each.name: getattr(content, each.sent_name) for each in fields}
        arguments = dict(given)
        in_path = [given.pop(name) for name in call.path_names]
        found = answer(*first, *in_path, **given)
        if note is not None:
            note(request, call, arguments, found)
        if found is None and (call.status == 204 or call.answer is not type(None)):
            return fastapi.Response(status_code=204)
        return responses.to_response({} if found is None else found, call.status)

    parameters = list(_list_parameters(call))
    if note is not None:
        parameters.append(_parameter("request", fastapi.Request))
    if body is not None:
        parameters.append(_parameter("content", body))
    if is_command:
        parameters.append(_parameter("commands", page_rights.Commands))
    endpoint.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    endpoint.__name__ = call.name
    endpoint.__doc__ = inspect.cleandoc(call.function.__doc__ or "").partition("\n\nArgs:")[0]
    return endpoint


def _build_body(call: call_table.Call) -> type[pydantic.BaseModel] | None:
    fields: dict[str, Any] = {
        each.sent_name: (
            _to_sent(each.kind),
            ... if each.default is inspect.Parameter.empty else each.default,
        )
        for each in call.parameters
        if each.place is Place.FIELD
    }
    title = call.name.title().replace("_", "")
    return (
        pydantic.create_model(title, __config__=responses.STRICT_FIELDS, **fields)
        if fields
        else None
    )


def _list_parameters(call: call_table.Call) -> Iterator[inspect.Parameter]:
    """Yields the parameters of an endpoint that are not fields of its body."""
    for name in call.path_names:
        if all(name != each.name for each in call.parameters):
            yield _parameter(name, int if name == "trial_id" else str)
    for each in call.parameters:
        if each.place is Place.PATH:
            yield _parameter(each.name, each.kind)
        elif each.place is Place.BODY:
            yield _parameter(each.name, Annotated[dict[str, Any], fastapi.Body()])
        elif each.place is Place.QUERY:
            kind = list[typing.get_args(each.kind)] if _is_list(each.kind) else each.kind  # type: ignore[misc]
            default = list(each.default) if _is_list(each.kind) else each.default
            yield _parameter(
                each.name, Annotated[kind, fastapi.Query(alias=each.sent_name)], default
            )


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) is Sequence


def _to_sent(kind: Any) -> Any:
    """Returns the type in JSON of a field."""
    if _is_list(kind):
        return Annotated[list[typing.get_args(kind)], pydantic.FailFast()]  # type: ignore[misc]
    if typing.get_origin(kind) is Mapping:
        return dict[typing.get_args(kind)]  # type: ignore[misc]
    return str | None if kind == pathlib.Path | None else kind
