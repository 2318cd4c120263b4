"""State machine of one experiment: its search, its trials, and events.

The machine is pure: events in, effects out. It knows no processes, no clock and no store. The same
events in the same order give the same state; a restarted master gives it the stored ones again.

Events are plain mappings with `kind`, and the times that `active_time.stamp` adds:

| kind | further keys | what happened |
|---|---|---|
| `start` | `config`, `source_checkpoint`, `trial_seed`, `history` | the experiment was created; \
`history` are earlier trials that its search learns from |
| `result` | `request_id`, `number`, `work`, `num_batches`, `metric`, `further`, `problem`, \
`checkpoint`, `exited_reason`, `stop`, `stop_reason` | a trial did a workload; `stop` says whether \
that ends the `trial` or the whole `search` |
| `failure` | `request_id`, `reason`, `is_counted` | a trial's process is gone, and work with it |
| | `is_final`, `excluded_slots` | of this kind and of `exit`: what its log policies say |
| `damage` | `request_id`, `fallback`, `reason` | a trial's newest checkpoints can't be read; \
`fallback` is an older one, or null for its beginning |
| `exit` | `request_id`, `exited_reason`, `reason`, `error` | a trial's code ended, and says why; \
`error` if that was before the first batch |
| `pause`, `activate`, `cancel`, `kill` | | a user asked for it |
| `kill_trial` | `request_id` | a user asked for it |
| `extend` | `max_trials` | a user asked for more trials |
| `resume` | `config`, `hparams`, `max_trials` | a user takes up the ended experiment again, \
maybe with more trials |
| `fatal` | `reason` | the experiment can't go on |
| `taken_up` | | a master took it up again; the time before does not count |
| `time_up` | `reason` | its budget of time is used up |
| `drained` | | no process is left of an experiment that is stopping |
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from quintain import errors
from quintain.master.machine import active_time, search_driver, trial_machine
from quintain.master.machine import effects as effects_lib
from quintain.records.config import experiment_spec
from quintain.records.rows import codec, states, workload
from quintain.search import base_search

MAX_LOSSES: Final = 5
"""Processes of a trial that may be lost in a row, through nobody's fault, before it counts."""

_State = states.ExperimentState


class ExperimentMachine:
    """The state of one experiment.

    Attributes:
        config: Its config.
        search: What drives its search method and its trials.
        state: What it is doing.
        reason: Why it ended, if not because the search was over.
        end_time: Seconds since the epoch, when it ended, or None.
        progress: How much of its training is done, from 0 to 1; it falls only if it gets more.
        is_killed: Whether its processes are to end at once.
    """

    def __init__(self, config: experiment_spec.ExperimentSpec) -> None:
        """Builds the search; nothing happens before the event `start`.

        Raises:
            ConfigError: If the hyperparameters are malformed, or the method can't search them.
        """
        self.config = config
        self.state = _State.ACTIVE
        self.reason = ""
        self.end_time: float | None = None
        self.is_killed = False
        self.search = search_driver.SearchDriver(config)
        self._identical_errors = _IdenticalErrors()
        self.progress = 0.0
        self._active_time = active_time.ActiveTime()

    @property
    def trials(self) -> dict[str, trial_machine.TrialMachine]:
        """Its trials by the names that the search method gave them, in order of creation."""
        return self.search.trials

    def check(self, command: str) -> None:
        """Checks that a command of a user is allowed now.

        Raises:
            StateError: If it is not; the message says what is.
        """
        if command in ("cancel", "kill") and self.state in (
            _State.STOPPING_CANCELED,
            _State.CANCELED,
        ):
            return
        states.check_transition(self.state, states.COMMANDS[command])

    def apply(self, event: Mapping[str, Any]) -> effects_lib.Effects:
        """Changes the state by one event.

        Returns:
            What it did.
        """
        effects = effects_lib.Effects()
        self.search.time = event["time"]
        self._active_time.note(event, is_active=self.state is _State.ACTIVE)
        self._apply(event, effects)
        if self.search.is_over and self._is_searching:
            self._shut_down()
        progress = self.search.progress()
        can_fall = event["kind"] in ("extend", "resume")
        self.progress = progress if can_fall else max(self.progress, progress)
        return effects

    def _apply(  # noqa: C901 - one case for each kind of event
        self, event: Mapping[str, Any], effects: effects_lib.Effects
    ) -> None:
        match event["kind"]:
            case "start":
                self.search.start(
                    event.get("source_checkpoint"),
                    event.get("trial_seed"),
                    effects,
                    most_ready=event.get("most_ready"),
                    history=event.get("history", ()),
                )
                if effects.created and (note := event.get("note")):
                    effects.notes.append((effects.created[0], note))
            case "result":
                self._record_result(event, effects)
            case "failure":
                self._record_failure(event, effects)
            case "damage":
                self._record_damage(event, effects)
            case "exit":
                self._record_exit(event, effects)
            case "kill_trial":
                trial = self.trials[event["request_id"]]
                if not trial.state.is_terminal:
                    told, text = base_search.ExitReason.USER_CANCELED, "Killed by a user."
                    self._end_trial(trial, states.TrialState.CANCELED, text, told, effects)
            case "pause" | "activate" | "cancel" | "kill" as command:
                self._command(command, effects)
            case "extend":
                self._extend(event["max_trials"], effects)
            case "resume":
                self._resume(event, effects)
            case "fatal" | "time_up" as kind:
                is_fatal = kind == "fatal"
                state = _State.STOPPING_ERROR if is_fatal else _State.STOPPING_COMPLETED
                self._stop(state, event["reason"])
            case active_time.TAKEN_UP:
                pass  # The active time has noted it.
            case "drained":
                self._finish(effects)
            case kind:
                raise errors.QuintainError(f"There is no event of the kind {kind!r}.")

    def find_time_left(self, now: float) -> float:
        """Returns the seconds left of the budget of time at a moment of `active_time.now`."""
        budget = self.config.searcher.time_budget
        return math.inf if budget is None else budget - self._active_time.until(now)

    def describe(self) -> dict[str, Any]:
        """Returns the whole state as plain data, for comparisons."""
        plain = {
            "state": self.state.value,
            "reason": self.reason,
            "best": self.search.best,
            "progress": self.progress,
            "open": self.search.open_trials,
            "end_time": self.end_time,
            "trials": [trial.describe() for trial in self.trials.values()],
        }
        return dict(codec.to_plain(plain))

    # Events.

    def _record_result(self, event: Mapping[str, Any], effects: effects_lib.Effects) -> None:
        trial = self.trials[event["request_id"]]
        if event["number"] <= trial.num_results:
            effects.is_ignored = True
            return
        trial.num_results = event["number"]
        trial.losses = 0
        effects.changed[trial.request_id] = None
        if trial.state.is_terminal:
            return
        match workload.WorkloadKind(event["work"]):
            case workload.WorkloadKind.TRAIN:
                self._identical_errors.note_training()
                trial.record_training(event["num_batches"])
                self.search.num_done_batches += event["num_batches"]
            case workload.WorkloadKind.VALIDATE if event.get("problem"):
                self._end_failed(trial, event["problem"], effects)
                return
            case workload.WorkloadKind.VALIDATE:
                self._record_validation(trial, event)
            case workload.WorkloadKind.CHECKPOINT:
                trial.record_checkpoint(event["checkpoint"])
        if event.get("exited_reason") == workload.ExitedReason.USER_CANCELED:
            trial.request_stop("The trial's code asked to stop.")
        elif event.get("exited_reason") == workload.ExitedReason.INVALID_HP:
            self._end_invalid(trial, "", effects)
            return
        self._advance(trial, effects)

    def _record_validation(
        self, trial: trial_machine.TrialMachine, event: Mapping[str, Any]
    ) -> None:
        metric = codec.from_plain(float, event["metric"])
        further = codec.from_plain(tuple[float, ...], event.get("further", ()))
        trial.record_validation(metric, self.search.note_metric(metric), further)
        if event.get("stop") == "trial":
            trial.request_stop(event["stop_reason"])
        elif event.get("stop") == "search" and self._is_searching:
            self._stop(_State.STOPPING_COMPLETED, event["stop_reason"])

    def _record_failure(self, event: Mapping[str, Any], effects: effects_lib.Effects) -> None:
        trial = self.trials[event["request_id"]]
        if trial.state.is_terminal:
            return
        effects.changed[trial.request_id] = None
        before = trial.total_batches
        trial.excluded_slots |= frozenset(event.get("excluded_slots", ()))
        if event.get("is_final") and not self.state.is_stopping:
            self._end_failed(trial, event["reason"], effects)
            return
        is_counted = event.get("is_counted", True)
        if not is_counted:
            trial.losses += 1
            is_counted = trial.losses > MAX_LOSSES
        if is_counted and not self.state.is_stopping:
            kept = trial.fail(event["reason"], event["time"])
        else:
            kept = trial.roll_back()
            trial.reason = event["reason"]
        self.search.note_roll_back(trial, before, kept, effects)
        if trial.state.is_terminal:
            self.search.note_end(trial, effects)
            self._advance(trial, effects)

    def _record_damage(self, event: Mapping[str, Any], effects: effects_lib.Effects) -> None:
        trial = self.trials[event["request_id"]]
        if trial.state.is_terminal or event["fallback"] not in (None, *trial.checkpoints):
            effects.is_ignored = True
            return
        before = trial.total_batches
        kept = trial.fall_back(event["fallback"], event["reason"])
        effects.changed[trial.request_id] = None
        self.search.note_roll_back(trial, before, kept, effects)

    def _record_exit(self, event: Mapping[str, Any], effects: effects_lib.Effects) -> None:
        trial = self.trials[event["request_id"]]
        if trial.state.is_terminal or self._stops_for(trial, event, effects):
            return
        kind = workload.ExitedReason(event["exited_reason"])
        is_early = kind is workload.ExitedReason.ERRORED_AT_START
        match kind:
            case workload.ExitedReason.INVALID_HP:
                self._end_invalid(trial, event["reason"], effects)
            case workload.ExitedReason.USER_CANCELED:
                self._end_trial(
                    trial,
                    states.TrialState.COMPLETED,
                    event["reason"] or "The trial's code asked to stop.",
                    base_search.ExitReason.USER_CANCELED,
                    effects,
                )
            case workload.ExitedReason.UNUSABLE:
                self._end_failed(trial, event["reason"], effects)
            case _ if is_early and event["error"] == trial.early_error:
                # It would fail at the other restarts, too.
                self._end_failed(trial, event["reason"], effects)
            case workload.ExitedReason.ERRORED | workload.ExitedReason.ERRORED_AT_START:
                trial.early_error = event.get("error")
                self._record_failure(event, effects)

    def _stops_for(
        self,
        trial: trial_machine.TrialMachine,
        event: Mapping[str, Any],
        effects: effects_lib.Effects,
    ) -> bool:
        """Ends the experiment if too many trials in a row failed alike before their first batch."""
        alike = self._identical_errors.note(trial, event.get("error"))
        limit = self.config.max_identical_errors
        if self.state.is_stopping or not limit or len(alike) < limit:
            return False
        for each in alike:
            if not each.state.is_terminal:
                each.end(states.TrialState.ERROR, event["reason"], None, event["time"])
                self.search.note_end(each, effects)
        self._stop(
            _State.STOPPING_ERROR,
            f"{limit} trials in a row failed with the same error before their first batch "
            f"(max_identical_errors: {limit}): {event['reason']}",
        )
        return True

    @property
    def _is_searching(self) -> bool:
        """True if the search method is still told and asked."""
        return self.state in (_State.ACTIVE, _State.PAUSED)

    def _advance(self, trial: trial_machine.TrialMachine, effects: effects_lib.Effects) -> None:
        if self._is_searching:
            self.search.advance(trial, effects)

    def _end_trial(
        self,
        trial: trial_machine.TrialMachine,
        state: states.TrialState,
        reason: str,
        told: base_search.ExitReason,
        effects: effects_lib.Effects,
    ) -> None:
        trial.end(state, reason, told, self.search.time)
        self.search.note_end(trial, effects)
        self._advance(trial, effects)

    def _end_failed(
        self, trial: trial_machine.TrialMachine, reason: str, effects: effects_lib.Effects
    ) -> None:
        told = base_search.ExitReason.ERRORED
        self._end_trial(trial, states.TrialState.ERROR, reason, told, effects)

    def _end_invalid(
        self, trial: trial_machine.TrialMachine, reason: str, effects: effects_lib.Effects
    ) -> None:
        trial.is_invalid = True
        self._end_trial(
            trial,
            states.TrialState.ERROR,
            f"Invalid hyperparameters. {reason}".strip(),
            base_search.ExitReason.INVALID_HP,
            effects,
        )

    def _command(self, command: str, effects: effects_lib.Effects) -> None:
        if command in ("pause", "activate"):
            self.state = states.COMMANDS[command]
            if command == "activate":
                self.search.advance_all(effects)
            return
        self.is_killed = command == "kill"
        if not (self.state.is_stopping or self.state.is_terminal):
            self._stop(_State.STOPPING_CANCELED, "Killed." if command == "kill" else "Canceled.")

    def _resume(self, event: Mapping[str, Any], effects: effects_lib.Effects) -> None:
        """Takes up the ended experiment again."""
        config = experiment_spec.parse(event["config"])
        chosen = self.search.find_resumable(self.config, config)
        self.config = config
        self._set_active()
        self.search.resume(config, chosen, event.get("hparams"), effects)
        if event.get("max_trials"):
            self.search.extend(event["max_trials"], effects)

    def _set_active(self) -> None:
        self.state = _State.ACTIVE
        self.is_killed = False
        self.reason = ""
        self.end_time = None
        self._active_time.forget()
        self.search.forget_errors()
        self._identical_errors.forget()

    def check_extension(self, max_trials: int) -> None:
        """Checks that the experiment may get more trials.

        Raises:
            StateError: If it may not; the message says why.
        """
        if not hasattr(self.config.searcher, "max_trials"):
            raise errors.StateError(
                f"The search method {self.config.searcher.name!r} has no max_trials; fork the "
                "experiment instead."
            )
        if self.state in (_State.STOPPING_CANCELED, _State.CANCELED):
            raise errors.StateError(
                f"The experiment is {self.state.value}; only one that runs, is paused, or ended "
                "because its search was over can get more trials. Continue it first."
            )
        self.search.check_extension(max_trials)

    def _extend(self, max_trials: int, effects: effects_lib.Effects) -> None:
        if self.state is not _State.PAUSED:
            self._set_active()
        self.search.extend(max_trials, effects)

    def _finish(self, effects: effects_lib.Effects) -> None:
        if not self.state.is_stopping:
            return
        is_completed = self.state is _State.STOPPING_COMPLETED
        for trial in self.trials.values():
            if not trial.state.is_terminal:
                has_result = is_completed and trial.best_metric is not None
                state = states.TrialState.COMPLETED if has_result else states.TrialState.CANCELED
                trial.end(state, self.reason, None, self.search.time)
                self.search.note_end(trial, effects)
        self.state = states.LAST[self.state]
        self.end_time = self.search.time

    def _shut_down(self) -> None:
        """Ends the experiment, because the search is over."""
        if any(trial.state is states.TrialState.COMPLETED for trial in self.trials.values()):
            self._stop(_State.STOPPING_COMPLETED, "")
        elif self.search.num_errors:
            reason = f"No trial completed. The first that failed: {self.search.first_error}"
            self._stop(_State.STOPPING_ERROR, reason)
        else:
            self._stop(_State.STOPPING_CANCELED, "All trials were killed.")

    def _stop(self, state: states.ExperimentState, reason: str) -> None:
        self.state = state
        self.reason = reason


class _IdenticalErrors:
    """Counts trials in a row that failed with the same error before the first batch of any trial.

    Once a trial has trained, what fails elsewhere depends on hyperparameters: nothing is counted.
    """

    def __init__(self) -> None:
        self._has_trained = False
        self._error: str | None = None
        self._trials: list[trial_machine.TrialMachine] = []

    def note_training(self) -> None:
        """Notes that a trial has trained."""
        self._has_trained = True

    def note(
        self, trial: trial_machine.TrialMachine, error: str | None
    ) -> list[trial_machine.TrialMachine]:
        """Notes that a trial ended by itself, and returns all that did so alike, this one included.

        Args:
            trial: The trial.
            error: What its error is recognised by, or None if that does not count.
        """
        if error is None or error != self._error:
            self._error, self._trials = error, []
        if error is None or self._has_trained:
            return []
        if trial not in self._trials:
            self._trials.append(trial)
        return self._trials

    def forget(self) -> None:
        """Starts anew; what has trained stays."""
        self._error = None
