"""Config of an experiment: a search over the hyperparameters of one model.

All lengths are kept in batches, those of the search in its own units, whichever dialect the file is
written in (`experiment_dialects`).
"""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le

from quintain import errors
from quintain.config import base_config, plain_data, yaml_io
from quintain.config import overrides as overrides_lib
from quintain.records import team
from quintain.records.config import checkpoint_storage_config, searcher_config
from quintain.records.config import experiment_dialects as dialects
from quintain.records.config import experiment_sections as sections

REGISTERED_PREFIX: Final = "experiment:"
"""Begins entrypoints that name a registered experiment, which needs no code of the user's."""

Count = Annotated[int, Ge(0)]
PositiveCount = Annotated[int, Gt(0)]
Batches = Annotated[int, Gt(0), Le(10**12)]


@dataclasses.dataclass
class ExperimentSpec(base_config.Config):
    """Everything that defines one search."""

    name: str = ""
    """Short name."""

    description: str = ""
    """Free text."""

    project: str = team.DEFAULT_PROJECT
    """What it belongs to; users have roles over projects."""

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

    scheduling_unit: Batches = dialects.DEFAULT_SCHEDULING_UNIT
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

    checkpoint_storage: checkpoint_storage_config.CheckpointStorageConfig = dataclasses.field(
        default_factory=checkpoint_storage_config.CheckpointStorageConfig
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

    reproducibility: sections.ReproducibilityConfig = dataclasses.field(
        default_factory=sections.ReproducibilityConfig
    )
    """What makes the search repeatable."""

    resources: sections.ResourcesConfig = dataclasses.field(
        default_factory=sections.ResourcesConfig
    )
    """What the experiment may use."""

    optimizations: sections.OptimizationsConfig = dataclasses.field(
        default_factory=sections.OptimizationsConfig
    )
    """How gradients are computed."""

    code: sections.CodeConfig = dataclasses.field(default_factory=sections.CodeConfig)
    """How much the model directory may be."""

    environment: sections.EnvironmentConfig = dataclasses.field(
        default_factory=sections.EnvironmentConfig
    )
    """The processes of trials."""

    profiling: sections.ProfilingConfig = dataclasses.field(
        default_factory=sections.ProfilingConfig
    )
    """Which batches are profiled."""

    alerts: list[sections.AlertConfig] = dataclasses.field(default_factory=list)
    """Whom to tell when the experiment ends."""

    log_policies: list[sections.LogPolicyConfig] = dataclasses.field(default_factory=list)
    """What is done about trials that fail, by what their logs say."""

    loggers: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Where metrics of trials are sent besides the store: `{type: mlflow, ...}`; also `csv`,
    `wandb` and `trackio`."""

    debug: bool = False
    """Whether trials log more."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the config as plain data, in the later dialect, which `parse` reads again."""
        plain = super().as_dict()
        for name in dialects.PERIOD_FIELDS:
            if plain[name] is not None:
                plain[name] = {"batches": plain[name]}
        return plain


def load(path: str, overrides: Mapping[str, Any] | None = None) -> ExperimentSpec:
    """Reads the config of an experiment from a YAML file.

    Raises:
        ConfigError: Listing all that is wrong, with file and line.
    """
    content, lines = yaml_io.load_file_with_lines(path)
    merged = overrides_lib.merge(content, overrides or {})
    return parse(merged, lambda name: f"{path}:{yaml_io.find_line(lines, name)}")


def parse(content: Mapping[str, Any], locate: Callable[[str], str] | None = None) -> ExperimentSpec:
    """Builds the config of an experiment from plain data in either dialect.

    Args:
        content: What the YAML file says.
        locate: Returns the place of a dotted path, for messages.

    Returns:
        The `ExperimentSpec`, complete and locked. What it writes is read again as it is.

    Raises:
        ConfigError: Listing all that is wrong.
    """
    problems = list(plain_data.find_faults(dict(content), is_json=True))
    if problems:
        with errors.located(locate):
            raise errors.ConfigError.from_problems(problems)
    reader = dialects.Reader(dict(content))
    params = reader.normalise()
    problems = reader.problems
    config = ExperimentSpec()
    name = params.get("searcher", {}).get("name")
    is_known = isinstance(name, str) and name in searcher_config.SEARCHERS
    if is_known:
        config.searcher = searcher_config.SEARCHERS[name]()
    else:
        problems.append(errors.Problem("searcher.name", searcher_config.explain_unknown(name)))
        params.pop("searcher", None)
    # What an unknown method needs is not known either.
    found = _fill(config, _without_nulls(config, params))
    problems += [one for one in found if is_known or not one.path.startswith("searcher")]
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


def _without_nulls(config: base_config.Config, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values without the nulls that exported configs have where a default is meant."""
    kept: dict[str, Any] = {}
    for name, value in params.items():
        present = getattr(config, name, None)
        if isinstance(present, base_config.Config) and isinstance(value, Mapping):
            value = _without_nulls(present, value)
        if value is not None or not hasattr(config, name):
            kept[name] = value
    return kept


def _fill(config: ExperimentSpec, params: dict[str, Any]) -> list[errors.Problem]:
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
