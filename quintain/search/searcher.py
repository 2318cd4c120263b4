"""Driver of one search method: its open trials, and the end of the search."""

import dataclasses
import typing
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from quintain import errors
from quintain.search import base_search, known_trial

_ALMOST_DONE: Final = 0.99
_VALIDATION_SHARE: Final = 0.1
"""Part of the work on a batch that its validation is taken for."""


@dataclasses.dataclass(frozen=True)
class Validated:
    """A requested validation is done."""

    request_id: str
    metric: float
    """The metric as it was measured."""
    length: int
    further: tuple[float, ...] = ()
    """The other metrics that decide, as they were measured."""


@dataclasses.dataclass(frozen=True)
class Checkpointed:
    """A requested checkpoint is saved."""

    request_id: str


@dataclasses.dataclass(frozen=True)
class Closed:
    """A trial is closed, as asked."""

    request_id: str


@dataclasses.dataclass(frozen=True)
class ExitedEarly:
    """A trial ended by itself."""

    request_id: str
    reason: base_search.ExitReason
    length: int = 0
    """Units that it was trained for."""


Event = Validated | Checkpointed | Closed | ExitedEarly


class Searcher:
    """Feeds events to a search method and says when the search is over.

    The same events in the same order give the same operations, so that a search that was
    interrupted goes on after its events have been replayed.
    """

    def __init__(
        self,
        method: base_search.SearchMethod,
        *,
        smaller_is_better: bool = True,
        num_inherited: int = 0,
    ) -> None:
        """Stores the method.

        Args:
            method: The search method; it has to be fresh.
            smaller_is_better: Whether smaller metrics are better.
            num_inherited: Trials of another search that `max_trials` counts.
        """
        self._method = method
        self._num_inherited = num_inherited
        self._smaller_is_better = smaller_is_better
        self._open: dict[str, None] = {}
        self._num_ended = 0
        self._num_failed = 0
        self._is_over = False
        self._lengths: dict[str, int] = {}
        self._num_trained = 0

    @property
    def method(self) -> base_search.SearchMethod:
        """The search method, to be looked at."""
        return self._method

    @property
    def open_trials(self) -> list[str]:
        """Trials that were created and have not ended, in the order of their creation."""
        return list(self._open)

    @property
    def num_open(self) -> int:
        """Number of open trials."""
        return len(self._open)

    @property
    def is_over(self) -> bool:
        """True once `Shutdown` was returned."""
        return self._is_over

    @property
    def num_trained(self) -> int:
        """Units of training whose results the search knows."""
        return self._num_trained

    def left(self, num_trained: float) -> float:
        """Returns the units that the search is still expected to train.

        Args:
            num_trained: Units trained by all trials, those without a result included.
        """
        if self._is_over:
            return 0.0
        return max(self._method.left() - max(num_trained - self._num_trained, 0.0), 0.0)

    def progress(self, num_trained: float) -> float:
        """Returns how much of the search is done, from 0 to 1; below 1 until it is over.

        What was trained without a result counts less, as its validation is still to come.

        Args:
            num_trained: Units trained by all trials, those without a result included.
        """
        if self._is_over:
            return 1.0
        total = num_trained + self.left(num_trained)
        done = num_trained - _VALIDATION_SHARE * max(num_trained - self._num_trained, 0.0)
        return min(done / total, _ALMOST_DONE) if total else 0.0

    def is_open(self, request_id: str) -> bool:
        """Returns whether a trial was created and has not ended."""
        return request_id in self._open

    @property
    def can_reopen(self) -> bool:
        """True if single trials that ended may be taken up again."""
        return self._method.can_reopen

    def check_extension(self, max_trials: int) -> None:
        """Checks that `extend` may be called.

        Raises:
            StateError: If the method can't be given more trials.
        """
        former = getattr(self._method, "max_trials", None)
        if self._num_inherited and former is not None:
            former += self._num_inherited
            if max_trials <= former:
                raise errors.StateError(
                    f"max_trials: got {max_trials}, expected more than the present {former}."
                )
        self._method.check_extension(max_trials - self._num_inherited)

    def extend(self, max_trials: int) -> list[base_search.Operation]:
        """Raises the number of trials, also of a search that is over."""
        self._is_over = False
        return self._finish(self._method.extend(max_trials - self._num_inherited))

    def reopen(
        self, request_id: str, length: int, *, has_failed: bool
    ) -> list[base_search.Operation]:
        """Takes up a trial that ended again, also if the search is over.

        Args:
            request_id: The trial.
            length: Units to train it for in all.
            has_failed: Whether it counted as failed.
        """
        self._is_over = False
        self._open[request_id] = None
        self._num_ended -= 1
        self._num_failed -= has_failed
        self._note_length(request_id, 0)
        return self._method.reopen(request_id, length)

    def learn(self, history: Sequence[known_trial.KnownTrial]) -> None:
        """Hands earlier trials to the method, whose metrics are as they were measured.

        Raises:
            ConfigError: If the method can't use them, or has nothing left to try.
        """
        self._method.learn([self._sign(trial) for trial in history])

    def _sign(self, trial: known_trial.KnownTrial) -> known_trial.KnownTrial:
        is_smaller = self._smaller_is_better
        signed = [
            (length, base_search.to_signed(metric, smaller_is_better=is_smaller))
            for length, metric in trial.results
        ]
        return dataclasses.replace(trial, results=tuple(signed))

    def start(self, most_ready: float | None = None) -> list[base_search.Operation]:
        """Returns the first operations.

        Args:
            most_ready: Trials to create before there are results, at most; None for no bound.
        """
        if most_ready is not None:
            self._method.bound_ready(most_ready)
        return self._finish(self._method.start())

    def record(self, event: Event) -> list[base_search.Operation]:
        """Returns what is to be done after an event; the last operation is `Shutdown`.

        Raises:
            QuintainError: If the event is about a trial that is not open.
        """
        if event.request_id not in self._open:
            raise errors.QuintainError(
                f"Got {event!r}, but there is no open trial of this name; open are "
                f"{len(self._open)}."
            )
        match event:
            case Validated(request_id, metric, length, further):
                self._note_length(request_id, length)
                self._method.note_further(request_id, further)
                signed = base_search.to_signed(metric, smaller_is_better=self._smaller_is_better)
                operations = self._method.on_validated(request_id, signed, length)
            case Checkpointed(request_id):
                operations = self._method.on_checkpointed(request_id)
            case Closed(request_id):
                self._end(request_id)
                operations = self._method.on_closed(request_id)
            case ExitedEarly(request_id, reason, length):
                self._note_length(request_id, max(length, self._lengths.get(request_id, 0)))
                self._end(request_id)
                self._num_failed += reason is not base_search.ExitReason.USER_CANCELED
                operations = self._method.on_exited_early(request_id, reason)
            case _:
                typing.assert_never(event)
        return self._finish(operations)

    def _note_length(self, request_id: str, length: int) -> None:
        self._num_trained += length - self._lengths.get(request_id, 0)
        self._lengths[request_id] = length

    def _end(self, request_id: str) -> None:
        del self._open[request_id]
        self._num_ended += 1

    def _finish(self, operations: list[base_search.Operation]) -> list[base_search.Operation]:
        for operation in operations:
            if isinstance(operation, base_search.Create):
                self._open[operation.request_id] = None
        if not self._open and not self._is_over:
            self._is_over = True
            # One trial that came through is enough for a search that has succeeded.
            has_failed = self._num_ended == self._num_failed
            return [*operations, base_search.Shutdown(has_failed)]
        return operations


def new_random(seed: int, *further: int) -> np.random.RandomState:
    """Returns the source of random numbers of a search, the same on all machines.

    Args:
        seed: `reproducibility.experiment_seed`, below 2 ** 32.
        *further: Numbers that tell the search from others of this seed.
    """
    return np.random.RandomState([seed, *further] if further else seed)


def describe(operation: base_search.Operation) -> dict[str, Any]:
    """Returns an operation as plain data."""
    return {"kind": type(operation).__name__, **dataclasses.asdict(operation)}
