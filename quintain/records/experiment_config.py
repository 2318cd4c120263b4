"""The config of an experiment: a search over the hyperparameters of one model.

Two dialects are read and become one: the older one counts steps of `batches_per_step` batches
(`max_steps`, `min_validation_period: 3`), the later one has lengths (`max_length: {batches: 937}`,
`scheduling_unit`). All lengths are kept in batches, those of the search in its own units.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le, Lt

from quintain import errors
from quintain.config import base_config, plain_data, yaml_io
from quintain.config import overrides as overrides_lib
from quintain.records import lengths, searcher_config

Count = Annotated[int, Ge(0)]
PositiveCount = Annotated[int, Gt(0)]
Batches = Annotated[int, Gt(0), Le(10**12)]

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


@dataclasses.dataclass
class CheckpointStorageConfig(base_config.Config):
    """Where checkpoints are kept, and which of them."""

    type: Literal["shared_fs", "directory"] = "shared_fs"
    """Kind of storage: both are directories of this machine."""

    host_path: str | None = None
    """Directory of the checkpoints. None takes the one in the home directory of the platform."""

    storage_path: str | None = None
    """Directory below `host_path`."""

    container_path: str | None = None
    """The directory, with `type: directory`."""

    propagation: str = "rprivate"
    """Kept for old configs; there are no containers here."""

    save_experiment_best: Count = 0
    """Best checkpoints of the whole experiment to keep at its end."""

    save_trial_best: Count = 1
    """Best checkpoints of each trial to keep at the end of the experiment."""

    save_trial_latest: Count = 1
    """Newest checkpoints of each trial to keep at the end of the experiment."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields paths that are not allowed."""
        for name in ("host_path", "container_path"):
            path = getattr(self, name)
            if path is not None and not os.path.isabs(path):
                yield name, f"got {errors.show(path)}, expected an absolute path."
        root = os.path.normpath(self._root or "/default")
        inside = os.path.normpath(self.directory("/default"))
        if inside != root and not inside.startswith(root.rstrip("/") + "/"):
            yield (
                "storage_path",
                f"got {errors.show(self.storage_path)}, expected a path below "
                f"{self._root or 'the home directory of the platform'}.",
            )

    def directory(self, default: str) -> str:
        """Returns the directory of the checkpoints.

        Args:
            default: The directory if none is set.
        """
        root = self._root or default
        return os.path.join(root, self.storage_path) if self.storage_path else root

    @property
    def _root(self) -> str | None:
        return self.container_path if self.type == "directory" else self.host_path


@dataclasses.dataclass
class ReproducibilityConfig(base_config.Config):
    """What makes a search repeatable."""

    experiment_seed: Annotated[int, Ge(0), Lt(2**32)] | None = None
    """Seed of the search and of all trials. None takes the time when the experiment is created."""


@dataclasses.dataclass
class ResourcesConfig(base_config.Config):
    """What the experiment may use."""

    slots_per_trial: Count = 1
    """Slots that a trial holds while it runs; 0 for none."""

    weight: Annotated[float, Gt(0), Le(1e9)] = 1.0
    """Share of the slots, relative to other experiments."""

    max_slots: Count | None = None
    """Most slots that all trials together may hold. None for no limit."""

    priority: Annotated[int, Ge(1), Le(99)] | None = None
    """1 to 99, lower is sooner; 42 if None."""

    shm_size: int | str | None = None
    """Kept for old configs; there are no containers here."""

    agent_label: str = ""
    """Kept for old configs; there is one machine."""

    resource_pool: str = ""
    """Kept for old configs; there is one machine."""

    native_parallel: bool = False
    """Whether one process uses all slots of a trial."""

    devices: list[Any] = dataclasses.field(default_factory=list)
    """Kept for old configs; there are no containers here."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a limit that no trial fits into."""
        if self.max_slots is not None and self.max_slots < self.slots_per_trial:
            yield (
                "max_slots",
                f"got {self.max_slots}, expected at least slots_per_trial={self.slots_per_trial}.",
            )


@dataclasses.dataclass
class OptimizationsConfig(base_config.Config):
    """How gradients are computed, where the trial asks for it."""

    aggregation_frequency: PositiveCount = 1
    """Batches whose gradients are added up for one update."""

    average_aggregated_gradients: bool = True
    """Whether the sum is divided by the number of batches."""

    average_training_metrics: bool = True
    """Whether training metrics are means over all replicas of a trial."""

    gradient_compression: bool = False
    """Whether gradients travel in half precision."""

    mixed_precision: Literal["O0", "O1", "O2", "O3"] = "O0"
    """`O0` for float32; the others compute in half precision."""

    tensor_fusion_threshold: Count = 64
    """Kept for old configs."""

    tensor_fusion_cycle_time: Count = 5
    """Kept for old configs."""

    auto_tune_tensor_fusion: bool = False
    """Kept for old configs."""

    grad_updates_size_file: str | None = None
    """Kept for old configs."""


@dataclasses.dataclass
class CodeConfig(base_config.Config):
    """How much a model directory may be; it is copied when the experiment is created."""

    max_files: PositiveCount = 20_000
    """Most files and directories, without what ignore files name."""

    max_mib: PositiveCount = 95
    """Most MiB of all files together."""


@dataclasses.dataclass
class EnvironmentConfig(base_config.Config):
    """The processes of trials."""

    environment_variables: list[str] | dict[str, list[str]] | None = None
    """Variables to set, `NAME=VALUE` each; a mapping has such lists for kinds of machines, which
    all count."""

    def as_mapping(self) -> dict[str, str]:
        """Returns the values of the variables by their names."""
        return dict(text.partition("=")[::2] for _, text in self._list_variables())

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields what is no `NAME=VALUE`."""
        for path, text in self._list_variables():
            if text.find("=") < 1:
                yield path, f"got {errors.show(text)}, expected NAME=VALUE."

    def _list_variables(self) -> Iterator[tuple[str, str]]:
        given = self.environment_variables or []
        parts = given if isinstance(given, Mapping) else {"": given}
        for name, texts in parts.items():
            path = f"environment_variables{'.' if name else ''}{name}"
            yield from ((f"{path}[{index}]", text) for index, text in enumerate(texts))


@dataclasses.dataclass
class ProfilingConfig(base_config.Config):
    """Kept for old configs; trials write no profiles by themselves."""

    enabled: bool = False
    """Whether trials were profiled."""

    begin_on_batch: Count = 0
    """First batch of the profile."""

    end_after_batch: Count | None = None
    """Last batch of the profile."""

    sync_timings: bool = True
    """Whether measurements waited for the device."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a profile that ends before it begins."""
        if self.end_after_batch is not None and self.end_after_batch < self.begin_on_batch:
            yield (
                "end_after_batch",
                f"got {self.end_after_batch}, expected at least "
                f"begin_on_batch={self.begin_on_batch}.",
            )


@dataclasses.dataclass
class ExperimentConfig(base_config.Config):
    """Everything that defines one search."""

    name: str = ""
    """Short name."""

    description: str = ""
    """Free text."""

    labels: list[str] = dataclasses.field(default_factory=list)
    """Labels to find the experiment by."""

    data: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Passed on to the model's code as it is."""

    entrypoint: str | None = None
    """`module:Class` of the trial, or `experiment:NAME` of a registered experiment. None searches
    the model directory for one trial class."""

    hyperparameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The space to search; see `quintain.search.space`."""

    searcher: searcher_config.SearcherConfig = dataclasses.field(
        default_factory=searcher_config.SingleConfig
    )
    """The search method."""

    scheduling_unit: Batches = DEFAULT_SCHEDULING_UNIT
    """Batches of a workload: after so many a trial may be paused. Also the batches of a step."""

    records_per_epoch: Count = 0
    """Training examples of an epoch; needed if a length is in epochs."""

    min_validation_period: Batches | None = None
    """Batches after which a trial is validated at the latest. None leaves it to the search."""

    min_checkpoint_period: Batches | None = None
    """Batches after which a trial is saved at the latest. None leaves it to the policy."""

    checkpoint_policy: Literal["best", "all", "none"] = "best"
    """Which validations are followed by a checkpoint: if it is the experiment's best, all, none."""

    perform_initial_validation: bool = False
    """Whether trials are validated before they are trained."""

    checkpoint_storage: CheckpointStorageConfig = dataclasses.field(
        default_factory=CheckpointStorageConfig
    )
    """Where checkpoints are kept, and which of them."""

    max_restarts: Count = 5
    """How often a trial that fails is started again, from its last checkpoint."""

    max_identical_errors: Count = 2
    """Trials in a row that fail with the same error before the first batch of any trial, after
    which the experiment ends; 0 for no limit. Invalid hyperparameters and lost processes do not
    count."""

    workload_timeout: Annotated[float, Gt(0), Le(1e9)] | None = None
    """Seconds after which a workload counts as hanging. None waits for ever."""

    reproducibility: ReproducibilityConfig = dataclasses.field(
        default_factory=ReproducibilityConfig
    )
    """What makes the search repeatable."""

    resources: ResourcesConfig = dataclasses.field(default_factory=ResourcesConfig)
    """What the experiment may use."""

    optimizations: OptimizationsConfig = dataclasses.field(default_factory=OptimizationsConfig)
    """How gradients are computed."""

    code: CodeConfig = dataclasses.field(default_factory=CodeConfig)
    """How much the model directory may be."""

    environment: EnvironmentConfig = dataclasses.field(default_factory=EnvironmentConfig)
    """The processes of trials."""

    profiling: ProfilingConfig = dataclasses.field(default_factory=ProfilingConfig)
    """Kept for old configs; trials write no profiles by themselves."""

    debug: bool = False
    """Whether trials log more."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the config as plain data, in the later dialect, which `parse` reads again."""
        plain = super().as_dict()
        for name in PERIOD_FIELDS:
            if plain[name] is not None:
                plain[name] = {"batches": plain[name]}
        return plain


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


def load(path: str, overrides: Mapping[str, Any] | None = None) -> ExperimentConfig:
    """Reads the config of an experiment from a YAML file.

    Args:
        path: The file.
        overrides: Values that win over those in the file.

    Raises:
        ConfigError: Listing all that is wrong, with file and line.
    """
    content, lines = yaml_io.load_file_with_lines(path)
    merged = overrides_lib.merge(content, overrides or {})
    return parse(merged, lambda name: f"{path}:{yaml_io.find_line(lines, name)}")


def parse(content: Mapping[str, Any], locate: Callable[[str], str] | None = None) -> Any:
    """Builds the config of an experiment from plain data in either dialect.

    Args:
        content: What the YAML file says.
        locate: Returns the place of a dotted path, for messages.

    Returns:
        The `ExperimentConfig`, complete and locked. What it writes is read again as it is.

    Raises:
        ConfigError: Listing all that is wrong.
    """
    problems = list(plain_data.find_faults(dict(content), is_json=True))
    if problems:
        with errors.located(locate):
            raise errors.ConfigError.from_problems(problems)
    reader = _Reader(dict(content))
    params = reader.normalise()
    problems = reader.problems
    searcher = None
    try:
        name = params.get("searcher", {}).get("name")
        searcher = searcher_config.choose(name)
    except errors.ConfigError as error:
        problems.append(errors.Problem("searcher.name", str(error).partition(": ")[2]))
    config = ExperimentConfig()
    if searcher is not None:
        config.searcher = searcher()
    else:
        params.pop("searcher", None)
    found = _fill(config, params)
    # What an unknown method needs is not known either.
    problems += [
        one for one in found if searcher is not None or not one.path.startswith("searcher")
    ]
    if problems:
        # Under the name that the user wrote.
        paths = reader.former_paths
        problems = [
            dataclasses.replace(one, path=paths.get(one.path, one.path)) for one in problems
        ]
        with errors.located(locate):
            raise errors.ConfigError.from_problems(problems)
    if config.reproducibility.experiment_seed is None:
        config.reproducibility.experiment_seed = int(time.time())
    config.lock()
    return config


def find_checkpoint_directory(content: Mapping[str, Any], default: str) -> str:
    """Returns where an experiment keeps its checkpoints, though its config may be refused today.

    Args:
        content: The config as the store keeps it.
        default: The directory if none is set.
    """
    storage = content.get("checkpoint_storage")
    given = storage if isinstance(storage, Mapping) else {}
    names = ("type", "host_path", "storage_path", "container_path")
    fields = {name: given[name] for name in names if isinstance(given.get(name), str)}
    return CheckpointStorageConfig(**fields).directory(default)


def _fill(config: ExperimentConfig, params: dict[str, Any]) -> list[errors.Problem]:
    """Sets fields, and returns what is wrong with them, and with all of them together."""
    problems: list[errors.Problem] = []
    try:
        config.override(params)
    except errors.ConfigError as error:
        problems += error.problems
    # Of sections that are fine by themselves it is said, too, what does not fit together.
    wrong = [name for name in params if any(_is_inside(one.path, name) for one in problems)]
    if problems:
        config.override({name: value for name, value in params.items() if name not in wrong})
    try:
        config.validate()
    except errors.ConfigError as error:
        problems += [
            one for one in error.problems if not any(_is_inside(one.path, name) for name in wrong)
        ]
    return problems


def _is_inside(path: str, name: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}["))


class _Reader:
    """Turns both dialects into the fields of `ExperimentConfig`."""

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

    def _normalise_searcher(self, searcher: Any, units: lengths.LengthUnits) -> dict[str, Any]:
        if not isinstance(searcher, Mapping):
            self.problems.append(
                errors.Problem("searcher", f"got {errors.show(searcher)}, expected a mapping.")
            )
            return {}
        searcher = dict(searcher)
        is_in_steps = any(name in searcher for name in STEP_FIELDS)
        # The older `async_halving` has a budget and no number of trials.
        if searcher.get("name") == "async_halving" and "step_budget" in searcher:
            searcher["name"] = "sync_halving"
        for former, name in STEP_FIELDS.items():
            if former in searcher:
                self._rename(searcher, former, name, "searcher.")
        if is_in_steps:
            searcher["batches_per_unit"] = units.batches_per_step
            return searcher
        for name in LENGTH_FIELDS:
            if isinstance(searcher.get(name), Mapping):
                searcher[name] = self._to_batches(units, searcher[name], f"searcher.{name}")
        return searcher

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
        self, units: lengths.LengthUnits, length: Any, path: str, *, plain_unit: int = 1
    ) -> Any:
        try:
            return units.to_batches(length, path, plain_unit=plain_unit)
        except errors.ConfigError as error:
            where, _, message = str(error).partition(": ")
            self.problems.append(errors.Problem(where, message))
            return 1


def _whole_or(value: Any, default: int) -> int:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_whole else default


def _find_batch_size(hyperparameters: Any) -> int | None:
    """Returns `global_batch_size`, if it is a constant."""
    if not isinstance(hyperparameters, Mapping):
        return None
    value = hyperparameters.get(GLOBAL_BATCH_SIZE)
    if isinstance(value, Mapping) and value.get("type") == "const":
        value = value.get("val")
    return _whole_or(value, 0) or None
