import dataclasses
import enum
import pathlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Len

from quintain import errors
from quintain.config import base_config, field_types, yaml_io


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Wide(base_config.Config):
    width: Annotated[int, Ge(1)] = 8


@dataclasses.dataclass
class Deep(base_config.Config):
    depth: int = 2


@dataclasses.dataclass
class Deeper(Deep):
    steps: int = 3


@dataclasses.dataclass(kw_only=True)
class Required(base_config.Config):
    width: int
    name: str = ""


def convert(annotation, value):
    problems: list[errors.Problem] = []
    converted = field_types.convert(annotation, value, "here", problems)
    return converted, list(map(str, problems))


CASES = [
    (dict[str, Wide], {"a": {"width": 3}}, {"a": Wide(width=3)}),
    (dict[str, Wide], {"a": Wide(width=3)}, {"a": Wide(width=3)}),
    (dict[int, float], {1: 2}, {1: 2.0}),
    (dict[str, Any], {"a": {"b": [1, {"c": None}]}}, {"a": {"b": [1, {"c": None}]}}),
    (Wide | Deep | None, {"depth": 3}, Deep(depth=3)),
    (Wide | Deep | None, None, None),
    (Wide | list[Wide], [{"width": 3}], [Wide(width=3)]),
    (Wide | int | float, 3, 3),
    (tuple[Wide, Deep], [{"width": 3}, {"depth": 4}], (Wide(width=3), Deep(depth=4))),
    (list[list[Wide]], [[{"width": 3}], []], [[Wide(width=3)], []]),
    (list[Wide | None], [None, {"width": 3}], [None, Wide(width=3)]),
    (Annotated[list[Wide], Len(1)], [{}], [Wide()]),
    (list[Colour], ["red", Colour.BLUE], [Colour.RED, Colour.BLUE]),
    (dict[str, Colour] | None, {"a": "blue"}, {"a": Colour.BLUE}),
    (Level, 2, Level.HIGH),
    (list[tuple[int, int]], [[1, 2]], [(1, 2)]),
    (tuple[int, str], [1, "b"], (1, "b")),
    (list[int], (1, 2), [1, 2]),
    (Sequence[int], [1, 2], (1, 2)),
    (Sequence[Wide] | None, [{"width": 3}], (Wide(width=3),)),
    (int | list[int], [1, 2], [1, 2]),
    (str | float, 1, 1.0),
    (Literal[1, "a", None], None, None),
    (Required, {"width": 3}, Required(width=3)),
    (Required | None, {"width": 3, "name": "x"}, Required(width=3, name="x")),
    (Any, [{"a": 1}, [2]], [base_config.Config({"a": 1}), [2]]),
    (pathlib.Path, "a/b", pathlib.Path("a/b")),
]


@pytest.mark.parametrize(("annotation", "value", "expected"), CASES)
def test_what_fits_becomes_what_is_annotated(annotation, value, expected):
    converted, problems = convert(annotation, value)

    assert problems == []
    assert converted == expected
    assert isinstance(converted, type(expected))


@pytest.mark.parametrize(("annotation", "value", "expected"), CASES)
def test_what_is_written_to_a_file_reads_back_equal(annotation, value, expected):
    @dataclasses.dataclass(kw_only=True)
    class Holder(base_config.Config):
        value: annotation

    holder = Holder(value=value)

    again = Holder(yaml_io.load_text(yaml_io.dump(holder.as_dict())))

    assert again == holder
    assert again.value == expected


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (dict[str, Wide], {"a": {"width": 0}}, "here.a.width: got 0, expected an integer >= 1."),
        (dict[str, Wide], [], "here: got [], expected a mapping of strings to mappings for Wide."),
        (dict[str, Wide], {1: {}}, "here.1: got 1, expected a string."),
        (dict[str, int], {"a": "x"}, "here: got {'a': 'x'}, expected a mapping of strings to int"),
        (dict[str, Any], {"a": [{1}]}, "here.a[0]: got {1} of type set, expected plain data"),
        (Wide | Deep, {"dept": 1}, "here.dept: unknown; "),
        (Wide | Deep, {"width": "x"}, "here.width: got 'x'"),
        (Wide | Deep | None, 3, "here: got 3, expected a mapping for Wide or a mapping for Deep"),
        (Wide, Deep(), "here: got a Deep, expected a mapping for Wide."),
        (int, Deep(), "here: got a Deep, expected an integer."),
        (Wide | int, "x", "here: got 'x', expected a mapping for Wide or an integer."),
        (tuple[Wide, Deep], [{}], "expected a list of 2: a mapping for Wide, a mapping for Deep."),
        (tuple[int, str], [1, 2], "here: got [1, 2], expected a list of 2: an integer, a string."),
        (Annotated[list[Wide], Len(1)], [], "here: got [], expected a list of mappings for Wide"),
        (list[Colour], ["redd"], "here: got ['redd'], expected a list of any of 'red', 'blue'."),
        (Colour | None, "rod", "expected one of 'red', 'blue' or None. Did you mean 'red'?"),
        (Literal[1, 2], True, "here: got True, expected one of 1, 2."),
        (bool, 1, "here: got 1, expected true or false."),
        (float, True, "here: got True, expected a number."),
        (int, "3", "here: got '3', expected an integer."),
        (float, "nan", "here: got 'nan', expected a number."),
        (list[int], "12", "here: got '12', expected a list of integers."),
        (Required, {}, "here.width: missing; expected an integer."),
        (Any, [[object]], "here[0][0]: got <class 'object'> of type type, expected plain data"),
    ],
)
def test_what_does_not_fit_is_reported_with_its_path(annotation, value, message):
    _, problems = convert(annotation, value)

    assert len(problems) == 1
    assert message in problems[0]


def test_a_config_of_a_derived_class_keeps_its_class():
    assert convert(Wide | Deep, Deeper(steps=4)) == (Deeper(steps=4), [])


def test_containers_are_copied():
    given = {"a": {"b": [1]}}

    converted, _ = convert(dict[str, Any], given)
    given["a"]["b"].append(2)

    assert converted == {"a": {"b": [1]}}
