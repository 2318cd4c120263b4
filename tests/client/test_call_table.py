import dataclasses
import pathlib

import pytest

from quintain.client import call_table
from quintain.client.call_table import call


@dataclasses.dataclass(frozen=True)
class Part:
    size: float


class Shop:
    @call("GET", "/shops/{shop}/tools/{name}", sizes="least", timeout_secs=5.0, wait_secs="wait")
    def find(
        self, name: str, sizes: list[float] = (), *, part: Part = Part(1.0), wait_secs=0.0
    ) -> Part:
        """Returns a tool."""

    @call("POST", "/tools", made="provenance", is_repeatable=True)
    def add(self, path: pathlib.Path, made: Part | None = None) -> None:
        """Adds a tool."""

    @call("PATCH", "/tools/{name}", body="changes")
    def change(self, name: str, changes: dict[str, float], session: str) -> None:
        """Changes a tool."""

    @call("POST", "/tools/clear")
    def clear(self) -> None:
        """Removes all."""

    def ask(self, call, arguments):
        return call.build(arguments, {"shop": 7, "unused": 1})


def test_arguments_stand_in_the_path_and_the_query_of_a_read():
    request = Shop().find("a/b ö", [1.0, float("inf")], wait_secs=20.0)

    assert (request.method, request.path) == ("GET", "/api/v1/shops/7/tools/a%2Fb%20%C3%B6")
    assert request.query == {"least": [1.0, "Infinity"], "size": 1.0, "wait": 20.0}
    assert (request.body, request.timeout_secs) == (None, 25.0)


def test_dataclasses_give_their_fields_to_the_query():
    assert Shop().find("a", part=Part(3.0)).query == {"least": [], "size": 3.0, "wait": 0.0}


def test_arguments_of_a_command_are_its_body():
    request = Shop().add(pathlib.Path("x"), Part(2.0))

    assert request.body == {"path": str(pathlib.Path.cwd() / "x"), "provenance": {"size": 2.0}}
    assert (request.query, request.is_repeatable, request.timeout_secs) == ({}, True, None)


def test_one_argument_may_be_the_whole_body_and_none_is_none():
    request = Shop().change("a", {"x": 1.0}, session="s")

    assert (request.body, request.query) == ({"x": 1.0}, {"session": "s"})
    assert Shop().clear().body is None


def test_a_wrong_argument_is_refused_as_by_any_function():
    with pytest.raises(TypeError, match="a required argument"):
        Shop().change(nam="a")


def test_declared_calls_are_listed_unless_they_are_overridden():
    class Other(Shop):
        def clear(self):
            pass

    assert set(call_table.list_calls(Other)) == {"add", "change", "find"}
    assert call_table.list_calls(Shop)["find"].answer is Part
