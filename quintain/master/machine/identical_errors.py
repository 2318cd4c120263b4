"""Trials that fail alike before any has trained: what they share is to blame, and no chance."""

from quintain.master.machine import trial_machine


class IdenticalErrors:
    """Counts trials in a row that failed with the same error before the first batch of any trial.

    Once a trial has trained, what fails elsewhere depends on hyperparameters: nothing is counted.
    """

    def __init__(self) -> None:
        """Starts with none."""
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
