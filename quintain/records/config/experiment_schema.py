"""JSON Schema of an experiment's file, in both dialects, for editors."""

from typing import Any, Final

from quintain.config import class_definitions, json_schema
from quintain.records.config import (
    experiment_dialects,
    experiment_spec,
    hyperparameter_config,
    lengths,
    searcher_config,
)

_COUNT: Final = {"type": "integer", "exclusiveMinimum": 0}


def _describe_length(count: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict.fromkeys(lengths.UNITS, count),
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }


_NO_LENGTH: Final = _describe_length({"const": 0})
_LENGTH: Final = {"anyOf": [_COUNT, _describe_length(_COUNT)]}
_PERIOD: Final = {"anyOf": [*_LENGTH["anyOf"], {"const": 0}, _NO_LENGTH, {"type": "null"}]}
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
        properties[name] = {**_PERIOD, "description": described}
    properties["labels"] = {
        "anyOf": [properties["labels"], {"type": "object"}],
        "description": properties["labels"].get("description", ""),
    }
    storage = definitions["CheckpointStorageConfig"]["properties"]
    storage["checkpoint_path"] = {**storage["storage_path"], "description": "The older name."}
    storage |= {name: {"type": "null"} for name in experiment_dialects.REMOTE_FIELDS}
    slots = definitions["ResourcesConfig"]["properties"]
    slots["slots"] = {**slots["slots_per_trial"], "description": "Another name of it."}
    former_action = {"description": "A former form of `action`, or of `name`."}
    policy = definitions["LogPolicyConfig"]["properties"]
    policy["action"] = {"anyOf": [policy["action"], {"type": "object"}]}
    policy |= {"policy": former_action, "signal": former_action}
    properties["log_pattern_policies"] = {"description": "The former name of `log_policies`."}
    variables = definitions["EnvironmentConfig"]["properties"]["environment_variables"]
    for choice in variables["anyOf"]:
        if choice.get("type") == "object":
            lists = choice["additionalProperties"]
            choice["additionalProperties"] = {"anyOf": [lists, {"type": "null"}]}
    properties["hyperparameters"] = {
        "description": "The space to search: constants, hyperparameters, and groups of them.",
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/hyperparameter"},
    }
    without_effect = {"description": "Accepted in exported configs; it has no effect here."}
    properties |= dict.fromkeys(experiment_dialects.UNUSED_SECTIONS, without_effect)
    for section, names in experiment_dialects.UNUSED_FIELDS.items():
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
    for definition in [schema, *definitions.values()]:
        _allow_nulls(definition)
    definitions["hyperparameter"] = _build_hyperparameter()
    schema["required"] = ["searcher"]
    return schema


def _allow_nulls(definition: dict[str, Any]) -> None:
    """Lets fields be null, which exported configs have where the default is meant."""
    properties = definition.get("properties", {})
    for name, field in properties.items():
        is_null = {"type": "null"} in field.get("anyOf", ())
        if name in definition.get("required", ()) or is_null:
            continue
        described = {"description": field["description"]} if "description" in field else {}
        properties[name] = {"anyOf": [field, {"type": "null"}], **described}


def _finish_searcher(name: str, built: dict[str, Any]) -> dict[str, Any]:
    properties = built["properties"]
    properties["name"] = {"const": name, "description": "Which search method."}
    properties.pop("batches_per_unit")
    properties["replicate"]["anyOf"].append({"const": "none"})
    for field in experiment_dialects.LENGTH_FIELDS:
        if field in properties:
            properties[field] = {**_LENGTH, "description": properties[field]["description"]}
    for former, field in experiment_dialects.STEP_FIELDS.items():
        if field in properties:
            properties[former] = {**_COUNT, "description": f"The older `{field}`, in steps."}
    if "max_length" in properties:
        properties["max_time"] = {**_COUNT, "description": "`max_length` in `time_metric`."}
        properties["time_metric"] = {"enum": [*lengths.UNITS], "description": "Unit of it."}
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
