"""Base class of search methods: events about trials in, operations on trials out.

Lengths are cumulative and count units of training (batches, or steps of batches), whichever the
experiment's config speaks of. Metrics are signed so that smaller is better; one that is not a
number is the worst.
"""

import abc
import dataclasses
import enum
import math
import uuid
from collections.abc import Sequence
from typing import Final

import numpy as np

from quintain import errors
from quintain.search import known_trial, rungs
from quintain.search import space as space_lib

WORST_METRIC: Final = math.inf
"""What a trial that failed counts as."""

MAX_SEED: Final = 2**31
"""Seeds of trials are below."""


class ExitReason(enum.StrEnum):
    """Reasons for the end of a trial before the search method closed it."""

    ERRORED = "errored"
    """It failed too often."""

    USER_CANCELED = "user_canceled"
    """Its own code, or a user, asked it to stop."""

    INVALID_HP = "invalid_hp"
    """Its code says that these hyperparameters can't be trained."""


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """Start a trial."""

    request_id: str
    """Name of the trial within the search."""

    hparams: space_lib.Hparams
    """Its hyperparameters."""

    seed: int
    """Seed of its random numbers, below 2 ** 31."""

    parent: str | None = None
    """Trial from whose last checkpoint it starts."""


@dataclasses.dataclass(frozen=True, slots=True)
class Train:
    """Train a trial up to a length."""

    request_id: str
    length: int
    """Units that it has been trained for in all when this is done."""


@dataclasses.dataclass(frozen=True, slots=True)
class Validate:
    """Validate a trial and report the metric."""

    request_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Checkpoint:
    """Save a trial."""

    request_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Close:
    """Stop a trial; nothing more will be asked of it."""

    request_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Shutdown:
    """End the experiment."""

    has_failed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """Write a line into the log of a trial."""

    request_id: str
    text: str


Operation = Create | Train | Validate | Checkpoint | Close | Shutdown | Note


class SearchMethod(abc.ABC):
    """Base of the methods: `start` first, then one call for each event, in the order of events.

    A method draws random numbers only from `random`, so that the same events give the same
    operations.
    """

    def __init__(self, space: space_lib.Space, random: np.random.RandomState) -> None:
        """Stores where hyperparameters come from.

        Args:
            space: The hyperparameters.
            random: Source of all random numbers.
        """
        self.space = space
        self.random = random
        self.most_ready: float = math.inf

    def bound_ready(self, most_ready: float) -> None:
        """Bounds how many trials are open that nobody has asked for yet; called before `start`.

        The others are created as these get their results. Which points are tried does not change.

        Args:
            most_ready: Trials; more than can run at once.
        """
        self.most_ready = most_ready

    @property
    def uses_results(self) -> bool:
        """True if what is tried depends on the results of earlier trials."""
        return True

    def learn(self, history: Sequence[known_trial.KnownTrial]) -> None:
        """Takes earlier trials as if they were its own results; called before `start`.

        Raises:
            ConfigError: If the method can't use them, or has nothing left to try.
        """
        del history
        raise errors.ConfigError(
            "searcher.learn_from: this search method can't use earlier trials. Leave it out, or "
            "choose another method."
        )

    @abc.abstractmethod
    def start(self) -> list[Operation]:
        """Returns the first operations."""

    @abc.abstractmethod
    def on_validated(self, request_id: str, metric: float, length: int) -> list[Operation]:
        """Called when a requested validation is done.

        Args:
            request_id: The trial.
            metric: Its metric, smaller is better; `WORST_METRIC` if it is not a number.
            length: Units that it was trained for.
        """

    @property
    def num_further(self) -> int:
        """Metrics that decide besides the first."""
        return 0

    def note_further(self, request_id: str, metrics: Sequence[float]) -> None:
        """Called before `on_validated` with the other metrics that decide, as they were measured.

        Args:
            request_id: The trial.
            metrics: One for each of the config's `further_objectives`.
        """
        del request_id, metrics

    def on_checkpointed(self, request_id: str) -> list[Operation]:
        """Called when a requested checkpoint is saved."""
        del request_id
        return []

    def on_closed(self, request_id: str) -> list[Operation]:
        """Called when a trial is closed, as asked."""
        del request_id
        return []

    @abc.abstractmethod
    def on_exited_early(self, request_id: str, reason: ExitReason) -> list[Operation]:
        """Called when a trial ended by itself; it takes no more operations."""

    def check_extension(self, max_trials: int) -> None:
        """Checks that `extend` may be called.

        Raises:
            StateError: If the method has no such number, or it would not grow.
        """
        former = getattr(self, "max_trials", None)
        if former is None or type(self).extend is SearchMethod.extend:
            raise errors.StateError(
                "This search method plans all of its trials at the start and can't be given more; "
                "fork the experiment instead."
            )
        if max_trials <= former:
            raise errors.StateError(
                f"max_trials: got {max_trials}, expected more than the present {former}."
            )

    def extend(self, max_trials: int) -> list[Operation]:
        """Raises the number of trials; the search may be over already.

        Args:
            max_trials: Trials in all.
        """
        raise NotImplementedError(max_trials)

    @property
    def can_reopen(self) -> bool:
        """True if single trials that ended may be taken up again."""
        return False

    def reopen(self, request_id: str, length: int) -> list[Operation]:
        """Takes up a trial that ended again; only where `can_reopen`.

        Args:
            request_id: The trial.
            length: Units to train it for in all.
        """
        raise NotImplementedError((request_id, length))

    def list_brackets(self) -> list[Sequence[rungs.Rung]]:
        """Returns the rungs of each bracket, to be shown; a method without rungs has none."""
        return []

    @abc.abstractmethod
    def left(self) -> float:
        """Returns the units that the search is expected to train after the results it knows.

        A trial counts with all units since its last result. What depends on metrics to come counts
        as if they came in random order.
        """

    def create(self, hparams: space_lib.Hparams | None = None, parent: str | None = None) -> Create:
        """Returns the operation that starts a trial, with drawn hyperparameters by default.

        The random numbers are used in this order: hyperparameters by name, name of the trial
        (16 bytes), seed.
        """
        if hparams is None:
            hparams = self.space.sample(self.random)
        request_id = str(uuid.UUID(bytes=self.random.bytes(16), version=4))
        return Create(request_id, hparams, int(self.random.randint(0, MAX_SEED)), parent)


def train_and_validate(request_id: str, length: int) -> list[Operation]:
    """Returns the operations that train a trial up to a length and validate it there."""
    return [Train(request_id, length), Validate(request_id)]


def to_signed(metric: float, *, smaller_is_better: bool) -> float:
    """Returns a metric for a search method; one that is not a finite number is the worst."""
    number = float(metric)
    if not math.isfinite(number):
        return WORST_METRIC
    return number if smaller_is_better else -number


def rung_lengths(max_length: int, divisor: float, num_rungs: int) -> Sequence[int]:
    """Returns the lengths of rungs, each about `divisor` times the one before; the last is full."""
    return [
        max(int(max_length / divisor ** (num_rungs - index - 1)), 1) for index in range(num_rungs)
    ]
