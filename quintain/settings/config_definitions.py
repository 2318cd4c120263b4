"""Typed configs of an experiment, its task and its trainer.

An `ExperimentConfig` has three parts. `task` describes the model and its data, `trainer` how long
to train and what to write on the way, `runtime` the devices. All of them are plain data (see
`quintain.config`): they check their own values, and every field documents itself.
"""

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from quintain import errors
from quintain.config import base_config, run_header
from quintain.optimization.configs import optimization_config as optimization
from quintain.optimization.configs import ranges
from quintain.settings import data_config, runtime_config

OptimizationConfig = optimization.OptimizationConfig

NonNegativeInt = ranges.Steps
PositiveInt = ranges.Period

Distribution = runtime_config.Distribution
RuntimeConfig = runtime_config.RuntimeConfig
DataConfig = data_config.DataConfig


@dataclasses.dataclass
class DifferentialPrivacyConfig(base_config.Config):
    """Differentially private training: per-example clipping and noise."""

    clipping_norm: ranges.Positive = 100000000.0
    """Largest L2 norm that one example's gradient over all variables may have."""

    noise_multiplier: ranges.NonNegative = 0.0
    """Standard deviation of the noise on the sum of gradients, as a multiple of
    `clipping_norm`."""

    target_epsilon: ranges.Positive | None = None
    """Epsilon to reach after `trainer.train_steps`; finds `noise_multiplier`."""

    delta: ranges.OpenUnitInterval | None = None
    """Probability with which the guarantee may fail. None takes `num_examples ** -1.1`."""

    num_examples: PositiveInt | None = None
    """Examples in the training data. Needed to compute epsilon."""

    poisson_sampling: bool = True
    """Whether an `InputReader` draws every example by chance for each batch, as the computation of
    epsilon assumes. Holds the training data in memory. False shuffles."""

    microbatch_size: PositiveInt | None = None
    """Examples on a replica whose gradients are in memory at the same time. None fits them into
    256 MB."""

    num_microbatches: PositiveInt | None = None
    """Parts that a replica's batch is cut into, instead of `microbatch_size`."""

    noise_seed: int | None = None
    """Seed of the noise, for tests. Whoever knows it can undo the noise. None draws a secret one,
    which is kept in the checkpoints."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        if self.microbatch_size is not None and self.num_microbatches is not None:
            yield (
                "num_microbatches",
                f"got {self.num_microbatches} with microbatch_size={self.microbatch_size}; "
                "leave one of them out.",
            )
        if self.target_epsilon is not None and self.noise_multiplier:
            yield (
                "target_epsilon",
                f"got {self.target_epsilon} with noise_multiplier={self.noise_multiplier}, which "
                "it would choose; leave one of them out.",
            )


@dataclasses.dataclass
class TaskConfig(base_config.Config):
    """Base of every task's config: what to train on what data."""

    init_checkpoint: str = ""
    """Checkpoint file or directory whose weights start a fresh run. Not used on resume."""

    init_exclude: tuple[str, ...] = ()
    """Variables that stay new beside `init_checkpoint`, such as those of a new head: patterns of
    their paths, as in a shell (`head/*`)."""

    model: base_config.Config | None = None
    """The model's own config."""

    train_data: DataConfig = dataclasses.field(default_factory=DataConfig)
    """Training data."""

    validation_data: DataConfig = dataclasses.field(default_factory=DataConfig)
    """Evaluation data."""

    name: str | None = None
    """Name of the task in logs, a Python identifier. None takes that of the task's class."""

    differential_privacy_config: DifferentialPrivacyConfig | None = None
    """Differentially private training of this task."""

    allow_image_summary: bool = False
    """Whether images among the results of an evaluation (`visualization`) become summaries."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        if self.name is not None and not self.name.isidentifier():
            yield (
                "name",
                f"got {errors.show(self.name)}, expected a Python identifier: letters, "
                f"digits, underscores.",
            )
        yield from check_init(self.init_checkpoint, self.init_exclude)


def check_init(checkpoint: str, exclude: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields `init_exclude` if there is no `init_checkpoint`."""
    if exclude and not checkpoint:
        yield "init_exclude", f"got {list(exclude)} without init_checkpoint. Set both, or neither."


@dataclasses.dataclass
class EarlyStoppingConfig(base_config.Config):
    """Ending a training whose evaluations get no better. Off unless `metric` is set."""

    metric: str = ""
    """Evaluation metric to watch; `a|b` is the metric `b` below `a`. Empty never stops early."""

    mode: Literal["higher", "lower"] = "lower"
    """Whether the `higher` or the `lower` metric is better."""

    patience: PositiveInt = 5
    """Evaluations in a row without an improvement after which training ends."""

    min_delta: ranges.NonNegative = 0.0
    """Change of the metric that counts as an improvement must be larger than this."""

    start_step: NonNegativeInt = 0
    """Step before which evaluations are not counted."""


@dataclasses.dataclass
class ParametrizationConfig(base_config.Config):
    """Start and learning rates of weights, by the width of the model."""

    type: Literal["standard", "mup"] = "standard"
    """`mup` lets a learning rate that was found at the base width hold at every width."""

    base: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Fields of `task.model` at the base width, such as `{width: 64}`. Heads of attention keep
    their size; their number changes."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        if (self.type == "mup") != bool(self.base):
            yield "base", f"got {self.base} with type={self.type!r}; mup has a base, others none."


@dataclasses.dataclass
class TrainerConfig(base_config.Config):
    """Length of a training, and what it writes on the way."""

    optimizer_config: optimization.OptimizationConfig = dataclasses.field(
        default_factory=optimization.OptimizationConfig
    )
    """Optimizer, learning rate and warm-up."""

    parametrization: ParametrizationConfig = dataclasses.field(
        default_factory=ParametrizationConfig
    )
    """Whether the learning rate is that of a narrower model."""

    train_tf_while_loop: bool = True
    """Whether the steps of a loop run inside one TensorFlow loop, without returning to Python."""

    train_tf_function: bool = True
    """Whether training steps are compiled into a graph."""

    eval_tf_function: bool = True
    """Whether evaluation steps are compiled into a graph."""

    eval_tf_while_loop: bool = False
    """Whether an evaluation is one TensorFlow loop. It then needs `validation_steps`."""

    allow_tpu_summary: bool = False
    """Whether `tf.summary` calls inside of training steps get a program of their own. It runs the
    first step of a loop in which summaries are due; all other steps run without them, as a TPU
    needs it. Otherwise every step checks whether they are due. Needs `train_tf_while_loop`."""

    steps_per_loop: PositiveInt = 1000
    """Steps between two returns to Python. Actions, logs and checkpoints happen only there. Where
    it is set by hand, intervals that are not are rounded up to a multiple of it."""

    summary_interval: PositiveInt = 1000
    """Steps between summaries written from inside the training step; a multiple of
    `steps_per_loop`. The means over a loop are written after each loop in any case."""

    checkpoint_interval: NonNegativeInt | Literal["auto"] = 1000
    """Steps between checkpoints. 0 saves only at the end and on interruption. `auto` loses the
    least time: by what a checkpoint costs, and one interruption an hour, or as many as the run has
    had."""

    max_to_keep: NonNegativeInt = 5
    """Newest checkpoints to keep. 0 keeps all."""

    continuous_eval_timeout: NonNegativeInt = 60 * 60
    """Seconds to wait for a new checkpoint before continuous evaluation stops."""

    train_steps: NonNegativeInt = 0
    """Optimizer steps to train in all, counted from the start of the run."""

    validation_steps: Annotated[int, Ge(-1), Le(ranges.MAX_COUNT)] = -1
    """Batches of an evaluation. -1 evaluates all of the data."""

    validation_interval: PositiveInt = 1000
    """Steps between evaluations in mode `train_and_eval`."""

    best_checkpoint_export_subdir: str = ""
    """Directory below the model directory for the best checkpoint."""

    best_checkpoint_eval_metric: str = ""
    """Evaluation metric that decides which checkpoint is best."""

    best_checkpoint_metric_comp: Literal["higher", "lower"] = "higher"
    """Whether the best metric is the `higher` or the `lower` one."""

    best_checkpoint_max_to_keep: PositiveInt = 1
    """Best checkpoints to keep."""

    loss_upper_bound: ranges.Finite | None = None
    """Mean loss of a loop above which training counts as blown up. None sets no bound; a loss that
    is not finite counts in any case."""

    recovery_begin_steps: NonNegativeInt = 0
    """Step from which `loss_upper_bound` is watched."""

    recovery_max_trials: int = 0
    """Recoveries from a blow-up before giving up. 0 stops at the first blow-up; a negative number
    switches the watch off."""

    recovery_skip_batches: bool = True
    """Whether the batches of the loop that blew up are left out after a recovery. Otherwise the run
    sees them again."""

    recovery_lr_factor: ranges.PositiveShare = 1.0
    """Factor by which each recovery lowers the learning rate for the rest of the run."""

    early_stopping: EarlyStoppingConfig = dataclasses.field(default_factory=EarlyStoppingConfig)
    """When to end training because evaluations get no better."""

    validation_summary_subdir: str = "validation"
    """Directory below the model directory for evaluation summaries."""

    actions: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Classes of one's own that are called after each loop, or with `when: eval` after each
    evaluation: `{type: module:Class, ...}` with their arguments."""

    loggers: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Where metrics are sent besides the run's own logs: `{type: csv, ...}`; also `mlflow`,
    `wandb`, `trackio`, or `module:Class` of one's own."""

    norm_summaries: bool = False
    """Whether the norms of gradients and updates are logged; it costs a copy of the weights."""

    preemption_on_demand_checkpoint: bool = True
    """Whether SIGTERM and Ctrl-C end the run after the current step, with a checkpoint. Otherwise
    they end the process at once."""

    def follow_loop(self, given: Collection[str]) -> list[str]:
        """Rounds intervals up to whole loops, if a loop of another length was asked for.

        Args:
            given: Names of the fields that were set by hand. Their values stay.

        Returns:
            The names of the intervals that changed.
        """
        names = [field.name for field in dataclasses.fields(self)]
        values = {
            name: getattr(self, name)
            for name in names
            if name.endswith("_interval") and name not in given
        }
        loop = self.steps_per_loop if "steps_per_loop" in given else 1
        rounded = {
            name: -(-value // loop) * loop
            for name, value in values.items()
            if value and value != "auto"
        }
        changed = [name for name, value in rounded.items() if value != values[name]]
        self.override({name: rounded[name] for name in changed})
        return changed

    def get_checkpoint_steps(self, user: str) -> int:
        """Returns `checkpoint_interval` where it has to be steps.

        Args:
            user: What needs steps, for the message.

        Raises:
            ConfigError: If it is `auto`.
        """
        if self.checkpoint_interval == "auto":
            raise errors.ConfigError(
                f"trainer.checkpoint_interval: got 'auto'; {user} needs a number of steps."
            )
        return int(self.checkpoint_interval)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        if self.validation_steps != -1 and self.validation_steps < 1:
            yield "validation_steps", f"got {self.validation_steps}, expected -1 or at least 1."
        if self.eval_tf_while_loop and self.validation_steps == -1:
            yield (
                "validation_steps",
                "got -1 with eval_tf_while_loop; a loop inside TensorFlow needs a fixed number.",
            )
        if self.summary_interval % self.steps_per_loop:
            yield (
                "summary_interval",
                f"got {self.summary_interval}, expected a multiple of steps_per_loop, which is "
                f"{self.steps_per_loop}.",
            )
        if self.allow_tpu_summary and not self.train_tf_while_loop:
            yield "allow_tpu_summary", "got True with train_tf_while_loop=False, which it needs."
        if self.train_tf_while_loop and not self.train_tf_function:
            yield (
                "train_tf_while_loop",
                "got True with train_tf_function=False; a loop inside TensorFlow needs a graph.",
            )


@dataclasses.dataclass
class ExperimentConfig(run_header.ConfigOfRun):
    """Everything that defines one training run."""

    task: TaskConfig = dataclasses.field(default_factory=TaskConfig)
    """What to train, on what data."""

    trainer: TrainerConfig = dataclasses.field(default_factory=TrainerConfig)
    """How long to train, and what to write on the way."""

    runtime: RuntimeConfig = dataclasses.field(default_factory=RuntimeConfig)
    """Devices, precision, reproducibility."""


def find_privacy(params: ExperimentConfig) -> DifferentialPrivacyConfig | None:
    """Returns the task's `differential_privacy_config`, if its config has such a field."""
    found: DifferentialPrivacyConfig | None
    found = getattr(params.task, "differential_privacy_config", None)
    return found
