import dataclasses
import enum
import json
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Interval, Le, Lt, MinLen

from quintain.config import base_config, json_schema, one_of


@dataclasses.dataclass
class Layer(base_config.Config):
    """One layer.

    More words.
    """

    width: Annotated[int, Ge(1)] = 8
    """Neurons."""

    rate: float | None = None
    kind: Literal["a", "b"] = "a"
    sizes: tuple[int, ...] = (1,)
    free: Any = ""


@dataclasses.dataclass
class Kind(one_of.OneOfConfig):
    type: str | None = "small"
    small: Layer = Layer()


@dataclasses.dataclass
class Net(base_config.Config):
    layer: Layer = Layer()
    optional: Layer | None = None
    layers: list[Layer] = dataclasses.field(default_factory=list)
    kind: Kind = Kind()


@dataclasses.dataclass
class DeepLayer(Layer):
    depth: int = 2


def test_the_schema_describes_types_bounds_defaults_and_docs():
    schema = json_schema.build_schema(Net(), extra_properties={"experiment": {"type": "string"}})
    layer = schema["$defs"]["Layer"]

    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["additionalProperties"] is False
    assert schema["properties"]["experiment"] == {"type": "string"}
    assert layer["description"] == "One layer."
    assert layer["properties"]["width"] == {
        "type": "integer",
        "minimum": 1,
        "default": 8,
        "description": "Neurons.",
    }
    assert layer["properties"]["rate"]["anyOf"] == [{"type": "number"}, {"type": "null"}]
    assert layer["properties"]["kind"]["enum"] == ["a", "b"]
    assert layer["properties"]["sizes"]["items"] == {"type": "integer"}
    assert schema["properties"]["layers"]["items"] == {"$ref": "#/$defs/Layer"}
    assert schema["$defs"]["Kind"]["properties"]["type"]["enum"] == ["small", None]


def test_the_class_of_the_instance_counts():
    schema = json_schema.build_schema(Net(layer=DeepLayer()))

    assert schema["properties"]["layer"] == {"$ref": "#/$defs/DeepLayer"}
    assert "depth" in schema["$defs"]["DeepLayer"]["properties"]
    assert "Neurons." in schema["$defs"]["DeepLayer"]["properties"]["width"]["description"]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Types(base_config.Config):
    flag: bool = True
    number: int = 1
    rate: float = math.inf
    text: str = "a"
    colour: Colour = Colour.RED
    choice: Literal["a", 1, None] = "a"
    either: int | str | None = None
    bounds: Annotated[int, Gt(0), Le(9)] = 1
    below: Annotated[float, Lt(1)] = 0.5
    finite: Annotated[float, Gt(0), Lt(math.inf)] = 0.5
    interval: Annotated[float, Interval(ge=0, lt=1)] | None = None
    name: Annotated[str, MinLen(1)] = "a"
    names: Annotated[list[str], MinLen(1)] = dataclasses.field(default_factory=lambda: ["a"])
    pair: tuple[int, str] = (1, "a")
    many: tuple[float, ...] = (1.0,)
    sequence: Sequence[int] = ()
    table: dict[str, float] = dataclasses.field(default_factory=dict)
    free_table: dict = dataclasses.field(default_factory=dict)
    anything: Any = None
    free: base_config.Config = base_config.Config()


@dataclasses.dataclass
class Tree(base_config.Config):
    """A tree,
    upside down.

    With leaves.
    """

    child: "Tree | None" = None


@dataclasses.dataclass
class Forest(base_config.Config):
    tree: Tree = Tree()


@dataclasses.dataclass
class Mixed(base_config.Config):
    shallow: Kind = Kind()
    deep: Kind = Kind(small=Layer(width=3))
    layers: list[Layer] = dataclasses.field(default_factory=lambda: [DeepLayer(), Layer()])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flag", {"type": "boolean", "default": True}),
        ("number", {"type": "integer", "default": 1}),
        ("rate", {"type": "number"}),
        ("text", {"type": "string", "default": "a"}),
        ("colour", {"enum": ["red", "blue"], "default": "red"}),
        ("choice", {"enum": ["a", 1, None], "default": "a"}),
        (
            "either",
            {
                "anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}],
                "default": None,
            },
        ),
        ("bounds", {"type": "integer", "exclusiveMinimum": 0, "maximum": 9, "default": 1}),
        ("finite", {"type": "number", "exclusiveMinimum": 0, "default": 0.5}),
        ("below", {"type": "number", "exclusiveMaximum": 1, "default": 0.5}),
        (
            "interval",
            {
                "anyOf": [
                    {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
                    {"type": "null"},
                ],
                "default": None,
            },
        ),
        ("name", {"type": "string", "minLength": 1, "default": "a"}),
        (
            "names",
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "default": ["a"]},
        ),
        (
            "pair",
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
                "default": [1, "a"],
            },
        ),
        ("many", {"type": "array", "items": {"type": "number"}, "default": [1.0]}),
        ("sequence", {"type": "array", "items": {"type": "integer"}, "default": []}),
        (
            "table",
            {"type": "object", "additionalProperties": {"type": "number"}, "default": {}},
        ),
        ("free_table", {"type": "object", "default": {}}),
        ("anything", {"default": None}),
        ("free", {"type": "object"}),
    ],
)
def test_every_kind_of_annotation_is_described(name, expected):
    assert json_schema.build_schema(Types)["properties"][name] == expected


def test_a_schema_is_strict_json():
    assert json.loads(json.dumps(json_schema.build_schema(Types()), allow_nan=False))


def test_a_class_stands_for_its_defaults():
    assert json_schema.build_schema(Net) == json_schema.build_schema(Net())


def test_a_class_may_contain_itself():
    top = json_schema.build_schema(Tree)
    below = json_schema.build_schema(Forest)

    child = {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}], "default": None}
    assert top["properties"] == {"child": child}
    assert top["$defs"]["Tree"]["properties"] == {"child": child}
    assert below["properties"] == {"tree": {"$ref": "#/$defs/Tree"}}
    assert list(below["$defs"]) == ["Tree"]


def test_the_description_is_the_first_paragraph_and_only_if_written():
    assert json_schema.build_schema(Tree)["description"] == "A tree, upside down."
    assert "description" not in json_schema.build_schema(Forest)


def test_instances_that_differ_have_definitions_of_their_own():
    schema = json_schema.build_schema(Mixed)
    small = schema["$defs"][schema["properties"]["deep"]["$ref"].rpartition("/")[2]]["properties"]

    assert schema["properties"]["shallow"] == {"$ref": "#/$defs/Kind"}
    assert schema["properties"]["deep"] == {"$ref": "#/$defs/Kind2"}
    assert small["small"] == {"$ref": "#/$defs/Layer2"}
    assert schema["$defs"]["Layer2"]["properties"]["width"]["default"] == 3


def test_lists_allow_the_classes_of_their_elements():
    schema = json_schema.build_schema(Mixed)

    assert schema["properties"]["layers"]["items"] == {
        "anyOf": [{"$ref": "#/$defs/Layer"}, {"$ref": "#/$defs/DeepLayer"}]
    }


def test_a_container_for_any_names_has_no_restrictions():
    assert json_schema.build_schema(base_config.Config) == {
        "$schema": json_schema.DIALECT,
        "type": "object",
    }


def test_docs_of_fields_come_from_all_bases_and_the_nearest_wins():
    @dataclasses.dataclass
    class Wider(DeepLayer):
        width: Annotated[int, Ge(1)] = 16
        """More
        neurons."""

    assert json_schema.field_docs(Wider)["width"] == "More neurons."
    assert json_schema.field_docs(DeepLayer)["width"] == "Neurons."


def test_a_class_without_source_has_no_docs():
    made = dataclasses.make_dataclass("made", [("a", int, 1)], bases=(base_config.Config,))

    assert "a" not in json_schema.field_docs(made)


def test_every_field_of_the_experiment_config_is_documented():
    from quintain.settings import config_definitions as cfg  # noqa: PLC0415 - slow to import

    missing = [
        f"{cls.__name__}.{field.name}"
        for cls in (cfg.DataConfig, cfg.TaskConfig, cfg.TrainerConfig, cfg.RuntimeConfig)
        for field in dataclasses.fields(cls)
        if field.name not in json_schema.field_docs(cls)
    ]

    assert missing == []
