"""Changes of an experiment's settings as parts of its config."""

from collections.abc import Mapping
from typing import Any, Final

from quintain import errors
from quintain.records.rows import experiment

_GC_FIELDS: Final = ("save_experiment_best", "save_trial_best", "save_trial_latest")


def to_overrides(changes: experiment.Changes) -> dict[str, Any]:
    """Returns changes as parts of the config.

    Raises:
        ConfigError: If a field of the storage of checkpoints can't be changed.
    """
    overrides: dict[str, Any] = {}
    for name, value in changes.items():
        if name in ("weight", "max_slots", "priority"):
            # The config has no number for "no limit".
            is_unlimited = name == "max_slots" and value == 0
            overrides.setdefault("resources", {})[name] = None if is_unlimited else value
        elif name == "max_trials":
            overrides["searcher"] = {name: value}
        else:
            overrides[name] = value
    if "labels" in changes:
        overrides["labels"] = sorted(set(changes["labels"]))
    _check_gc_fields(changes.get("checkpoint_storage", {}))
    return overrides


def _check_gc_fields(given: Mapping[str, int]) -> None:
    for name in given:
        if name not in _GC_FIELDS:
            raise errors.ConfigError(
                f"checkpoint_storage.{name}: can't be changed, expected one of "
                f"{', '.join(_GC_FIELDS)}.{errors.suggest(name, _GC_FIELDS)}"
            )
