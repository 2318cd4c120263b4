"""Runs of `quintain train`, as their directories describe them."""

import dataclasses
import enum
from typing import Any


class RunProgress(enum.Enum):
    """Progress of a training."""

    RUNNING = "running"
    """A process holds its lock."""

    STOPPING = "stopping"
    """It was asked to stop, and saves itself."""

    ENDED = "ended"
    """It came to its last step."""

    STOPPED = "stopped"
    """It did not, and nothing runs."""


@dataclasses.dataclass(frozen=True)
class TrainingRun:
    """Summary of a run, for lists."""

    name: str
    """Stands for the directory in addresses. It says nothing about where that is."""

    label: str
    """Short name for people: the path below the folder that it was found in."""

    path: str
    experiment: str
    """Name of the registered experiment; empty if unknown."""

    task: str
    """First part of that name: the kind of task."""

    state: RunProgress
    step: int
    train_steps: int | None
    """Step at which it ends; None if unknown."""

    metrics: dict[str, Any]
    """Metrics of the last training loop and of the last evaluation on record, by name."""

    ranges: dict[str, tuple[float, float]]
    """Smallest and largest value of each metric of evaluations; of very many, of some of them."""

    time: float
    """When something was last recorded, in seconds since the epoch."""

    settings_id: str = ""
    """Equal for runs whose settings differ in seeds only. Empty if they can't be read."""

    problem: str = ""
    """Why its settings can't be read. Empty if they can."""

    can_stop: bool = False
    """Whether it runs, and its process is one of this machine and user that can be stopped."""


@dataclasses.dataclass(frozen=True)
class RunCheckpoint:
    """A checkpoint of a run."""

    name: str
    """Path below the run's directory, without the ends of its files' names."""

    step: int
    num_bytes: int
    """Size of all of its files."""

    time: float
    """When it was written, in seconds since the epoch."""


@dataclasses.dataclass(frozen=True)
class RunDetails:
    """Details of a run, without its curves and samples."""

    run: TrainingRun
    """What a list shows."""

    params: dict[str, Any]
    imports: tuple[str, ...]
    gin: str
    """Its gin bindings; empty for none."""

    former_params: tuple[str, ...]
    """Files with the settings that it had before they were changed."""

    checkpoints: tuple[RunCheckpoint, ...]
    environment: dict[str, Any]
    """What `environment.json` says of how it was started; empty if there is none."""

    holder: dict[str, Any]
    """What `run.lock` says of the process that trains; empty if none does."""

    num_sample_files: int
    """Evaluations whose translations were kept."""


@dataclasses.dataclass(frozen=True)
class Columns:
    """Records of steps, a list for each metric."""

    steps: list[int]
    times: list[float | None]
    """When each was recorded, in seconds since the epoch; None if that is not known."""

    metrics: dict[str, list[float | None]]
    """Values by name, one for each step; None where there is none."""


@dataclasses.dataclass(frozen=True)
class RunCurves:
    """Records that a run has gained since a position."""

    cursor: str
    """To be given with the next question."""

    is_reset: bool
    """Whether this takes the place of what was given before. Otherwise it is appended."""

    is_thinned: bool
    """Whether there are more steps on record than are given."""

    training: Columns
    evaluations: Columns
    state: RunProgress


@dataclasses.dataclass(frozen=True)
class SampleFile:
    """The translations of one evaluation."""

    name: str
    """What to ask for."""

    step: int
    scores: dict[str, Any]
    """Its scores with their signatures; empty if they can't be read."""


@dataclasses.dataclass(frozen=True)
class RunSamples:
    """Some of the translations of one evaluation."""

    files: tuple[SampleFile, ...]
    """All evaluations that there are, by step."""

    name: str
    """Which of them this is; empty if there is none."""

    num_rows: int
    """Translations that match what was asked for."""

    is_cut: bool
    """Whether the file is so large that its end was not looked at."""

    rows: list[tuple[str, str, str]]
    """Source, reference and hypothesis of those asked for, in the order of the data."""
