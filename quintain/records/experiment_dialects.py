"""The two dialects in which an experiment's config is written, and how they become one.

The older one counts steps of `batches_per_step` batches (`max_steps`, `min_validation_period: 3`),
the later one has lengths (`max_length: {batches: 937}`, `scheduling_unit`).
"""

from collections.abc import Mapping
from typing import Any, Final

from quintain import errors
from quintain.records import lengths

DEFAULT_SCHEDULING_UNIT: Final = 100
GLOBAL_BATCH_SIZE: Final = "global_batch_size"

CONTAINER_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "environment": (
        "image",
        "ports",
        "registry_auth",
        "force_pull_image",
        "add_capabilities",
        "drop_capabilities",
        "pod_spec",
        "proxy_ports",
        "runtime_packages",
        "runtime_commands",
        "base_image",
    ),
    "resources": ("shm_size", "agent_label", "resource_pool", "devices"),
}

DOCKER_FIELDS: Final = ("bind_mounts", "security", "internal", "data_layer", "tensorboard_storage")
"""Fields that say how containers are run; there are none here."""

STEP_FIELDS: Final = {
    "max_steps": "max_length",
    "target_trial_steps": "max_length",
    "step_budget": "budget",
    "steps_per_round": "length_per_round",
}
"""Fields of the older dialect that count steps, and what they are called here."""

LENGTH_FIELDS: Final = ("max_length", "budget", "length_per_round")
PERIOD_FIELDS: Final = ("min_validation_period", "min_checkpoint_period")


def find_container_fields(content: Mapping[str, Any]) -> list[str]:
    """Returns the dotted names of fields that are about containers, which trials do without.

    Args:
        content: What a file says, in either dialect.

    Example:
        >>> find_container_fields({"bind_mounts": [], "environment": {"image": "tf"}})
        ['bind_mounts', 'environment.image']
    """
    found = [name for name in DOCKER_FIELDS if name in content]
    for section, names in CONTAINER_FIELDS.items():
        given = content.get(section)
        if isinstance(given, Mapping):
            found += [f"{section}.{name}" for name in names if name in given]
    return found


class Reader:
    """Turns both dialects into the fields of `ExperimentSpec`."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self.problems: list[errors.Problem] = []
        self.former_paths: dict[str, str] = {}

    def normalise(self) -> dict[str, Any]:
        """Returns the fields; what is wrong goes to `problems`."""
        content = self.content
        for name in DOCKER_FIELDS:
            content.pop(name, None)
        if isinstance(content.get("environment"), Mapping):
            unused = CONTAINER_FIELDS["environment"]
            content["environment"] = {
                name: value for name, value in content["environment"].items() if name not in unused
            }
        if "batches_per_step" in content:
            self._rename(content, "batches_per_step", "scheduling_unit", "")
        labels = content.get("labels")
        if isinstance(labels, Mapping):
            content["labels"] = sorted(labels)
        entrypoint = content.get("hyperparameters")
        units = lengths.LengthUnits(
            batches_per_step=_whole_or(content.get("scheduling_unit"), DEFAULT_SCHEDULING_UNIT),
            records_per_epoch=_whole_or(content.get("records_per_epoch"), 0),
            global_batch_size=_find_batch_size(entrypoint),
        )
        for name in PERIOD_FIELDS:
            if content.get(name) is not None:
                content[name] = self._to_batches(
                    units, content[name], name, plain_unit=units.batches_per_step
                )
        if "searcher" in content:
            content["searcher"] = self._normalise_searcher(content["searcher"], units)
        else:
            self.problems.append(errors.Problem("searcher", "missing; an experiment needs it."))
        return content

    def _normalise_searcher(self, searcher: object, units: lengths.LengthUnits) -> dict[str, Any]:
        if not isinstance(searcher, Mapping):
            self.problems.append(
                errors.Problem("searcher", f"got {errors.show(searcher)}, expected a mapping.")
            )
            return {}
        fields: dict[str, Any] = dict(searcher)
        is_in_steps = any(name in fields for name in STEP_FIELDS)
        # The older `async_halving` has a budget and no number of trials.
        if fields.get("name") == "async_halving" and "step_budget" in fields:
            fields["name"] = "sync_halving"
        for former, name in STEP_FIELDS.items():
            if former in fields:
                self._rename(fields, former, name, "searcher.")
        if is_in_steps:
            fields["batches_per_unit"] = units.batches_per_step
            return fields
        for name in LENGTH_FIELDS:
            if isinstance(fields.get(name), Mapping):
                fields[name] = self._to_batches(units, fields[name], f"searcher.{name}")
        return fields

    def _rename(self, section: dict[str, Any], former: str, name: str, prefix: str) -> None:
        if name in section:
            self.problems.append(
                errors.Problem(
                    f"{prefix}{former}",
                    f"got together with {name}, which means the same; leave one of them out.",
                )
            )
        section[name] = section.pop(former)
        self.former_paths[f"{prefix}{name}"] = f"{prefix}{former}"

    def _to_batches(
        self, units: lengths.LengthUnits, length: object, path: str, *, plain_unit: int = 1
    ) -> int:
        try:
            return units.to_batches(length, path, plain_unit=plain_unit)
        except errors.ConfigError as error:
            where, _, message = str(error).partition(": ")
            self.problems.append(errors.Problem(where, message))
            return 1


def _whole_or(value: object, default: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return default


def _find_batch_size(hyperparameters: object) -> int | None:
    """Returns `global_batch_size`, if it is a constant."""
    if not isinstance(hyperparameters, Mapping):
        return None
    value = hyperparameters.get(GLOBAL_BATCH_SIZE)
    if isinstance(value, Mapping) and value.get("type") == "const":
        value = value.get("val")
    return _whole_or(value, 0) or None
