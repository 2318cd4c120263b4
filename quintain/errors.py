"""The exceptions that this package raises for its callers' mistakes and for the world's.

QuintainError
|-- ConfigError (ValueError)             a config value is wrong; carries the dotted paths
|   |-- UnknownKeyError (KeyError)       a name that no field has
|   |-- UnsupportedTypeError (TypeError) an object that no config can hold
|   `-- RestrictionError (KeyError)      fields do not fit together
|-- RegistryError (LookupError, ValueError)  a name was never registered, or was registered twice
|-- DataError (ValueError)               input data can't be used; names file and line
|-- NotFoundError (LookupError)          there is no experiment, trial or checkpoint of this name
|-- DamagedFileError (ValueError)        one of our own files was cut or damaged; names the file
|-- StoreError                           the database can't be opened, read or written
|-- StateError                           an experiment or a trial can't do this in its state
|   `-- GoneError                        this run of a trial is not wanted any more
|-- TrialError                           the user's trial can't be used; names file and line
|-- ClusterError                         a process that a run can't do without is gone
|   `-- MasterUnreachableError           the master does not answer
|-- UnauthorizedError                    the master does not accept the token
|-- CheckpointError                      nothing to restore, it does not fit, or can't be written
`-- TrainingDivergedError (RuntimeError) the loss is not a number any more
"""

import dataclasses
import difflib
from collections.abc import Iterable, Sequence


class QuintainError(Exception):
    """Base of all exceptions of this package."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a config."""

    path: str
    """Dotted path of the field, empty for the whole."""

    message: str
    """What was given and what is allowed."""

    is_unknown: bool = False
    """Whether there is no field of this name."""

    is_unsupported: bool = False
    """Whether the value is an object that can't be written to a file."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(QuintainError, ValueError):
    """A config value is wrong.

    Attributes:
        problems: Everything that is wrong, where the error comes from a config's own check.
    """

    problems: Sequence[Problem]

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        """Stores the message and what it is made of."""
        super().__init__(message)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        # `KeyError`, a base of some subclasses, would show the message in quotes.
        return str(self.args[0])

    @classmethod
    def from_problems(cls, problems: Sequence[Problem]) -> "ConfigError":
        """Returns one error that lists all problems.

        It is an `UnknownKeyError` if a key is unknown, else an `UnsupportedTypeError` if a value is
        no plain data.
        """
        kind: type[ConfigError] = cls
        if any(problem.is_unknown for problem in problems):
            kind = UnknownKeyError
        elif any(problem.is_unsupported for problem in problems):
            kind = UnsupportedTypeError
        lines = [str(problem) for problem in problems]
        text = lines[0] if len(lines) == 1 else "\n".join([f"{len(lines)} problems:", *lines])
        return kind(text, problems)


class UnknownKeyError(ConfigError, KeyError, AttributeError):
    """A config has no field of this name."""


class UnsupportedTypeError(ConfigError, TypeError):
    """A value is an object that a config can't hold, because no file can."""


class RestrictionError(ConfigError, KeyError):
    """Fields of a config do not fit together."""


class RegistryError(QuintainError, LookupError, ValueError):
    """A name was never registered, or was registered twice."""


class DataError(QuintainError, ValueError):
    """Input data can't be used."""


class CheckpointError(QuintainError):
    """A checkpoint is missing, damaged, does not fit or can't be written."""


class NotFoundError(QuintainError, LookupError):
    """There is no experiment, trial or checkpoint of this name."""


class DamagedFileError(QuintainError, ValueError):
    """A file that this package wrote can't be understood any more."""


class TrialError(QuintainError):
    """The user's trial can't be loaded or used, or gave something that is not allowed."""


class StoreError(QuintainError):
    """The database of experiments can't be opened, read or written."""


class StateError(QuintainError):
    """An experiment or a trial can't do this in the state it is in."""


class GoneError(StateError):
    """This run of a trial is not wanted any more; its process is to end."""


class ClusterError(QuintainError):
    """A process that a run can't do without is gone."""


class MasterUnreachableError(ClusterError):
    """The master does not answer."""


class UnauthorizedError(QuintainError):
    """The master does not accept the token of a request."""


class TrainingDivergedError(QuintainError, RuntimeError):
    """The training loss is not finite any more."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'?` for the known name nearest to `name`, or an empty string.

    Example:
        >>> suggest("tran_steps", ["train_steps", "steps_per_loop"])
        " Did you mean 'train_steps'?"
    """
    nearest = difflib.get_close_matches(name, sorted(set(known)), n=1, cutoff=0.55)
    return f" Did you mean {nearest[0]!r}?" if nearest else ""
