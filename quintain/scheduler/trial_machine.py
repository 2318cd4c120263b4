"""One trial: what the search method asked of it, what is done, and which workload is next.

The machine is pure: it knows no processes, no clock and no store. The same calls in the same order
give the same state, so that a restarted master rebuilds it from the stored events.

Two rules make a crash harmless. A validation that the search method asked for is told to it only
when the state that was validated is saved: what the method has acted on is never taken back. And
what was done in a state is kept together with the checkpoint of this state: after a return to the
checkpoint, exactly what was lost is done again.
"""

import dataclasses
import math
from typing import Any

from quintain.records import experiment_config, states, workload
from quintain.search import base_search, searcher

KindOfWork = workload.WorkloadKind


@dataclasses.dataclass(frozen=True)
class TrialSettings:
    """What an experiment's config says about the workloads of its trials."""

    scheduling_unit: int
    """Most batches of a workload."""

    min_validation_period: int | None
    """Batches after which a trial is validated at the latest."""

    min_checkpoint_period: int | None
    """Batches after which a trial is saved at the latest."""

    checkpoint_policy: str
    """Which validations are followed by a checkpoint: `best`, `all` or `none`."""

    perform_initial_validation: bool
    """Whether trials are validated before they are trained."""

    max_restarts: int
    """How often a trial that fails is started again."""

    batches_per_unit: int
    """Batches that the lengths of the search method count."""

    smaller_is_better: bool
    """Whether smaller values of the searched metric are better."""

    @classmethod
    def from_config(cls, config: experiment_config.ExperimentConfig) -> "TrialSettings":
        """Returns the settings of an experiment."""
        return cls(
            scheduling_unit=config.scheduling_unit,
            min_validation_period=config.min_validation_period,
            min_checkpoint_period=config.min_checkpoint_period,
            checkpoint_policy=config.checkpoint_policy,
            perform_initial_validation=config.perform_initial_validation,
            max_restarts=config.max_restarts,
            batches_per_unit=config.searcher.batches_per_unit,
            smaller_is_better=config.searcher.smaller_is_better,
        )


@dataclasses.dataclass(frozen=True)
class Step:
    """The next piece of work of a trial; a `Workload` without names."""

    kind: workload.WorkloadKind
    """What to do."""

    num_batches: int = 0
    """Batches to train on."""


class TrialMachine:
    """The state of one trial.

    Attributes:
        request_id: Name that the search method gave it.
        hparams: Its hyperparameters.
        seed: Seed of its random numbers.
        parent: Trial from whose checkpoint it started, or None.
        source_checkpoint: UUID of another trial's checkpoint from which it starts, or None.
        state: What it is doing.
        reason: Why it ended, if not because the search method closed it.
        is_invalid: Whether its code said that its hyperparameters can't be trained.
        total_batches: Batches it has trained on.
        num_results: Workloads that were done, also those that were lost later.
        early_error: What its newest error before its first batch is recognised by, or None.
        restarts: How often it was started again after a failure.
        losses: Processes lost in a row without anybody's fault.
        checkpoint: UUID of its newest checkpoint, or None.
        checkpoint_at: Batches at the newest checkpoint, or None if there is none.
        validated_at: Batches at the newest validation, or None if there is none.
        validations: Batches and metric of all validations.
        start_time: Seconds since the epoch, when it was created.
        end_time: Seconds since the epoch, when it ended, or None.
    """

    __slots__ = (
        "_cursor",
        "_exit",
        "_is_stop_requested",
        "_operations",
        "_saved_validated_at",
        "_settings",
        "_wants_checkpoint",
        "checkpoint",
        "checkpoint_at",
        "early_error",
        "end_time",
        "hparams",
        "is_invalid",
        "losses",
        "num_results",
        "parent",
        "reason",
        "request_id",
        "restarts",
        "seed",
        "source_checkpoint",
        "start_time",
        "state",
        "total_batches",
        "validated_at",
        "validations",
    )

    def __init__(
        self,
        create: base_search.Create,
        settings: TrialSettings,
        *,
        source_checkpoint: str | None = None,
        start_time: float = 0.0,
    ) -> None:
        """Starts with nothing done and nothing asked."""
        self.request_id = create.request_id
        self.hparams = create.hparams
        self.seed = create.seed
        self.parent = create.parent
        self.source_checkpoint = source_checkpoint
        self.state = states.TrialState.ACTIVE
        self.reason = ""
        self.is_invalid = False
        self.total_batches = 0
        self.num_results = 0
        self.early_error: str | None = None
        self.restarts = 0
        self.losses = 0
        self.checkpoint: str | None = None
        self.checkpoint_at: int | None = None
        self.validated_at: int | None = None
        self.validations: list[tuple[int, float]] = []
        self.start_time = start_time
        self.end_time: float | None = None
        self._settings = settings
        self._operations: list[base_search.Operation] = []
        self._cursor = 0
        self._saved_validated_at: int | None = None
        self._wants_checkpoint = False
        self._is_stop_requested = False
        self._exit: base_search.ExitReason | None = None

    # What is asked.

    def add_operation(self, operation: base_search.Operation) -> None:
        """Adds what the search method asks of this trial to what it asked before."""
        self._operations.append(operation)

    def next_step(self) -> Step | None:
        """Returns the next piece of work, or None if there is none now."""
        if self.state.is_terminal:
            return None
        if self._is_stop_requested:
            return self.closing_step()
        if self._needs_validation():
            return Step(KindOfWork.VALIDATE)
        if self._needs_checkpoint():
            return Step(KindOfWork.CHECKPOINT)
        operation = self._operation
        if isinstance(operation, base_search.Train):
            return Step(KindOfWork.TRAIN, self._count_batches(operation))
        return None

    def closing_step(self) -> Step | None:
        """Returns what has to be done before the process may end: a checkpoint, or nothing."""
        if self.state.is_terminal or self.is_saved:
            return None
        return Step(KindOfWork.CHECKPOINT)

    @property
    def is_saved(self) -> bool:
        """Whether nothing is lost if the process ends now."""
        return self.total_batches in (0, self.checkpoint_at)

    @property
    def target_batches(self) -> int:
        """Batches that it is to be trained for in all, as far as it was asked."""
        lengths = (
            operation.length
            for operation in self._operations
            if isinstance(operation, base_search.Train)
        )
        return max(lengths, default=0) * self._settings.batches_per_unit

    @property
    def is_stop_requested(self) -> bool:
        """Whether its own code asked to stop."""
        return self._is_stop_requested

    @property
    def _operation(self) -> base_search.Operation | None:
        """The first operation that is not done."""
        self._skip_done()
        has_any = self._cursor < len(self._operations)
        return self._operations[self._cursor] if has_any else None

    def _skip_done(self) -> None:
        """Goes on to the first operation that is not done."""
        while self._cursor < len(self._operations):
            operation = self._operations[self._cursor]
            if not isinstance(operation, base_search.Train):
                return
            if self.total_batches < operation.length * self._settings.batches_per_unit:
                return
            self._cursor += 1

    def _needs_validation(self) -> bool:
        settings = self._settings
        if settings.perform_initial_validation and self.validated_at is None:
            return self.total_batches == 0
        if isinstance(self._operation, base_search.Validate):
            return self.validated_at != self.total_batches
        period = settings.min_validation_period
        return period is not None and self.total_batches - (self.validated_at or 0) >= period

    def _needs_checkpoint(self) -> bool:
        if self.checkpoint_at == self.total_batches:
            return False
        if self._wants_checkpoint:
            return True
        if isinstance(self._operation, base_search.Validate | base_search.Checkpoint):
            return True
        if isinstance(self._operation, base_search.Close):
            return not self.is_saved
        period = self._settings.min_checkpoint_period
        return period is not None and self.total_batches - (self.checkpoint_at or 0) >= period

    def _count_batches(self, operation: base_search.Train) -> int:
        settings, total = self._settings, self.total_batches
        limits = [settings.scheduling_unit, operation.length * settings.batches_per_unit - total]
        if settings.min_validation_period is not None:
            limits.append((self.validated_at or 0) + settings.min_validation_period - total)
        if settings.min_checkpoint_period is not None:
            limits.append((self.checkpoint_at or 0) + settings.min_checkpoint_period - total)
        return min(limits)

    # What happens.

    def record_training(self, num_batches: int) -> None:
        """Notes that so many batches were trained on."""
        self.total_batches += num_batches

    def record_validation(self, metric: float, *, is_best: bool) -> None:
        """Notes the searched metric of the present state.

        Args:
            metric: The metric as it was measured.
            is_best: Whether no other validation of the experiment was better.
        """
        self.validated_at = self.total_batches
        self.validations.append((self.total_batches, metric))
        if self.checkpoint_at == self.total_batches:
            self._saved_validated_at = self.validated_at
        policy = self._settings.checkpoint_policy
        self._wants_checkpoint = policy == "all" or (policy == "best" and is_best)

    def record_checkpoint(self, uuid: str) -> None:
        """Notes that the present state is saved."""
        self.checkpoint = uuid
        self.checkpoint_at = self.total_batches
        self._saved_validated_at = self.validated_at
        self._wants_checkpoint = False

    def request_stop(self) -> None:
        """Notes that the trial's own code wants to end; it is saved first."""
        self._is_stop_requested = True

    def end(
        self,
        state: states.TrialState,
        reason: str,
        told: base_search.ExitReason | None,
        time: float,
    ) -> None:
        """Ends the trial.

        Args:
            state: Its last state.
            reason: Why it ends.
            told: What the search method is told, or None if nothing.
            time: Seconds since the epoch.
        """
        self.state = state
        self.reason = reason
        self._exit = told
        self.end_time = time

    def fail(self, reason: str, time: float) -> int | None:
        """Starts the trial again from its last checkpoint, or ends it if that was too often.

        Returns:
            As `roll_back`.
        """
        kept = self.roll_back()
        self.reason = reason
        if self.restarts >= self._settings.max_restarts:
            self.end(states.TrialState.ERROR, reason, base_search.ExitReason.ERRORED, time)
        else:
            self.restarts += 1
        return kept

    def roll_back(self) -> int | None:
        """Returns to the last checkpoint.

        Returns:
            The batches after which everything is forgotten (-1 for all), or None if nothing is.
        """
        self._is_stop_requested = False
        self._wants_checkpoint = False
        if self.checkpoint_at == self.total_batches:
            return None
        kept = -1 if self.checkpoint_at is None else self.checkpoint_at
        self.total_batches = self.checkpoint_at or 0
        self.validated_at = self._saved_validated_at
        self.validations = [(at, metric) for at, metric in self.validations if at <= kept]
        # Only training can be undone: everything else was told to the search method when saved.
        while self._cursor and isinstance(self._operations[self._cursor - 1], base_search.Train):
            self._cursor -= 1
        return kept

    def revive(self, settings: TrialSettings, hparams: dict[str, Any]) -> int | None:
        """Takes up an ended trial again, from its last checkpoint.

        Args:
            settings: What the experiment's config says now.
            hparams: Its hyperparameters now.

        Returns:
            As `roll_back`.
        """
        self._settings = settings
        self.hparams = hparams
        kept = self.roll_back()
        self.state = states.TrialState.ACTIVE
        self.reason = ""
        self.early_error = None
        self.restarts = 0
        self.losses = 0
        self.end_time = None
        self._exit = None
        return kept

    def _exited_early(self, reason: base_search.ExitReason) -> searcher.ExitedEarly:
        length = self.total_batches // self._settings.batches_per_unit
        return searcher.ExitedEarly(self.request_id, reason, length)

    def next_event(self, time: float) -> searcher.Event | None:
        """Returns the next thing that the search method has to be told, and notes that it is."""
        if self._exit is not None:
            reason, self._exit = self._exit, None
            return self._exited_early(reason)
        if self.state.is_terminal:
            return None
        if self._is_stop_requested and self.is_saved:
            self.end(states.TrialState.COMPLETED, "The trial's code asked to stop.", None, time)
            return self._exited_early(base_search.ExitReason.USER_CANCELED)
        is_saved = self.checkpoint_at == self.total_batches
        match self._operation:
            case base_search.Validate() if is_saved and self.validated_at == self.total_batches:
                self._cursor += 1
                length = self.total_batches // self._settings.batches_per_unit
                return searcher.Validated(self.request_id, self.validations[-1][1], length)
            case base_search.Checkpoint() if is_saved:
                self._cursor += 1
                return searcher.Checkpointed(self.request_id)
            case base_search.Close() if self.is_saved:
                self._cursor += 1
                self.reason = ""
                self.state = states.TrialState.COMPLETED
                self.end_time = time
                return searcher.Closed(self.request_id)
            case _:
                return None

    # What is shown.

    @property
    def latest_metric(self) -> float | None:
        """Newest value of the searched metric."""
        return self.validations[-1][1] if self.validations else None

    @property
    def best_metric(self) -> float | None:
        """Best value of the searched metric; not a number only if all are."""
        metrics = [metric for _, metric in self.validations]
        numbers = [metric for metric in metrics if not math.isnan(metric)]
        if not numbers:
            return metrics[0] if metrics else None
        return min(numbers) if self._settings.smaller_is_better else max(numbers)

    @property
    def progress(self) -> float:
        """Part of what it was asked so far that is done."""
        if self.state is states.TrialState.COMPLETED:
            return 1.0
        target = self.target_batches
        return min(self.total_batches / target, 1.0) if target else 0.0

    def describe(self) -> dict[str, Any]:
        """Returns the whole state as plain data, for comparisons."""
        self._skip_done()
        skipped = ("_settings", "_operations")
        described = {name: getattr(self, name) for name in self.__slots__ if name not in skipped}
        described["_operations"] = [searcher.describe(each) for each in self._operations]
        return described
