"""Search driver: passes results of trials to the search method, and its operations to trials."""

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from quintain.master.machine import effects as effects_lib
from quintain.master.machine import trial_machine
from quintain.records.config import experiment_spec, searcher_config
from quintain.records.rows import codec, states
from quintain.search import base_search, known_trial, search_factory


class SearchDriver:
    """Drives a search: tells its method what trials have reached, and hands trials what it asks.

    Attributes:
        trials: The trials by the names that the search method gave them, in order of creation.
        num_done_batches: Batches that all trials together have trained on.
        num_errors: Trials that failed.
        first_error: Why the first of them did.
        time: Seconds since the epoch, when what is happening now happened.
    """

    def __init__(self, config: experiment_spec.ExperimentSpec) -> None:
        """Builds the search method.

        Raises:
            ConfigError: If the hyperparameters are malformed, or the method can't search them.
        """
        self.trials: dict[str, trial_machine.TrialMachine] = {}
        self._best: float | None = None
        self._is_best_known = True
        self.num_done_batches = 0
        self.num_errors = 0
        self.first_error = ""
        self.time = 0.0
        self._config = config
        self._search = search_factory.build_searcher(config)
        self._source_checkpoint: str | None = None
        self._trial_seed: int | None = None

    # What it is.

    @property
    def method(self) -> base_search.SearchMethod:
        """The search method, to be looked at."""
        return self._search.method

    @property
    def best(self) -> float | None:
        """Best metric of all validations; not a number only if all are."""
        if not self._is_best_known:
            # Once for all that went back since: the machines of thousands may be lost at once.
            self._best, self._is_best_known = None, True
            for each in self.trials.values():
                if each.best_metric is not None:
                    self.note_metric(each.best_metric)
        return self._best

    @property
    def is_over(self) -> bool:
        """True if the method has nothing more to ask."""
        return self._search.is_over

    @property
    def open_trials(self) -> list[str]:
        """Trials that were created and have not ended, in the order of their creation."""
        return self._search.open_trials

    @property
    def num_left_batches(self) -> float:
        """Batches that the search is still expected to train."""
        unit = self._config.searcher.batches_per_unit
        return self._search.left(self.num_done_batches / unit) * unit

    @property
    def num_unvalidated_batches(self) -> float:
        """Batches that were trained, and whose validation the search still waits for."""
        known = self._search.num_trained * self._config.searcher.batches_per_unit
        return max(self.num_done_batches - known, 0.0)

    def progress(self, extra_batches: int = 0) -> float:
        """Returns the done part of the search, from 0 to 1.

        Args:
            extra_batches: Batches of workloads that go on, in which trials were trained by now.
        """
        num_done = self.num_done_batches + extra_batches
        return self._search.progress(num_done / self._config.searcher.batches_per_unit)

    def is_open(self, request_id: str) -> bool:
        """Returns whether a trial was created and has not ended."""
        return self._search.is_open(request_id)

    def find_resumable(
        self, former: experiment_spec.ExperimentSpec, config: experiment_spec.ExperimentSpec
    ) -> list[str]:
        """Returns the trials that go on if the search is taken up with another config.

        These are all that the end of the experiment interrupted; and, where the search method
        trains each trial by itself, those that failed, and all if they are to be trained longer.
        """
        is_single = isinstance(config.searcher, searcher_config.SingleConfig)
        is_longer = _max_batches(config) > _max_batches(former)
        chosen = []
        for trial in self.trials.values():
            has_failed = trial.state is states.TrialState.ERROR and not trial.is_invalid
            is_done = trial.state is states.TrialState.COMPLETED
            if self.is_open(trial.request_id) or (
                self._search.can_reopen
                and (has_failed or (is_done and is_longer) or (is_single and not is_done))
            ):
                chosen.append(trial.request_id)
        return chosen

    def check_extension(self, max_trials: int) -> None:
        """Checks that `extend` may be called.

        Raises:
            StateError: If the method can't be given more trials.
        """
        self._search.check_extension(max_trials)

    # What happens.

    def start(
        self,
        source_checkpoint: str | None,
        trial_seed: int | None,
        effects: effects_lib.Effects,
        *,
        most_ready: int | None = None,
        history: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Creates the first trials.

        Args:
            source_checkpoint: Checkpoint from which all trials start, or None.
            trial_seed: Seed of all trials, or None if each has its own.
            effects: Gets what this does.
            most_ready: Trials to create before there are results, at most; None for no bound.
            history: Earlier trials to learn from, as `earlier_trials` writes them.
        """
        if history:
            self._search.learn([self._read_known(each) for each in history])
        self._source_checkpoint = source_checkpoint
        self._trial_seed = trial_seed
        self._follow(self._search.start(most_ready), effects)

    def extend(self, max_trials: int, effects: effects_lib.Effects) -> None:
        """Raises the number of trials, also of a search that is over."""
        self._follow(self._search.extend(max_trials), effects)

    def resume(
        self,
        config: experiment_spec.ExperimentSpec,
        request_ids: Sequence[str],
        hparams: dict[str, Any] | None,
        effects: effects_lib.Effects,
    ) -> None:
        """Takes up trials again, also of a search that is over.

        Args:
            config: The config of the experiment now.
            request_ids: The trials.
            hparams: Their hyperparameters from now on, or None if they keep their own.
            effects: Gets what this does.
        """
        self._config = config
        length: int = getattr(config.searcher, "max_length", 0)
        for request_id in request_ids:
            trial = self.trials[request_id]
            before, has_failed = trial.total_batches, trial.state is states.TrialState.ERROR
            kept = trial.revive(self._config, hparams or trial.hparams)
            self.note_roll_back(trial, before, kept, effects)
            effects.changed[request_id] = None
            if not self._search.is_open(request_id):
                for operation in self._search.reopen(request_id, length, has_failed=has_failed):
                    trial.add_operation(operation)
        self.advance_all(effects)

    def note_metric(self, metric: float) -> bool:
        """Notes the metric of a validation, and returns whether none was better.

        Equal ones count, so that it does not matter which of them came first. What is not a number
        is the best only if there is nothing else.
        """
        if math.isnan(metric):
            is_best = self.best is None
        else:
            is_best = (
                self.best is None
                or math.isnan(self.best)
                or self._signed(metric) <= self._signed(self.best)
            )
        if is_best:
            self._best = metric
        return is_best

    def note_roll_back(
        self,
        trial: trial_machine.TrialMachine,
        before: int,
        kept: int | None,
        effects: effects_lib.Effects,
    ) -> None:
        """Notes that a trial went back to a checkpoint.

        Args:
            trial: The trial.
            before: Batches that it had trained on.
            kept: The batches after which all is forgotten, or None if nothing is.
            effects: Gets what this does.
        """
        if kept is None:
            return
        effects.rolled_back[trial.request_id] = kept
        self.num_done_batches -= before - trial.total_batches
        self._is_best_known = False

    def note_end(self, trial: trial_machine.TrialMachine, effects: effects_lib.Effects) -> None:
        """Notes that a trial has ended; twice is no more than once."""
        if trial.request_id in effects.ended:
            return
        effects.ended.append(trial.request_id)
        effects.changed[trial.request_id] = None
        if trial.state is states.TrialState.ERROR:
            self.num_errors += 1
            self.first_error = self.first_error or trial.reason

    def forget_errors(self) -> None:
        """Counts trials that failed anew."""
        self.num_errors = 0
        self.first_error = ""

    def _read_known(self, plain: Mapping[str, Any]) -> known_trial.KnownTrial:
        unit = self._config.searcher.batches_per_unit
        results = codec.from_plain(tuple[tuple[int, float], ...], plain["results"])
        return known_trial.KnownTrial(
            name=plain["name"],
            hparams=plain["hparams"],
            results=tuple((batches // unit, metric) for batches, metric in results),
            further=codec.from_plain(tuple[float, ...], plain.get("further", ())),
        )

    # What follows.

    def advance_all(self, effects: effects_lib.Effects) -> None:
        """Does for all trials what `advance` does."""
        for trial in list(self.trials.values()):
            self.advance(trial, effects)

    def advance(self, trial: trial_machine.TrialMachine, effects: effects_lib.Effects) -> None:
        """Tells the search method what a trial has reached, and does what it asks.

        What it asks of several trials is followed up in the order in which it asked, whichever
        trial was the last to arrive.
        """
        waiting = collections.deque([trial])
        while waiting and not self.is_over:
            current = waiting.popleft()
            event = current.next_event(self.time)
            if event is None:
                continue
            if current.state.is_terminal:
                self.note_end(current, effects)
            touched = self._perform(self._search.record(event), effects)
            waiting.extend(touched)
            if current not in touched:
                waiting.append(current)

    def _follow(
        self, operations: list[base_search.Operation], effects: effects_lib.Effects
    ) -> None:
        for trial in self._perform(operations, effects):
            self.advance(trial, effects)

    def _perform(
        self, operations: list[base_search.Operation], effects: effects_lib.Effects
    ) -> list[trial_machine.TrialMachine]:
        """Hands operations to trials; returns the trials, in order."""
        touched: dict[str, trial_machine.TrialMachine] = {}
        for operation in operations:
            match operation:
                case base_search.Create():
                    touched[operation.request_id] = self._create(operation, effects)
                case base_search.Note(request_id, text):
                    effects.notes.append((request_id, text))
                case base_search.Shutdown():
                    pass  # `is_over` says it.
                case _:
                    trial = self.trials[operation.request_id]
                    trial.add_operation(operation)
                    touched[operation.request_id] = trial
        effects.changed.update(dict.fromkeys(touched))
        return list(touched.values())

    def _create(
        self, operation: base_search.Create, effects: effects_lib.Effects
    ) -> trial_machine.TrialMachine:
        source = self._source_checkpoint
        if operation.parent is not None:
            source = self.trials[operation.parent].checkpoint
        if self._trial_seed is not None:
            operation = dataclasses.replace(operation, seed=self._trial_seed)
        trial = trial_machine.TrialMachine(
            operation, self._config, source_checkpoint=source, start_time=self.time
        )
        self.trials[operation.request_id] = trial
        effects.created.append(operation.request_id)
        return trial

    def _signed(self, metric: float) -> float:
        return metric if self._config.searcher.smaller_is_better else -metric


def _max_batches(config: experiment_spec.ExperimentSpec) -> int:
    """Returns the batches that a trial is trained for at most, or 0 if there is no such number."""
    return int(getattr(config.searcher, "max_length", 0)) * config.searcher.batches_per_unit
