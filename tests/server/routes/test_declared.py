"""Routes follow from the declarations of calls."""

import dataclasses
import inspect
import json
from collections.abc import Sequence

import fastapi
import pydantic
import pytest

from quintain.client import call_table
from quintain.client.call_table import call
from quintain.server.http import responses
from quintain.server.routes import declared


@dataclasses.dataclass(frozen=True)
class Tool:
    name: str


class Shop:
    @call("GET", "/shops/{shop_id}/tools", sizes="size")
    def list_tools(self, shop_id: int, sizes: Sequence[int] = ()) -> list[Tool]:
        """Returns tools.

        Args:
            shop_id: The shop.
            sizes: Their sizes.
        """

    @call("GET", "/shops/own/tools")
    def list_own(self) -> list[Tool]:
        """Returns own tools."""

    @call("POST", "/shops/{shop_id}/tools", status=201, made_by="maker")
    def add_tool(self, shop_id: int, name: str, made_by: str | None = None) -> Tool | None:
        """Adds a tool."""


class Commands:
    def add_tool(self, shop_id, name, made_by):
        return Tool(f"{shop_id} {name} {made_by}") if name else None


def build():
    calls = call_table.list_calls(Shop)
    answers = {
        "list_tools": lambda shop_id, sizes: [Tool(f"{shop_id}: {sizes}")],
        "list_own": list,
    }
    router = declared.build_router(calls, answers)
    paths = [route.path.removeprefix(responses.PREFIX) for route in router.routes]
    methods = [(*route.methods, path) for path, route in zip(paths, router.routes, strict=True)]
    return dict(zip(methods, router.routes, strict=True)), paths


def test_a_query_has_the_sent_names_and_an_answer_is_given_by_place_and_name():
    endpoint = build()[0]["GET", "/shops/{shop_id}/tools"].endpoint
    sizes = inspect.signature(endpoint).parameters["sizes"]

    assert sizes.annotation.__metadata__[0].alias == "size"
    assert sizes.default == []
    assert json.loads(endpoint(shop_id=5, sizes=[1, 2]).body) == [{"name": "5: [1, 2]"}]
    assert endpoint.__doc__ == "Returns tools."


def test_other_calls_are_commands_with_a_strict_body():
    route = build()[0]["POST", "/shops/{shop_id}/tools"]
    kind = inspect.signature(route.endpoint).parameters["content"].annotation

    answer = route.endpoint(shop_id=5, content=kind(name="saw"), commands=Commands())
    assert (answer.status_code, json.loads(answer.body)) == (201, {"name": "5 saw None"})
    nothing = route.endpoint(shop_id=5, content=kind(name="", maker="me"), commands=Commands())
    assert isinstance(nothing, fastapi.Response)
    assert nothing.status_code == 204
    with pytest.raises(pydantic.ValidationError, match="made_by"):
        kind(name="saw", made_by="me")


def test_fixed_paths_go_before_arguments():
    paths = build()[1]

    assert paths.index("/shops/own/tools") < paths.index("/shops/{shop_id}/tools")
