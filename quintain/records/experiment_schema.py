"""The JSON Schema of an experiment's file, in both dialects, for editors that complete YAML."""

from typing import Any, Final

from quintain.config import class_definitions, json_schema
from quintain.records import (
    experiment_dialects,
    experiment_spec,
    hyperparameter_config,
    lengths,
    searcher_config,
)

_COUNT: Final = {"type": "integer", "exclusiveMinimum": 0}
_LENGTH: Final = {
    "anyOf": [
        _COUNT,
        {
            "type": "object",
            "properties": dict.fromkeys(lengths.UNITS, _COUNT),
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
        },
    ]
}
_EXAMPLES: Final = {"val": 0, "vals": [0], "minval": 0, "maxval": 1}
"""Values for the fields of hyperparameters that have no default."""


def build_schema() -> dict[str, Any]:
    """Returns the schema (draft 2020-12) of `quintain experiment create`'s file.

    It has the fields of the later dialect and those of the older one (`max_steps`,
    `batches_per_step`, ...); what it accepts may still be refused, as when a value depends on
    another one.
    """
    schema = json_schema.build_schema(experiment_spec.ExperimentSpec())
    properties, definitions = schema["properties"], schema["$defs"]
    properties["batches_per_step"] = {
        **_COUNT,
        "description": "The older name of `scheduling_unit`; lengths that are plain numbers of "
        "steps count in it.",
    }
    for name in experiment_dialects.PERIOD_FIELDS:
        described = properties[name].get("description", "")
        properties[name] = {"anyOf": [*_LENGTH["anyOf"], {"type": "null"}]}
        properties[name]["description"] = described
    properties["labels"] = {
        "anyOf": [properties["labels"], {"type": "object"}],
        "description": properties["labels"].get("description", ""),
    }
    properties["hyperparameters"] = {
        "description": "The space to search: constants, hyperparameters, and groups of them.",
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/hyperparameter"},
    }
    definitions["hyperparameter"] = _build_hyperparameter()
    without_effect = {"description": "About containers; trials do without."}
    properties |= dict.fromkeys(experiment_dialects.DOCKER_FIELDS, without_effect)
    for section, names in experiment_dialects.CONTAINER_FIELDS.items():
        fields = definitions[type(getattr(experiment_spec.ExperimentSpec(), section)).__name__]
        fields["properties"] |= dict.fromkeys(names, without_effect)
    choices = []
    for name, kind in searcher_config.SEARCHERS.items():
        built = json_schema.build_schema(kind())
        definitions |= built.pop("$defs", {})
        built.pop("$schema")
        definitions[f"searcher_{name}"] = _finish_searcher(name, built)
        choices.append({"$ref": f"#/$defs/searcher_{name}"})
    properties["searcher"] = {
        "description": "The search method.",
        "anyOf": choices,
    }
    schema["required"] = ["searcher"]
    return schema


def _finish_searcher(name: str, built: dict[str, Any]) -> dict[str, Any]:
    properties = built["properties"]
    properties["name"] = {"const": name, "description": "Which search method."}
    properties.pop("batches_per_unit")
    for field in experiment_dialects.LENGTH_FIELDS:
        if field in properties:
            properties[field] = {**_LENGTH, "description": properties[field]["description"]}
    for former, field in experiment_dialects.STEP_FIELDS.items():
        if field in properties:
            properties[former] = {**_COUNT, "description": f"The older `{field}`, in steps."}
    built["required"] = ["name", "metric"]
    return built


def _build_hyperparameter() -> dict[str, Any]:
    kinds: list[dict[str, Any]] = []
    for name, kind in hyperparameter_config.KINDS.items():
        required = class_definitions.required_names(kind)
        built = json_schema.build_schema(kind({field: _EXAMPLES[field] for field in required}))
        for field in required:
            del built["properties"][field]["default"]
        properties = {
            "type": {"const": name},
            "when": {"type": "object"},
            **built["properties"],
        }
        kinds.append(
            {
                "type": "object",
                "properties": properties,
                "required": ["type", *required],
                "additionalProperties": False,
            }
        )
    group = {
        "type": "object",
        "not": {"required": ["type"]},
        "additionalProperties": {"$ref": "#/$defs/hyperparameter"},
    }
    constant = {"not": {"type": "object"}}
    return {"anyOf": [*kinds, group, constant]}
