import dataclasses
from typing import Annotated, Any, Literal

from annotated_types import Ge

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


def test_every_field_of_the_experiment_config_is_documented():
    from quintain.core import config_definitions as cfg  # noqa: PLC0415 - slow to import

    missing = [
        f"{cls.__name__}.{field.name}"
        for cls in (cfg.DataConfig, cfg.TaskConfig, cfg.TrainerConfig, cfg.RuntimeConfig)
        for field in dataclasses.fields(cls)
        if field.name not in json_schema.field_docs(cls)
    ]

    assert missing == []
