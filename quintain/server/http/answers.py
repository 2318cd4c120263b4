"""OpenAPI schemas of answers that are no records.

Numbers that are not finite are the texts `NaN`, `Infinity` and `-Infinity`.
"""

from typing import Any, Literal

from typing_extensions import TypedDict

from quintain.records.rows import checkpoint, states, trial

Number = float | Literal["NaN", "Infinity", "-Infinity"]
Id = int


class ErrorText(TypedDict):
    """Error message and kind."""

    kind: str
    """Name of the class of the error."""
    message: str


class Error(TypedDict):
    """The answer to a request that failed."""

    error: ErrorText


class MetricColumns(TypedDict):
    """One metric of all trials."""

    best_is: Literal["min", "max", ""]
    last: list[Number | None]
    min: list[Number | None]
    max: list[Number | None]


class Table(TypedDict):
    """All trials of an experiment as columns, in the order of their ids."""

    cursor: str
    num_trials: int
    columns: dict[str, list[Any]]
    hparams: dict[str, list[Any]]
    metrics: dict[str, MetricColumns]


class Points(TypedDict):
    """One metric of one trial."""

    batches: list[int]
    values: list[Number]
    times: list[float]


class SearcherSummary(TypedDict, total=False):
    """Search method, in lists."""

    name: str
    metric: str
    smaller_is_better: bool
    max_trials: int


class ConfigSummary(TypedDict, total=False):
    """Config, in lists."""

    name: str
    project: str
    searcher: SearcherSummary
    resources: dict[str, Any]
    records_per_epoch: int


class Summary(TypedDict):
    """Experiment, in lists."""

    id: int
    state: states.ExperimentState
    config: ConfigSummary
    model_dir: str
    description: str
    labels: list[str]
    progress: float
    start_time: float
    end_time: float | None
    is_archived: bool
    parent_id: int | None
    reason: str
    num_trials: dict[states.TrialState, int]
    best_metric: Number | None


class Export(TypedDict):
    """Models of a checkpoint that were exported."""

    directory: str
    files: list[str]


class Rung(TypedDict):
    """Trials of a search at one length of training."""

    units: int
    batches: int
    trials: list[
        tuple[Id, Number | None, Literal["promoted", "stopped", "waiting", "running", "done"]]
    ]


class Bracket(TypedDict):
    """A part of a search whose trials are compared."""

    rungs: list[Rung]


class Search(TypedDict):
    """State of a search method."""

    kind: str
    brackets: list[Bracket]
    lineage: list[tuple[Id, Id]]


class Check(TypedDict):
    """Result of a dry run of an experiment."""

    name: str
    searcher: str
    metric: str
    num_trials: int
    total_batches: int
    max_concurrent_trials: int
    is_extrapolated: bool
    config: dict[str, Any]
    """The config with all defaults."""
    config_text: str
    """The config as written, with its overrides, as YAML."""


class Changes(TypedDict, total=False):
    """Data of the event `changes`; to be applied in this order."""

    cursor: str
    experiments: list[Summary]
    deleted_experiments: list[Id]
    trials: list[trial.TrialRecord]
    cuts: list[tuple[Id, int]]
    metrics: list[tuple[Id, str, int, float, dict[str, Any]]]
    logs: list[tuple[Id, int]]
    checkpoints: list[checkpoint.Checkpoint]
    processes: list[Id]
    """Trials of which a process has begun, changed or ended."""
    models: list[bool]
    """There if registered models have changed; to be fetched anew."""
