from __future__ import annotations

import dataclasses

import pytest

from quintain import errors
from quintain.config import base_config


def test_annotations_may_name_classes_of_the_same_function():
    @dataclasses.dataclass
    class Inner(base_config.Config):
        width: int = 1

    @dataclasses.dataclass
    class Outer(base_config.Config):
        inner: Inner | None = None
        parts: list[Inner] = dataclasses.field(default_factory=list)
        outer: Outer | None = None

    outer = Outer(inner={"width": 3}, parts=[{}], outer={"inner": {"width": 4}})

    assert outer.inner == Inner(width=3)
    assert outer.parts == [Inner()]
    assert outer.outer.inner.width == 4
    with pytest.raises(errors.ConfigError, match=r"^outer\.inner\.width: got 'x'"):
        Outer(outer={"inner": {"width": "x"}})


def test_an_annotation_that_names_nothing_is_an_error():
    @dataclasses.dataclass
    class Config(base_config.Config):
        width: Nothing = 1  # noqa: F821 - the subject of the test

    with pytest.raises(errors.ConfigError, match=r"Config\.width: .*'Nothing' is not defined"):
        Config()


def test_slots_are_refused_where_the_class_is_defined():
    with pytest.raises(TypeError, match="configs can't have slots"):

        @dataclasses.dataclass(slots=True)
        class Config(base_config.Config):
            width: int = 1


def test_a_field_can_not_hide_a_method():
    with pytest.raises(TypeError, match=r"Config\.override: a field can't have the name"):

        @dataclasses.dataclass
        class Config(base_config.Config):
            override: bool = False


def test_required_fields_may_come_from_the_first_argument():
    @dataclasses.dataclass(kw_only=True)
    class Config(base_config.Config):
        width: int
        depth: int
        name: str = ""

    assert Config({"width": 3, "name": "x"}, depth=4) == Config(width=3, depth=4, name="x")
    with pytest.raises(errors.ConfigError) as caught:
        Config({"widht": 3}, depht=4)

    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["depht", "width", "depth", "widht"]


def test_a_field_that_is_no_argument_can_be_overridden():
    @dataclasses.dataclass
    class Config(base_config.Config):
        version: int = dataclasses.field(default=1, init=False)

    assert Config().as_dict() == {"version": 1}
    assert Config({"version": 2}).version == 2


def test_all_problems_of_a_constructor_are_reported_at_once():
    @dataclasses.dataclass
    class Config(base_config.Config):
        width: int = 1
        rate: float = 0.1

    with pytest.raises(KeyError) as caught:
        Config({"rate": "x", "rat": 1}, width="x", widht=3)

    assert [problem.path for problem in caught.value.problems] == ["widht", "width", "rate", "rat"]
