"""State of a run's recoveries, kept in its checkpoints and in a file beside them."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import tensorflow as tf
from typing_extensions import override

from quintain.files import file_io, file_paths, whole_files

FILE_NAME: Final = "recovery.json"


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One recovery from a blow-up."""

    step: int
    """Step at the end of the loop that blew up."""

    loop_start: int
    """Step at which that loop began."""

    cause: str
    """Cause of the blow-up, for people."""

    restored_step: int
    """Step of the checkpoint that the run went back to."""

    skipped_batches: Mapping[str, int]
    """Batches that are not used when the run comes to `loop_start` again, by name of the data."""


class RecoveryState(tf.train.experimental.PythonState):
    """The recoveries of a run, and what follows from them for the steps to come.

    It travels in checkpoints. A checkpoint is older than the recoveries that went back to it, so
    the newest state is kept in a file, too, and `merge` brings both together on a restart.

    Example:
        >>> state = RecoveryState()
        >>> state.add(Attempt(20, 15, "the loss is nan", 10, {"": 5}), learning_rate_factor=0.5)
        >>> [trial.skipped_batches for trial in state.pop_due_skips(15)]
        [{'': 5}]
        >>> copy = RecoveryState()
        >>> copy.deserialize(state.serialize())
        >>> copy.num_trials, copy.learning_rate_factor, copy.count_skipped("")
        (1, 0.5, 5)
    """

    def __init__(self) -> None:
        self._trials: list[Attempt] = []
        self._done: set[int] = set()
        self._learning_rate_factor = 1.0

    @property
    def trials(self) -> tuple[Attempt, ...]:
        """All recoveries, the oldest first."""
        return tuple(self._trials)

    @property
    def num_trials(self) -> int:
        """Number of recoveries."""
        return len(self._trials)

    @property
    def learning_rate_factor(self) -> float:
        """Factor by which the recoveries have lowered the learning rate."""
        return self._learning_rate_factor

    def count_skipped(self, name: str) -> int:
        """Returns the batches that were drawn and not used, of the data of a name."""
        return sum(self._trials[index].skipped_batches.get(name, 0) for index in self._done)

    def add(self, trial: Attempt, learning_rate_factor: float) -> None:
        """Adds a recovery, and the factor by which it lowers the learning rate."""
        self._trials.append(trial)
        self._learning_rate_factor *= learning_rate_factor

    def pop_due_skips(self, step: int) -> Iterator[Attempt]:
        """Yields the recoveries whose batches are to be skipped now, and counts them as skipped."""
        for index, trial in enumerate(self._trials):
            if trial.loop_start <= step and trial.skipped_batches and index not in self._done:
                self._done.add(index)
                yield trial

    def merge(self, newer: "RecoveryState") -> None:
        """Takes over the recoveries of `newer`, whose beginning is this state.

        What was skipped already is known from here: it belongs to the position in the data.
        """
        if newer.num_trials > self.num_trials:
            self._trials = list(newer._trials)
            self._learning_rate_factor = newer._learning_rate_factor

    @override
    def serialize(self) -> bytes:
        state = {
            "learning_rate_factor": self._learning_rate_factor,
            "skipped": sorted(self._done),
            "trials": [dataclasses.asdict(trial) for trial in self._trials],
        }
        return json.dumps(state, indent=2).encode()

    @override
    def deserialize(self, string_value: bytes) -> None:
        state: dict[str, Any] = json.loads(string_value)
        self._learning_rate_factor = float(state["learning_rate_factor"])
        self._done = set(state["skipped"])
        self._trials = [Attempt(**trial) for trial in state["trials"]]


def save(state: RecoveryState, model_dir: str) -> None:
    """Writes the state beside the checkpoints of `model_dir`."""
    path = file_paths.join(model_dir, FILE_NAME)
    whole_files.write(path, state.serialize())


def load(model_dir: str) -> RecoveryState:
    """Returns the state that was written to `model_dir`; an empty one if there is none.

    Raises:
        DamagedFileError: If the file can't be understood.
    """
    state = RecoveryState()
    path = file_paths.join(model_dir, FILE_NAME)
    if file_io.exists(path):
        with whole_files.damage_explained(path), file_io.open(path, "rb") as file:
            state.deserialize(file.read())
    return state


def delete(model_dir: str) -> None:
    """Deletes the file of a run that starts anew in `model_dir`."""
    path = file_paths.join(model_dir, FILE_NAME)
    if file_io.exists(path):
        file_io.remove(path)
