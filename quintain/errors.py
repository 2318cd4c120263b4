"""Exceptions that this package raises for its callers.

QuintainError
|-- ConfigError (ValueError)             a config value is wrong; carries the dotted paths
|   |-- UnknownKeyError (KeyError)       a name that no field has
|   |-- UnsupportedTypeError (TypeError) an object that no config can hold
|   `-- RestrictionError (KeyError)      fields do not fit together
|-- RegistryError (KeyError, ValueError)  a name was never registered, or was registered twice
|-- DataError (ValueError)               input data can't be used; names file and line
|-- NotFoundError (LookupError)          there is no experiment, trial or checkpoint of this name
|-- DamagedFileError (ValueError)        one of our own files was cut or damaged; names the file
|-- OutputError                          a file can't be written; names it and the reason
|-- StoreError                           the database can't be opened, read or written
|   `-- StoreAwayError                   its server or its disk is not there, but may come back
|       `-- StoreFullError               its disk is full; there may be room again
|-- StateError                           an experiment or a trial can't do this in its state
|   `-- GoneError                        this launch of a trial is not wanted any more
|-- TrialError                           the user's trial can't be used; names file and line
|-- ClusterError                         a process that a run can't do without is gone
|   |-- MasterUnreachableError           the master does not answer
|   `-- MasterFaultError                 the master failed at what it was asked
|-- UnauthorizedError                    the master does not accept the token
|-- CheckpointError                      nothing to restore, it does not fit, or can't be written
|   |-- UnusableCheckpointError          what a trial starts from is damaged
|   `-- NoRoomError                      a disk is full; there may be room again
|       `-- DiskAwayError                it is broken or not mounted; it may come back
`-- TrainingDivergedError (RuntimeError) the loss is not a number any more
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

_MAX_SHOWN: Final = 200
_MAX_COMPARED: Final = 5_000


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
        return f"{cut(self.path)}: {self.message}" if self.path else self.message


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
        problems = list(dict.fromkeys(problems))
        kind: type[ConfigError] = cls
        if any(problem.is_unknown for problem in problems):
            kind = UnknownKeyError
        elif any(problem.is_unsupported for problem in problems):
            kind = UnsupportedTypeError
        lines = [str(problem) for problem in problems]
        text = lines[0] if len(lines) == 1 else "\n".join([f"{len(lines)} problems:", *lines])
        return kind(text, problems)


@contextlib.contextmanager
def located(locate: Callable[[str], str] | None) -> Iterator[None]:
    """Puts the place of each problem in front of its path, in errors that are raised inside.

    Args:
        locate: Returns where the value of a dotted path was written, such as `my.yaml:3`. None
            changes nothing.
    """
    try:
        yield
    except ConfigError as error:
        if locate is None or not error.problems:
            raise
        problems = [
            dataclasses.replace(one, path=": ".join(filter(None, (locate(one.path), one.path))))
            for one in error.problems
        ]
        raise type(error)(str(type(error).from_problems(problems)), problems) from None


class UnknownKeyError(ConfigError, KeyError, AttributeError):
    """A config has no field of this name."""


class MessageError(ConfigError):
    """A process has told the master something impossible; nothing was done with it."""


class UnsupportedTypeError(ConfigError, TypeError):
    """A value is an object that a config can't hold, because no file can."""


class RestrictionError(ConfigError, KeyError):
    """Fields of a config do not fit together."""


class RegistryError(QuintainError, KeyError, ValueError):
    """A name was never registered, or was registered twice."""

    __str__ = Exception.__str__  # That of `KeyError` quotes the message.


class DataError(QuintainError, ValueError):
    """Input data can't be used."""


class CheckpointError(QuintainError):
    """A checkpoint is missing, damaged, does not fit or can't be written."""


class DamagedCheckpointError(CheckpointError):
    """Files of a checkpoint are missing or are not what was written.

    Attributes:
        damage: What is wrong.
    """

    def __init__(self, message: str, damage: str) -> None:
        """Stores the message and what is wrong."""
        super().__init__(message)
        self.damage = damage


class UnusableCheckpointError(CheckpointError):
    """A trial can't begin: the checkpoint of another one that it starts from is damaged."""


class NoRoomError(CheckpointError):
    """A disk is full. There may be room again: who has something to lose waits for that."""


class DiskAwayError(NoRoomError):
    """A disk is broken, read-only or not mounted, so nothing is known of what is on it.

    It may come back, and is waited for as is room on a full one.
    """


class NotFoundError(QuintainError, LookupError):
    """There is no experiment, trial or checkpoint of this name."""


class DamagedFileError(QuintainError, ValueError):
    """A file that this package wrote can't be understood any more."""


class OutputError(QuintainError):
    """A file can't be written: no permission, no space, a broken disk."""


class TrialError(QuintainError):
    """The user's trial can't be loaded or used, or gave something that is not allowed."""


class StoreError(QuintainError):
    """The database of experiments can't be opened, read or written."""


class StoreAwayError(StoreError):
    """The server of the database, or its disk, is not there now; it may come back."""


class StoreFullError(StoreAwayError):
    """The disk of the database, or of the master, is full; there may be room again."""


class StateError(QuintainError):
    """An experiment or a trial can't do this in the state it is in."""


class GoneError(StateError):
    """This launch of a trial is not wanted any more; its process is to end."""


class ClusterError(QuintainError):
    """A process that a run can't do without is gone."""


class MasterUnreachableError(ClusterError):
    """The master does not answer."""


class MasterFaultError(ClusterError):
    """The master failed at what it was asked, which may go well the next time."""


class UntrustedMasterError(MasterUnreachableError):
    """The server at the master's address does not show the expected certificate."""


class UnauthorizedError(QuintainError):
    """The master does not accept the token of a request."""


class TrainingDivergedError(QuintainError, RuntimeError):
    """The training loss is not finite any more."""


def show(value: object) -> str:
    """Returns a value as messages show it: as Python writes it, and cut where it is long.

    Example:
        >>> show("a b"), len(show("x" * 1_000_000))
        ("'a b'", 226)
    """
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write integers of more than 4,300 digits.
        return "a number or numbers of thousands of digits"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}... ({len(text):,} characters)"


def cut(text: str) -> str:
    """Returns text, such as a path, with its middle left out where it is long."""
    half = _MAX_SHOWN // 2
    return text if len(text) <= _MAX_SHOWN else f"{text[:half]}...{text[-half:]}"


def enumerate_some(names: Sequence[str], most: int = 20) -> str:
    """Returns names with commas between, each cut, and how many are left out of long lists.

    Example:
        >>> enumerate_some(["a", "b", "c"], most=2)
        'a, b and 1 more'
    """
    rest = len(names) - most
    return ", ".join(map(cut, names[:most])) + (f" and {rest} more" if rest > 0 else "")


def suggest(name: str, known: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'?` for the known name nearest to `name`, or an empty string.

    Example:
        >>> suggest("tran_steps", ["train_steps", "steps_per_loop"])
        " Did you mean 'train_steps'?"
        >>> suggest("trian", ["train", "trial"])
        " Did you mean 'train'?"
    """
    candidates = sorted(set(known))
    if len(name) > _MAX_SHOWN or len(candidates) > _MAX_COMPARED:  # It would take seconds.
        return ""
    import difflib  # noqa: PLC0415 - few processes meet a wrong name

    swapped = [each for each in candidates if sorted(each) == sorted(name)]
    nearest = swapped or difflib.get_close_matches(name, candidates, n=1, cutoff=0.55)
    return f" Did you mean {str(nearest[0])!r}?" if nearest else ""
