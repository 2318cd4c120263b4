"""Users of a master: their roles over projects of experiments, and the log of what they change."""

import dataclasses
import enum
from typing import Any, Final

ALL_PROJECTS: Final = ""
"""Stands for all projects, and for what belongs to none."""

DEFAULT_PROJECT: Final = "default"
"""The project of experiments whose config names none."""


class Role(enum.StrEnum):
    """Roles, each of which may do all that those before it may."""

    VIEWER = "viewer"
    """Reads."""

    EDITOR = "editor"
    """Creates and changes experiments."""

    ADMIN = "admin"
    """Does what the owner of the master does."""

    def includes(self, other: "Role") -> bool:
        """Returns whether this role may do all that another one may."""
        roles = list(Role)
        return roles.index(self) >= roles.index(other)


@dataclasses.dataclass(frozen=True)
class Grant:
    """Role of a user."""

    user_name: str
    project: str
    """Where it holds; `ALL_PROJECTS` for everywhere."""

    role: Role


@dataclasses.dataclass(frozen=True)
class User:
    """A user with all their roles."""

    name: str
    roles: dict[str, Role]
    """By project; that of `ALL_PROJECTS` holds everywhere."""

    has_token: bool
    """Whether there is a token with their name. Users of a trusted proxy need none."""

    def has(self, role: Role, project: str) -> bool:
        """Returns whether the user may do what a role may, in a project."""
        held = (self.roles.get(ALL_PROJECTS), self.roles.get(project))
        return any(each is not None and each.includes(role) for each in held)


@dataclasses.dataclass(frozen=True)
class AuditEntry:
    """One call of a user that has changed something. Entries are never changed or deleted."""

    id: int
    """Number of the entry, growing with time; 0 before it is stored."""

    time: float
    """Seconds since the epoch, when the call was answered."""

    user_name: str
    """Who asked."""

    address: str
    """Where the request came from; empty for the socket in the home directory."""

    call: str
    """Name of the call, as in `client.calls`."""

    experiment_id: int | None = None
    """The experiment that was created or changed, if it was one."""

    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What was asked for. It has no configs, whose values may be secrets."""
