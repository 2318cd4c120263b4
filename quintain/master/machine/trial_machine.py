"""State machine of one trial: requested operations, finished work, next workload.

The machine is pure: it knows no processes, no clock and no store. The same calls in the same order
give the same state, so that a restarted master rebuilds it from the stored events.

Two rules make a crash harmless. A validation that the search method asked for is told to it only
when the state that was validated is saved: what the method has acted on is never taken back. And
what was done in a state is kept together with the checkpoint of this state: after a return to the
checkpoint, exactly what was lost is done again. This also holds for an older checkpoint or the
beginning, where newer ones are damaged: what the method was told since is done again, and not told
again.
"""

import copy
import dataclasses
from typing import Any, Final

from quintain.master.machine import trial_states
from quintain.records.config import experiment_spec
from quintain.records.rows import states, workload
from quintain.search import base_search, searcher

_MOST_FOLLOWING: Final = 100
"""Workloads that are told at most."""


KindOfWork = workload.WorkloadKind


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
        excluded_slots: Slots on which it is not to be started again.
        losses: Processes lost in a row without anybody's fault.
        validated_at: Batches at the newest validation, or None if there is none.
        validations: All validations, in order.
        start_time: Seconds since the epoch, when it was created.
        end_time: Seconds since the epoch, when it ended, or None.
    """

    __slots__ = (
        "_config",
        "_cursor",
        "_exit",
        "_num_told",
        "_operations",
        "_saved",
        "_stop_reason",
        "_wants_checkpoint",
        "early_error",
        "end_time",
        "excluded_slots",
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
        config: experiment_spec.ExperimentSpec,
        *,
        source_checkpoint: str | None = None,
        start_time: float = 0.0,
    ) -> None:
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
        self.excluded_slots = trial_states.NO_SLOTS
        self.validated_at: int | None = None
        self.validations: list[trial_states.Validation] = []
        self.start_time = start_time
        self.end_time: float | None = None
        self._config = config
        self._operations: list[base_search.Operation] = []
        self._cursor = 0
        self._saved: list[trial_states.Saved] = []
        self._num_told = 0
        self._wants_checkpoint = False
        self._stop_reason = ""
        self._exit: base_search.ExitReason | None = None

    # What is asked.

    def add_operation(self, operation: base_search.Operation) -> None:
        """Adds what the search method asks of this trial to what it asked before."""
        self._operations.append(operation)

    def next_step(self) -> trial_states.Step | None:
        """Returns the next piece of work, or None if there is none now."""
        if self.state.is_terminal:
            return None
        if self._stop_reason:
            return self.closing_step()
        if self._needs_validation():
            return trial_states.Step(KindOfWork.VALIDATE)
        if self._needs_checkpoint():
            return trial_states.Step(KindOfWork.CHECKPOINT)
        operation = self._operation
        if isinstance(operation, base_search.Train):
            return trial_states.Step(KindOfWork.TRAIN, self._count_batches(operation))
        return None

    def closing_step(self) -> trial_states.Step | None:
        """Returns what has to be done before the process may end: a checkpoint, or nothing."""
        if self.state.is_terminal or self.is_saved:
            return None
        return trial_states.Step(KindOfWork.CHECKPOINT)

    @property
    def checkpoints(self) -> list[str]:
        """UUIDs of the checkpoints of what it has done, in order."""
        return [saved.uuid for saved in self._saved]

    @property
    def checkpoint(self) -> str | None:
        """UUID of its newest checkpoint, or None."""
        return self._saved[-1].uuid if self._saved else None

    @property
    def checkpoint_at(self) -> int | None:
        """Batches at the newest checkpoint, or None if there is none."""
        return self._saved[-1].at if self._saved else None

    @property
    def is_saved(self) -> bool:
        """True if nothing is lost if the process ends now."""
        return self.total_batches in (0, self.checkpoint_at)

    @property
    def target_batches(self) -> int:
        """Batches that it is to be trained for in all, as far as it was asked."""
        lengths = (
            operation.length
            for operation in self._operations
            if isinstance(operation, base_search.Train)
        )
        return max(lengths, default=0) * self._config.searcher.batches_per_unit

    @property
    def is_stop_requested(self) -> bool:
        """True if its own code asked to stop."""
        return bool(self._stop_reason)

    @property
    def _operation(self) -> base_search.Operation | None:
        """The first operation that is not done."""
        self._skip_done()
        has_any = self._cursor < len(self._operations)
        return self._operations[self._cursor] if has_any else None

    def _skip_done(self) -> None:
        """Goes on to the first operation that is not done."""
        while self._cursor < len(self._operations) and self._is_done(self._cursor):
            self._cursor += 1

    def _is_done(self, index: int) -> bool:
        """Returns whether nothing of an operation is left to do, or to tell the search method."""
        operation = self._operations[index]
        if isinstance(operation, base_search.Train):
            return self.total_batches >= operation.length * self._config.searcher.batches_per_unit
        # It was told before the trial went back to an older state, and is done again.
        return index < self._num_told and self._is_reached(operation)

    def _is_reached(self, operation: base_search.Operation) -> bool:
        """Returns whether the state is saved in which an operation may be told as done."""
        match operation:
            case base_search.Validate():
                is_validated = self.validated_at == self.total_batches
                return is_validated and self.checkpoint_at == self.total_batches
            case base_search.Checkpoint():
                return self.checkpoint_at == self.total_batches
            case _:
                return isinstance(operation, base_search.Close) and self.is_saved

    def _needs_validation(self) -> bool:
        config = self._config
        if config.perform_initial_validation and self.validated_at is None:
            return self.total_batches == 0
        if isinstance(self._operation, base_search.Validate):
            return self.validated_at != self.total_batches
        period = config.min_validation_period
        return period is not None and self.num_unvalidated_batches >= period

    def _needs_checkpoint(self) -> bool:
        if self.checkpoint_at == self.total_batches:
            return False
        if self._wants_checkpoint:
            return True
        if isinstance(self._operation, base_search.Validate | base_search.Checkpoint):
            return True
        if isinstance(self._operation, base_search.Close):
            return not self.is_saved
        period = self._config.min_checkpoint_period
        return period is not None and self.total_batches - (self.checkpoint_at or 0) >= period

    def _count_batches(self, operation: base_search.Train) -> int:
        config, total = self._config, self.total_batches
        goal = operation.length * config.searcher.batches_per_unit
        limits = [config.scheduling_unit, goal - total]
        if config.min_validation_period is not None:
            limits.append((self.validated_at or 0) + config.min_validation_period - total)
        if config.min_checkpoint_period is not None:
            limits.append((self.checkpoint_at or 0) + config.min_checkpoint_period - total)
        return min(limits)

    @property
    def num_unvalidated_batches(self) -> int:
        """Batches that it was trained on since its last validation."""
        return self.total_batches - (self.validated_at or 0)

    # What happens.

    def record_training(self, num_batches: int) -> None:
        """Notes that so many batches were trained on."""
        # Before each change, so that it does not matter who has asked for the next step.
        self._skip_done()
        self.total_batches += num_batches

    def record_validation(
        self,
        metric: float,
        is_best: bool,
        further: tuple[float, ...] = (),
    ) -> None:
        """Notes the searched metric of the present state.

        Args:
            metric: The metric as it was measured.
            is_best: Whether no other validation of the experiment was better.
            further: The other metrics that decide.
        """
        self._skip_done()
        self.validated_at = self.total_batches
        self.validations.append(trial_states.Validation(self.total_batches, metric, further))
        if self.checkpoint_at == self.total_batches:
            self._saved[-1].validated_at = self.validated_at
        policy = self._config.checkpoint_policy
        self._wants_checkpoint = policy == "all" or (policy == "best" and is_best)

    def record_checkpoint(self, uuid: str) -> None:
        """Notes that the present state is saved."""
        self._skip_done()
        self._saved.append(
            trial_states.Saved(uuid, self.total_batches, self.validated_at, self._cursor)
        )
        self._wants_checkpoint = False

    def request_stop(self, reason: str) -> None:
        """Notes why the trial is to end; it is saved first."""
        self._stop_reason = reason

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
        if self.restarts >= self._config.max_restarts:
            self.end(states.TrialState.ERROR, reason, base_search.ExitReason.ERRORED, time)
        else:
            self.restarts += 1
        return kept

    def roll_back(self) -> int | None:
        """Returns to the last checkpoint.

        Returns:
            The batches after which everything is forgotten (-1 for all), or None if nothing is.
        """
        self._stop_reason = ""
        self._wants_checkpoint = False
        if self.checkpoint_at == self.total_batches:
            return None
        saved = self._saved[-1] if self._saved else trial_states.Saved("", -1, None, 0)
        self.total_batches = max(saved.at, 0)
        self.validated_at = saved.validated_at
        self.validations = [each for each in self.validations if each.at <= saved.at]
        # What the search method was told is done again, but not told again.
        self._cursor = saved.cursor
        return saved.at

    def fall_back(self, uuid: str | None, reason: str) -> int | None:
        """Returns to an older checkpoint, because the newer ones are damaged.

        Args:
            uuid: The checkpoint to go on from, or None if the trial begins anew.
            reason: What the user is to know.

        Returns:
            As `roll_back`.
        """
        while self._saved and self._saved[-1].uuid != uuid:
            self._saved.pop()
        self.reason = reason
        return self.roll_back()

    def revive(self, config: experiment_spec.ExperimentSpec, hparams: dict[str, Any]) -> int | None:
        """Takes up an ended trial again, from its last checkpoint.

        Returns:
            As `roll_back`.
        """
        self._config = config
        self.hparams = hparams
        kept = self.roll_back()
        self.state = states.TrialState.ACTIVE
        self.reason = ""
        self.early_error = None
        self.restarts = 0
        self.losses = 0
        self.excluded_slots = trial_states.NO_SLOTS
        self.end_time = None
        self._exit = None
        return kept

    def _exited_early(self, reason: base_search.ExitReason) -> searcher.ExitedEarly:
        length = self.total_batches // self._config.searcher.batches_per_unit
        return searcher.ExitedEarly(self.request_id, reason, length)

    def next_event(self, time: float) -> searcher.Event | None:
        """Returns the next thing that the search method has to be told, and notes that it is."""
        if self._exit is not None:
            reason, self._exit = self._exit, None
            return self._exited_early(reason)
        if self.state.is_terminal:
            return None
        if self._stop_reason and self.is_saved:
            self.end(states.TrialState.COMPLETED, self._stop_reason, None, time)
            return self._exited_early(base_search.ExitReason.USER_CANCELED)
        operation = self._operation
        if operation is None or not self._is_reached(operation):
            return None
        self._cursor += 1
        self._num_told = self._cursor
        match operation:
            case base_search.Validate():
                length = self.total_batches // self._config.searcher.batches_per_unit
                _, metric, further = self.validations[-1]
                return searcher.Validated(self.request_id, metric, length, further)
            case base_search.Checkpoint():
                return searcher.Checkpointed(self.request_id)
            case _:
                self.reason = ""
                self.state = states.TrialState.COMPLETED
                self.end_time = time
                return searcher.Closed(self.request_id)

    # What is shown.

    @property
    def latest_metric(self) -> float | None:
        """Newest value of the searched metric."""
        return self.validations[-1].metric if self.validations else None

    @property
    def best_metric(self) -> float | None:
        """Best value of the searched metric; not a number only if all are."""
        smaller_is_better = self._config.searcher.smaller_is_better
        return trial_states.find_best(self.validations, smaller_is_better=smaller_is_better)

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
        skipped = ("_config", "_operations", "_saved")
        described = {name: getattr(self, name) for name in self.__slots__ if name not in skipped}
        described["_saved"] = [dataclasses.astuple(each) for each in self._saved]
        described["_operations"] = [searcher.describe(each) for each in self._operations]
        return described


def find_following(
    machine: TrialMachine, checkpoint: workload.Workload
) -> tuple[workload.Workload, ...]:
    """Returns the workloads after a checkpoint, up to the first whose outcome decides what is next.

    That is a validation; before it, only training is certain. Where the search method waits for the
    checkpoint to decide, there is nothing.
    """
    # What happens to a copy is told to nobody; it needs the newest validation only.
    shared = {
        id(machine._config): machine._config,
        id(machine.hparams): machine.hparams,
        id(machine.validations): machine.validations[-1:],
    }
    ahead = copy.deepcopy(machine, shared)
    ahead.record_checkpoint("")
    while ahead.next_event(0.0) is not None:
        pass
    found: list[workload.Workload] = []
    while len(found) < _MOST_FOLLOWING:
        step = ahead.next_step()
        if step is None or step.kind is workload.WorkloadKind.CHECKPOINT:
            break
        found.append(
            workload.Workload(
                kind=step.kind,
                experiment_id=checkpoint.experiment_id,
                trial_id=checkpoint.trial_id,
                number=checkpoint.number + 1 + len(found),
                num_batches=step.num_batches,
                total_batches=ahead.total_batches,
            )
        )
        if step.kind is workload.WorkloadKind.VALIDATE:
            break
        ahead.record_training(step.num_batches)
    return tuple(found)
