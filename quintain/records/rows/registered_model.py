"""Registered models: numbered versions with their receipts, and the aliases that name them."""

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from quintain import errors

DATA_FILE: Final = "data_marks.json"
"""File of a trial's checkpoint with size and hash of each file of its training data, by path."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RULE: Final = "letters, digits, dots, dashes and underscores, at most 100"


@dataclasses.dataclass(frozen=True)
class Receipt:
    """Receipt of a version: its files, settings, metrics and origin at registration."""

    path: str
    """Absolute path of an export, a run or a model's file; empty of a checkpoint of a trial."""

    machine: str
    """Name of the machine that the path is on; empty of a checkpoint of a trial."""

    checkpoint: str
    """UUID of the checkpoint of a trial, or name of the checkpoint of a run; empty of an export."""

    files: dict[str, str]
    """SHA-256 of each file by its path below what it points at."""

    config: dict[str, Any]
    """Settings: `experiment`, `hparams` and `seed` of a trial, or those of a run."""

    metrics: dict[str, Any]
    """Metrics of the checkpoint, or the last ones of a run, by name."""

    origin: dict[str, Any]
    """Provenance: user's command, code, machine and packages; and `data`, sizes and hashes of files
    of training data by their paths, where a run or a trial has noted them."""


@dataclasses.dataclass(frozen=True)
class ModelVersion(Receipt):
    """One version of a model; a deleted one stays on record, so that its number is not reused."""

    id: int
    """Number among the versions of all models; 0 before it is stored."""

    name: str
    version: int
    """Number among the versions of its model, from 1 on; 0 before it is stored."""

    sha256: str
    """SHA-256 over the names and hashes of all files."""

    trial_id: int | None
    """The trial of its checkpoint; None of what is no checkpoint of a trial."""

    experiment_id: int | None
    note: str
    """The user's words for it."""

    time: float
    """Seconds since the epoch, when it was registered."""

    is_deleted: bool = False
    """Whether it can't be used any more; its checkpoint may be deleted then."""

    @property
    def reference(self) -> str:
        """Its name for commands, such as `digits@3`."""
        return f"{self.name}@{self.version}"


@dataclasses.dataclass(frozen=True)
class AliasMove:
    """A step in the history of an alias, the last of which says what it names."""

    id: int
    """Grows with time; 0 before it is stored."""

    name: str
    alias: str
    version: int
    reason: str
    """The rule that was checked, with what was found; empty if none was."""

    time: float
    """Seconds since the epoch."""


@dataclasses.dataclass(frozen=True)
class RegisteredModel:
    """A model with all of its versions."""

    name: str
    aliases: dict[str, int]
    """The version that each alias names; those of deleted versions are left out."""

    versions: tuple[ModelVersion, ...]
    """By number; deleted ones, too."""

    history: tuple[AliasMove, ...]
    """All moves of aliases, in order."""

    @property
    def usable(self) -> tuple[ModelVersion, ...]:
        """The versions that were not deleted."""
        return tuple(each for each in self.versions if not each.is_deleted)

    def find(self, mark: str) -> ModelVersion:
        """Returns the version that a number or an alias names.

        Raises:
            NotFoundError: If there is none, or it was deleted.
        """
        number = int(mark) if mark.isdecimal() else self.aliases.get(mark)
        found = next((each for each in self.versions if each.version == number), None)
        if found is None:
            numbers = [str(each.version) for each in self.usable]
            known = ", ".join([*self.aliases, *numbers]) or "none"
            wanted = errors.show(f"{self.name}@{mark}")
            raise errors.NotFoundError(f"There is no version {wanted}; the model has {known}.")
        if found.is_deleted:
            raise errors.NotFoundError(f"The version {found.reference} was deleted.")
        return found


def parse_reference(text: str) -> tuple[str, str]:
    """Returns the name of a model, and the number or the alias of a version.

    Raises:
        ConfigError: If it is no `NAME@VERSION` or `NAME@ALIAS`.

    Example:
        >>> parse_reference("digits@champion")
        ('digits', 'champion')
    """
    name, sign, mark = text.partition("@")
    if not (sign and _NAME.fullmatch(name) and _NAME.fullmatch(mark)):
        raise errors.ConfigError(
            f"model: got {errors.show(text)}, expected NAME@VERSION or NAME@ALIAS, such as "
            "digits@champion."
        )
    return name, mark


def check_name(name: str) -> None:
    """Checks the name of a new model.

    Raises:
        ConfigError: If it could not be part of a reference.
    """
    if not _NAME.fullmatch(name):
        raise errors.ConfigError(f"name: got {errors.show(name)}, expected {_RULE}.")


def check_alias(alias: str) -> None:
    """Checks an alias.

    Raises:
        ConfigError: If it could not be part of a reference, or is a number as versions have.
    """
    if not _NAME.fullmatch(alias) or alias.isdecimal():
        raise errors.ConfigError(
            f"alias: got {errors.show(alias)}, expected {_RULE}, and no number, which names a "
            "version."
        )


def hash_names(files: Mapping[str, str]) -> str:
    """Returns the SHA-256 of a receipt: over the lines that `sha256sum` prints, by path.

    Args:
        files: SHA-256 of each file by its path.
    """
    lines = "".join(f"{files[name]}  {name}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode("utf-8", "surrogatepass")).hexdigest()


def find_change(files: Mapping[str, str], found: Mapping[str, str]) -> str | None:
    """Returns which file of a receipt is gone or has changed, or None if none has.

    Args:
        files: SHA-256 of each file by its path, as it was.
        found: The same as it is now; more files are no change.
    """
    for name, expected in sorted(files.items()):
        if name not in found:
            return f"{name} is gone"
        if found[name] != expected:
            return f"{name} has changed"
    return None
