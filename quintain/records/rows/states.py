"""States of experiments and trials, and their allowed transitions."""

import enum
from typing import Final

from quintain import errors


class ExperimentState(enum.StrEnum):
    """States of an experiment."""

    ACTIVE = "ACTIVE"
    """Its trials run as slots allow."""

    PAUSED = "PAUSED"
    """Its trials are saved, or finish their workload and are saved then, and hold no slots."""

    STOPPING_COMPLETED = "STOPPING_COMPLETED"
    """The search is over; the last trials end."""

    STOPPING_CANCELED = "STOPPING_CANCELED"
    """A user canceled or killed it; its trials end."""

    STOPPING_ERROR = "STOPPING_ERROR"
    """It can't go on; its trials end."""

    COMPLETED = "COMPLETED"
    CANCELED = "CANCELED"
    ERROR = "ERROR"

    @property
    def is_terminal(self) -> bool:
        """True if nothing happens any more."""
        return self in (self.COMPLETED, self.CANCELED, self.ERROR)

    @property
    def is_stopping(self) -> bool:
        """True if it only waits for its trials to end."""
        return self in (self.STOPPING_COMPLETED, self.STOPPING_CANCELED, self.STOPPING_ERROR)


class TrialState(enum.StrEnum):
    """States of a trial."""

    ACTIVE = "ACTIVE"
    """It has work to do, or waits for the search method."""

    COMPLETED = "COMPLETED"
    """The search method closed it, or its own code stopped it."""

    CANCELED = "CANCELED"
    """A user ended it, or its experiment."""

    ERROR = "ERROR"
    """It failed more often than it may be restarted."""

    @property
    def is_terminal(self) -> bool:
        """True if nothing happens any more."""
        return self is not self.ACTIVE


_STOPPING: Final = frozenset(
    {
        ExperimentState.STOPPING_COMPLETED,
        ExperimentState.STOPPING_CANCELED,
        ExperimentState.STOPPING_ERROR,
    }
)

EXPERIMENT_TRANSITIONS: Final[dict[ExperimentState, frozenset[ExperimentState]]] = {
    ExperimentState.ACTIVE: frozenset({ExperimentState.PAUSED}) | _STOPPING,
    ExperimentState.PAUSED: frozenset({ExperimentState.ACTIVE}) | _STOPPING,
    ExperimentState.STOPPING_COMPLETED: frozenset(
        {ExperimentState.COMPLETED, ExperimentState.STOPPING_ERROR}
    ),
    ExperimentState.STOPPING_CANCELED: frozenset(
        {ExperimentState.CANCELED, ExperimentState.STOPPING_ERROR}
    ),
    ExperimentState.STOPPING_ERROR: frozenset({ExperimentState.ERROR}),
    ExperimentState.COMPLETED: frozenset(),
    ExperimentState.CANCELED: frozenset(),
    ExperimentState.ERROR: frozenset(),
}
"""The states that may follow each state."""

COMMANDS: Final[dict[str, ExperimentState]] = {
    "pause": ExperimentState.PAUSED,
    "activate": ExperimentState.ACTIVE,
    "cancel": ExperimentState.STOPPING_CANCELED,
    "kill": ExperimentState.STOPPING_CANCELED,
}
"""What experiments become by the commands of users."""

LAST: Final[dict[ExperimentState, ExperimentState]] = {
    ExperimentState.STOPPING_COMPLETED: ExperimentState.COMPLETED,
    ExperimentState.STOPPING_CANCELED: ExperimentState.CANCELED,
    ExperimentState.STOPPING_ERROR: ExperimentState.ERROR,
}
"""What an experiment that is stopping becomes."""


def check_transition(former: ExperimentState, new: ExperimentState) -> None:
    """Checks that an experiment may go from one state to another, or stay where it is.

    Raises:
        StateError: If it may not; the message lists what may follow.
    """
    if new is former or new in EXPERIMENT_TRANSITIONS[former]:
        return
    allowed = ", ".join(sorted(EXPERIMENT_TRANSITIONS[former])) or "nothing; it has ended"
    raise errors.StateError(
        f"The experiment is {former.value} and can't become {new.value}; it may become: {allowed}."
    )
