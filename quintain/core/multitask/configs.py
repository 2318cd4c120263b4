"""Configs of multi-task training and evaluation."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from quintain import errors
from quintain.config import base_config, one_of
from quintain.optimization.configs import ranges
from quintain.settings import config_definitions as cfg

RESERVED_NAMES: Final = ("total_loss", "training_loss", "learning_rate")
"""Names that logs use beside those of the tasks."""


@dataclasses.dataclass
class TaskRoutine(base_config.Config):
    """One of several tasks."""

    task_name: str = ""
    """Name of the task in logs and metrics, a Python identifier. Empty takes `task_config.name`."""

    task_config: cfg.TaskConfig | None = None
    """The task."""

    eval_steps: ranges.Period | None = None
    """Batches of an evaluation of this task. None takes `trainer.validation_steps`."""

    task_weight: ranges.NonNegative = 1.0
    """Weight of the task: of its loss in joint training, and in the choice among tasks where they
    take turns."""

    @property
    def name(self) -> str:
        """Name of the task: `task_name`, or the one that the task's config has."""
        return self.task_name or (self.task_config and self.task_config.name) or ""


@dataclasses.dataclass
class MultiTaskConfig(base_config.Config):
    """Several tasks that train one model."""

    init_checkpoint: str = ""
    """Checkpoint file or directory whose weights start a fresh run, for the model of all tasks. The
    checkpoints that the tasks name are loaded after it."""

    init_exclude: tuple[str, ...] = ()
    """Patterns of variables that stay new beside it, as in `TaskConfig`."""

    model: base_config.Config | None = None
    """Config of the model of all tasks, for `MultiTask` classes that build one from it."""

    task_routines: tuple[TaskRoutine, ...] = ()
    """The tasks."""

    differential_privacy_config: cfg.DifferentialPrivacyConfig | None = None
    """Differentially private training."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the routines that can't be told apart or trained."""
        yield from check_routines("task_routines", self.task_routines)
        yield from cfg.check_init(self.init_checkpoint, self.init_exclude)
        weights = [routine.task_weight for routine in self.task_routines]
        if weights and not any(weights):
            yield "task_routines", "got a task_weight of 0 for every task; one must be more than 0."


@dataclasses.dataclass
class ProportionalSampleConfig(base_config.Config):
    """Chooses each task in proportion to a power of its weight."""

    alpha: ranges.Finite = 1.0
    """The power. 1 is proportional to the weights, 0 uniform."""


@dataclasses.dataclass
class AnnealingSampleConfig(base_config.Config):
    """Chooses in proportion to a power of the weight that falls from epoch to epoch."""

    steps_per_epoch: ranges.Period = 5
    """Steps after which the power changes."""

    total_steps: ranges.Period = 20
    """Steps of the training."""


@dataclasses.dataclass
class TaskSamplingConfig(one_of.OneOfConfig):
    """Sampling of the next task."""

    type: str | None = None
    """`uniform`, `proportional` or `annealing`."""

    uniform: base_config.Config = dataclasses.field(default_factory=base_config.Config)
    """All tasks equally often."""

    proportional: ProportionalSampleConfig = dataclasses.field(
        default_factory=ProportionalSampleConfig
    )
    """By a power of the weights."""

    annealing: AnnealingSampleConfig = dataclasses.field(default_factory=AnnealingSampleConfig)
    """By a falling power of the weights."""


@dataclasses.dataclass
class MultiTaskTrainerConfig(cfg.TrainerConfig):
    """Training of several tasks."""

    trainer_type: Literal["interleaving", "joint"] = "interleaving"
    """`joint`: every step trains on a batch of each task and minimises the weighted sum of their
    losses. `interleaving`: every step trains on a batch of one task, drawn by `task_sampler`."""

    task_sampler: TaskSamplingConfig = dataclasses.field(
        default_factory=lambda: TaskSamplingConfig(type="proportional")
    )
    """How the task of a step is drawn under `interleaving`."""


@dataclasses.dataclass
class MultiTaskExperimentConfig(cfg.ExperimentConfig):
    """Training and evaluation on several tasks."""

    task: MultiTaskConfig = dataclasses.field(  # type: ignore[assignment]  # as in the reference
        default_factory=MultiTaskConfig
    )
    """The tasks."""

    trainer: MultiTaskTrainerConfig = dataclasses.field(default_factory=MultiTaskTrainerConfig)
    """How long to train, in which order, and what to write on the way."""


@dataclasses.dataclass
class MultiEvalExperimentConfig(cfg.ExperimentConfig):
    """Training on one task, `task`, and evaluation on several."""

    eval_tasks: tuple[TaskRoutine, ...] = ()
    """The tasks to evaluate, each on its own validation data."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the routines that can't be told apart."""
        yield from super().check()
        yield from check_routines("eval_tasks", self.eval_tasks)


def check_routines(field: str, routines: Sequence[TaskRoutine]) -> Iterator[tuple[str, str]]:
    """Yields what is wrong with the names of several tasks, as `Config.check` does."""
    seen: dict[str, int] = {}
    for index, routine in enumerate(routines):
        here = f"{field}[{index}]"
        name = routine.name
        shown = errors.show(name)
        if routine.task_config is None:
            yield f"{here}.task_config", "missing; expected the config of a task."
        if not name:
            yield f"{here}.task_name", "missing; every task needs a name for its logs."
        elif not name.isidentifier():
            yield (
                f"{here}.task_name",
                f"got {shown}, expected a Python identifier: letters, digits and underscores.",
            )
        elif name in RESERVED_NAMES:
            yield f"{here}.task_name", f"got {shown}, which logs use for something else."
        elif name in seen:
            yield f"{here}.task_name", f"got {shown}, as in {field}[{seen[name]}]; rename one."
        seen.setdefault(name, index)
