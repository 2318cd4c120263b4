"""Templates of experiments: partial configs that others are merged over."""

from collections.abc import Mapping
from typing import Any, Final

from quintain.config import overrides

_UNIONS: Final = ("name", "type")
"""Fields that say which others a mapping has, in the searcher, storages and hyperparameters."""


def merge(template: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a config laid over a template.

    Mappings are merged, all else is that of the config: numbers, texts, lists. But environment
    variables are merged by their names, log policies are added to the template's, and what is of
    another kind than in the template (searcher, storage, hyperparameter) is not mixed with it.

    Args:
        template: The template.
        content: The config, which wins.

    Example:
        >>> merge(
        ...     {"searcher": {"name": "random", "max_trials": 4}, "max_restarts": 0},
        ...     {"searcher": {"name": "single", "metric": "loss"}},
        ... )
        {'searcher': {'name': 'single', 'metric': 'loss'}, 'max_restarts': 0}
    """
    merged = dict(template)
    for name, value in content.items():
        former = merged.get(name)
        if name in ("data", "hyperparameters") and value is None:
            continue  # a section with nothing below it
        if name == "environment_variables" and former is not None:
            merged[name] = _merge_variables(former, value)
        elif name == "log_policies" and isinstance(former, list) and isinstance(value, list):
            merged[name] = [*former, *(each for each in value if each not in former)]
        elif name == "data" and isinstance(former, Mapping) and isinstance(value, Mapping):
            merged[name] = overrides.merge(former, value)
        elif isinstance(former, Mapping) and isinstance(value, Mapping) and _fit(former, value):
            merged[name] = merge(former, value)
        else:
            merged[name] = value
    return merged


def _fit(former: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    """Returns whether both are of one kind, as far as they say."""
    return all(former[key] == value[key] for key in _UNIONS if key in former and key in value)


def _merge_variables(former: Any, value: Any) -> Any:
    """Returns variables of both, `NAME=VALUE` each, or such lists by kinds of slots."""
    if isinstance(former, Mapping) and isinstance(value, Mapping):
        kinds = [*former, *(kind for kind in value if kind not in former)]
        return {
            kind: _merge_variables(former.get(kind) or [], value.get(kind) or []) for kind in kinds
        }
    if isinstance(former, list) and isinstance(value, list):
        return list({str(text).partition("=")[0]: text for text in (*former, *value)}.values())
    return value
