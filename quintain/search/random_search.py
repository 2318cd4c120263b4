"""Random, grid and single search: every trial is trained to the end."""

import abc
from collections.abc import Iterator, Sequence

import numpy as np
from typing_extensions import override

from quintain import errors
from quintain.records.config import hyperparameter_config
from quintain.search import base_search, known_trial
from quintain.search import space as space_lib


class _FullTraining(base_search.SearchMethod, abc.ABC):
    """Trains each trial to one length; starts the next one when another is done."""

    def __init__(
        self,
        space: space_lib.Space,
        random: np.random.RandomState,
        *,
        max_length: int,
        max_trials: int,
        max_concurrent_trials: int = 0,
    ) -> None:
        """Stores the size of the search.

        Args:
            space: The hyperparameters.
            random: Source of all random numbers.
            max_length: Units to train each trial for.
            max_trials: Trials in all.
            max_concurrent_trials: Trials at once; 0 for all.
        """
        super().__init__(space, random)
        self.max_length = max_length
        self.max_trials = max_trials
        self.max_concurrent_trials = max_concurrent_trials
        self.num_created = 0
        self.num_ended = 0
        self._at_work: set[str] = set()

    @override
    def start(self) -> list[base_search.Operation]:
        return [operation for _ in range(self._limit) for operation in self._create_next()]

    @override
    def on_validated(
        self, request_id: str, metric: float, length: int
    ) -> list[base_search.Operation]:
        del metric, length
        self._at_work.discard(request_id)
        return [base_search.Close(request_id)]

    @override
    def on_closed(self, request_id: str) -> list[base_search.Operation]:
        del request_id
        self.num_ended += 1
        return self._create_next()

    @override
    def on_exited_early(
        self, request_id: str, reason: base_search.ExitReason
    ) -> list[base_search.Operation]:
        self._at_work.discard(request_id)
        if reason is base_search.ExitReason.INVALID_HP and self._replaces_invalid:
            self.num_created -= 1
        else:
            self.num_ended += 1
        return self._create_next()

    @property
    @override
    def can_reopen(self) -> bool:
        return True

    @override
    def reopen(self, request_id: str, length: int) -> list[base_search.Operation]:
        self.max_length = length
        self.num_ended -= 1
        self._at_work.add(request_id)
        return base_search.train_and_validate(request_id, length)

    @override
    def left(self) -> float:
        num_trials = len(self._at_work) + max(self.max_trials - self.num_created, 0)
        return num_trials * self.max_length

    @property
    def _limit(self) -> int:
        """Trials at once."""
        wanted = self.max_concurrent_trials or self.max_trials
        return int(min(wanted, self.max_trials, self.most_ready))

    @property
    def _replaces_invalid(self) -> bool:
        """True if another point is drawn for one that can't be trained."""
        return False

    @abc.abstractmethod
    def _next_hparams(self) -> space_lib.Hparams | None:
        """Returns the point of the next trial, or None to draw it."""

    def _create_next(self) -> list[base_search.Operation]:
        if self.num_created >= self.max_trials:
            return []
        self.num_created += 1
        create = self.create(self._next_hparams())
        self._at_work.add(create.request_id)
        return [create, *base_search.train_and_validate(create.request_id, self.max_length)]


class RandomSearch(_FullTraining):
    """Draws the hyperparameters of each trial."""

    @property
    @override
    def uses_results(self) -> bool:
        return False

    @override
    def learn(self, history: Sequence[known_trial.KnownTrial]) -> None:
        """Changes nothing: points are drawn independently."""

    @property
    @override
    def _replaces_invalid(self) -> bool:
        return self.max_trials > 1

    @override
    def extend(self, max_trials: int) -> list[base_search.Operation]:
        self.max_trials = max_trials
        operations: list[base_search.Operation] = []
        while self.num_created < max_trials and self.num_created - self.num_ended < self._limit:
            operations += self._create_next()
        return operations

    @override
    def _next_hparams(self) -> None:
        return None


def build_single(
    space: space_lib.Space, random: np.random.RandomState, *, max_length: int
) -> RandomSearch:
    """Builds a search with one trial, trained for `max_length` units."""
    return RandomSearch(space, random, max_length=max_length, max_trials=1)


class GridSearch(_FullTraining):
    """Tries every point of a grid once, in order."""

    def __init__(
        self,
        space: space_lib.Space,
        random: np.random.RandomState,
        *,
        max_length: int,
        max_concurrent_trials: int = 0,
    ) -> None:
        """Lays out the grid.

        Args:
            space: The hyperparameters; every range needs a `count`.
            random: Source of all random numbers.
            max_length: Units to train each trial for.
            max_concurrent_trials: Trials at once; 0 for all.

        Raises:
            ConfigError: If a `count` is missing, there are more than 2,000 points, or priors.
        """
        num_points = space.num_grid_points()
        if num_points > hyperparameter_config.MAX_GRID_POINTS:
            message = (
                f"got a grid of {num_points:,} points, expected at most "
                f"{hyperparameter_config.MAX_GRID_POINTS:,}. Lower some `count`s, or search at "
                "random."
            )
            raise errors.ConfigError.from_problems([errors.Problem("hyperparameters", message)])
        if space.centers:
            message = "a grid tries its own points; leave it out, or search at random."
            paths = [f"hyperparameters.{name}.prior" for name in space.centers]
            raise errors.ConfigError.from_problems([errors.Problem(p, message) for p in paths])
        points = list(space.grid())
        super().__init__(
            space,
            random,
            max_length=max_length,
            max_trials=len(points),
            max_concurrent_trials=max_concurrent_trials,
        )
        self._points: Iterator[space_lib.Hparams] = iter(points)

    @override
    def learn(self, history: Sequence[known_trial.KnownTrial]) -> None:
        """Leaves out points that were trained long enough."""
        known = [trial.hparams for trial in history if trial.length >= self.max_length]
        points = [point for point in self.space.grid() if point not in known]
        if not points:
            raise errors.ConfigError(
                "searcher: earlier trials have tried every point of the grid. Add points, or "
                "raise searcher.max_length."
            )
        self.max_trials = len(points)
        self._points = iter(points)

    @override
    def _next_hparams(self) -> space_lib.Hparams:
        return next(self._points)
