"""Dialects of an experiment's config, and their normal form.

The older one counts steps of `batches_per_step` batches (`max_steps`, `min_validation_period: 3`),
the later one has lengths (`max_length: {batches: 937}`, `scheduling_unit`).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from quintain import errors
from quintain.records.config import checkpoint_storage_config, lengths

DEFAULT_SCHEDULING_UNIT: Final = 100
GLOBAL_BATCH_SIZE: Final = "global_batch_size"

UNUSED_SECTIONS: Final = (
    "bind_mounts",
    "data_layer",
    "integrations",
    "internal",
    "notes",
    "pbs",
    "preemption_timeout",
    "retention_policy",
    "security",
    "slurm",
    "tensorboard_storage",
    "webhooks",
    "workspace",
)
"""Sections of exported configs without effect here: containers, clusters."""

UNUSED_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "checkpoint_storage": ("propagation", "tensorboard_path"),
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
    "optimizations": (
        "auto_tune_tensor_fusion",
        "grad_updates_size_file",
        "gradient_compression",
        "tensor_fusion_cycle_time",
        "tensor_fusion_threshold",
    ),
    "profiling": ("sync_timings",),
    "resources": (
        "agent_label",
        "devices",
        "is_single_node",
        "native_parallel",
        "resource_pool",
        "shm_size",
    ),
}
"""Fields of sections that have no effect either."""

REMOTE_FIELDS: Final = (
    "access_key",
    "connection_string",
    "credential",
    "hdfs_path",
    "hdfs_url",
    "secret_key",
    "user",
)
"""Fields of storages that are not supported; exported configs have them as nulls."""

_ACTIONS: Final = {
    "on_failure_dont_retry": "cancel_retries",
    "on_failure_exclude_node": "exclude_node",
}
"""Former names of what a log policy does."""

_COMMAND: Final = re.compile(r"\s|\.py$|\.sh$")

STEP_FIELDS: Final = {
    "max_steps": "max_length",
    "target_trial_steps": "max_length",
    "step_budget": "budget",
    "steps_per_round": "length_per_round",
}
"""Fields of the older dialect that count steps, and what they are called here."""

LENGTH_FIELDS: Final = ("max_length", "budget", "length_per_round")
PERIOD_FIELDS: Final = ("min_validation_period", "min_checkpoint_period")


def find_unused_fields(content: Mapping[str, Any]) -> list[str]:
    """Returns the dotted names of fields that are set, and that have no effect.

    Example:
        >>> find_unused_fields({"bind_mounts": [], "slurm": None, "environment": {"image": "tf"}})
        ['bind_mounts', 'environment.image']
    """
    found = [name for name in UNUSED_SECTIONS if content.get(name) is not None]
    for section, names in UNUSED_FIELDS.items():
        given = content.get(section)
        if isinstance(given, Mapping):
            found += [f"{section}.{name}" for name in names if given.get(name) is not None]
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
        for name in UNUSED_SECTIONS:
            content.pop(name, None)
        if content.get("project") in (None, ""):
            content.pop("project", None)
        for section, names in UNUSED_FIELDS.items():
            if isinstance(content.get(section), Mapping):
                fields = content[section].items()
                content[section] = {name: value for name, value in fields if name not in names}
        for name in ("data", "hyperparameters"):
            if name in content and content[name] is None:  # `data:` with nothing below
                content[name] = {}
        self._check_entrypoint()
        self._normalise_resources()
        self._normalise_storage()
        self._normalise_log_policies()
        self._normalise_variables()
        if "batches_per_step" in content:
            self._rename(content, "batches_per_step", "scheduling_unit", "")
        labels = content.get("labels")
        if isinstance(labels, Mapping):
            content["labels"] = sorted(labels)
        units = lengths.LengthUnits(
            batches_per_step=_whole_or(content.get("scheduling_unit"), DEFAULT_SCHEDULING_UNIT),
            records_per_epoch=_whole_or(content.get("records_per_epoch"), 0),
            global_batch_size=_find_batch_size(content.get("hyperparameters")),
        )
        self._normalise_periods(units)
        if "searcher" in content:
            content["searcher"] = self._normalise_searcher(content["searcher"], units)
        else:
            self._refuse("searcher", "missing; an experiment needs it.")
        return content

    def _refuse(self, path: str, message: str) -> None:
        self.problems.append(errors.Problem(path, message))

    def _normalise_variables(self) -> None:
        """Takes a kind of device without variables for one with an empty list of them."""
        environment = self.content.get("environment")
        variables = environment.get("environment_variables") if environment else None
        if isinstance(variables, Mapping):
            self.content["environment"]["environment_variables"] = {
                name: [] if values is None else values for name, values in variables.items()
            }

    def _normalise_periods(self, units: lengths.LengthUnits) -> None:
        """Turns periods into batches; those of 0 are none."""
        content = self.content
        for name in PERIOD_FIELDS:
            if _is_zero(content.get(name)):
                content[name] = None
            elif content.get(name) is not None:
                content[name] = self._to_batches(
                    units, content[name], name, plain_unit=units.batches_per_step
                )

    def _check_entrypoint(self) -> None:
        """Refuses commands and scripts, which other versions may have as an entrypoint."""
        given = self.content.get("entrypoint")
        is_script = isinstance(given, Mapping)
        if isinstance(given, list) or is_script or _COMMAND.search(str(given or "")):
            kind = "a script" if is_script else "a command"
            self._refuse(
                "entrypoint",
                f"got {errors.show(given)}, {kind}; expected `module:Class` of a trial or "
                "`experiment:NAME`. Write what the script does as a class: a `KerasTrial` whose "
                "`build_model` returns its model and whose data loaders return its data "
                "(docs/how-to/trials.md).",
            )
            self.content["entrypoint"] = None

    def _normalise_resources(self) -> None:
        """Takes the shorter name of the slots of a trial."""
        resources = self.content.get("resources")
        if isinstance(resources, Mapping) and "slots" in resources:
            fields = dict(resources)
            if fields["slots"] is None:  # as exported configs have it
                del fields["slots"]
            else:
                self._rename(fields, "slots", "slots_per_trial", "resources.")
            self.content["resources"] = fields

    def _normalise_storage(self) -> None:
        """Takes over the names of older configs, and refuses secrets."""
        storage = self.content.get("checkpoint_storage")
        if not isinstance(storage, Mapping):
            return
        fields = {
            name: value
            for name, value in storage.items()
            if value is not None or name not in REMOTE_FIELDS
        }
        former = fields.pop("checkpoint_path", None)
        if former is not None and fields.get("storage_path") is None:
            fields["storage_path"] = former
            self.former_paths["checkpoint_storage.storage_path"] = (
                "checkpoint_storage.checkpoint_path"
            )
        if fields.get("type") == "gcs":
            fields["type"] = "gs"
        if fields.get("type") == "hdfs":
            self._refuse(
                "checkpoint_storage.type",
                "got 'hdfs', expected 'fsspec' with `url: hdfs://HOST/DIRECTORY`; or mount the "
                "storage and name the directory as host_path.",
            )
            fields = {name: value for name, value in fields.items() if name.startswith("save_")}
        for name in ("access_key", "secret_key", "connection_string", "credential"):
            if fields.pop(name, None) is not None:
                advice = f"{checkpoint_storage_config.SECRET_ADVICE}."
                self._refuse(f"checkpoint_storage.{name}", advice)
        self.content["checkpoint_storage"] = fields

    def _normalise_log_policies(self) -> None:
        """Turns all forms in which log policies were written into the newest one."""
        content = self.content
        if content.get("log_pattern_policies") is not None:
            self._rename(content, "log_pattern_policies", "log_policies", "")
        content.pop("log_pattern_policies", None)
        if isinstance(content.get("log_policies"), list):
            content["log_policies"] = [
                _normalise_log_policy(each) if isinstance(each, Mapping) else each
                for each in content["log_policies"]
            ]

    def _normalise_searcher(self, searcher: object, units: lengths.LengthUnits) -> dict[str, Any]:
        if not isinstance(searcher, Mapping):
            self._refuse("searcher", f"got {errors.show(searcher)}, expected a mapping.")
            return {}
        fields: dict[str, Any] = dict(searcher)
        if fields.get("replicate") == "none":
            fields["replicate"] = {"top": 0}
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
        self._read_time(fields)
        for name in LENGTH_FIELDS:
            if isinstance(fields.get(name), Mapping):
                fields[name] = self._to_batches(units, fields[name], f"searcher.{name}")
        return fields

    def _read_time(self, fields: dict[str, Any]) -> None:
        """Turns `max_time` in the unit `time_metric` of the newest configs into `max_length`."""
        time, unit = fields.pop("max_time", None), fields.pop("time_metric", None)
        if time is None and unit is None:
            return
        if unit in lengths.UNITS and time is not None:
            fields["max_time"] = {unit: time}
            self._rename(fields, "max_time", "max_length", "searcher.")
            return
        got = f"got {errors.show(unit)}" if unit is not None else "missing"
        self._refuse(
            "searcher.time_metric",
            f"{got} with max_time={errors.show(time)}, expected one of "
            f"{', '.join(lengths.UNITS)} and a number, or max_length: {{batches: n}}.",
        )

    def _rename(self, section: dict[str, Any], former: str, name: str, prefix: str) -> None:
        if section.get(name) is not None:
            self._refuse(
                f"{prefix}{former}",
                f"got together with {name}, which means the same; leave one of them out.",
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
            self._refuse(where, message)
            return 1


def _normalise_log_policy(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `{name, pattern, action}` for a policy with `{type: ...}`, `policy` or `signal`."""
    fields = dict(policy)
    action = fields.pop("policy", None) or fields.get("action")
    if isinstance(action, Mapping):
        signal = action.get("signal")
        fields["action"] = action.get("type") if signal is None else None
    else:
        signal, fields["action"] = None, action
    fields["action"] = _ACTIONS.get(str(fields["action"]), fields["action"])
    signal = fields.pop("signal", None) or signal
    if signal is not None and fields.get("name") is None:
        fields["name"] = signal
    return fields


def _is_zero(length: object) -> bool:
    """Returns whether a period is 0 in any unit, which exported configs have for none."""
    if isinstance(length, Mapping):
        return len(length) == 1 and all(_is_zero(each) for each in length.values())
    return length == 0 and isinstance(length, int) and not isinstance(length, bool)


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
