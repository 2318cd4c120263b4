"""Roles of users, and whether they allow a request."""

import threading
from collections.abc import Sequence
from typing import Final

from quintain import errors
from quintain.client import calls as calls_lib
from quintain.client.home import token_files
from quintain.records import team
from quintain.server.security import path_rules
from quintain.store import store as store_lib

_MOST_CHARS: Final = 128
_MOST_DIGITS: Final = 18


class Roles:
    """Roles of users over projects. The store keeps them; the owner's needs none.

    Args:
        store: Keeps the roles.
        calls: Knows of what is asked to which project it belongs.
        tokens: Tokens of users.
    """

    def __init__(
        self, store: store_lib.Store, calls: calls_lib.Calls, tokens: token_files.UserTokens
    ) -> None:
        self._store = store
        self._calls = calls
        self._tokens = tokens
        self._lock = threading.Lock()
        self._roles: dict[str, dict[str, team.Role]] = {}
        with store.reading() as session:
            for grant in session.list_grants():
                self._roles.setdefault(grant.user_name, {})[grant.project] = grant.role

    def get(self, user: str) -> team.User:
        """Returns a user, whether anybody knows them or not."""
        if user == token_files.OWNER:
            return team.User(user, {team.ALL_PROJECTS: team.Role.ADMIN}, True)
        has_token = self._tokens.read(user) is not None
        return team.User(user, dict(self._roles.get(user, {})), has_token)

    def list_users(self) -> list[team.User]:
        """Returns the owner, and those who have a token or a role."""
        names = {*self._tokens.list_names(), *self._roles} - {token_files.OWNER}
        return [self.get(name) for name in (token_files.OWNER, *sorted(names))]

    def grant(self, name: str, role: team.Role, project: str = team.ALL_PROJECTS) -> team.User:
        """Gives a user a role, over all projects or one, in place of the one they had there.

        Raises:
            ConfigError: If there can be no such user or project, or no admin of one project.
        """
        token_files.check_name(name, where="name")
        if len(project) > _MOST_CHARS or not project.isprintable():
            raise errors.ConfigError(
                f"project: got {errors.show(project)}, expected at most {_MOST_CHARS} printable "
                "characters."
            )
        if project and role is team.Role.ADMIN:
            raise errors.ConfigError(
                "role: got 'admin' together with a project; an admin is one of all. Leave the "
                "project out, or make them an editor of it."
            )
        with self._lock, self._store.transaction() as session:
            session.save_grant(team.Grant(name, project, role))
            self._roles[name] = {**self._roles.get(name, {}), project: role}
        return self.get(name)

    def revoke(self, name: str, project: str | None = None) -> team.User:
        """Takes roles from a user: that over one project, or all.

        Raises:
            NotFoundError: If they have none there.
        """
        known = self._roles.get(name, {})
        taken = [each for each in known if project in (None, each)]
        if not taken:
            where = "" if project is None else f" over {_show(project)}"
            raise errors.NotFoundError(
                f"User {errors.show(name)} has no role{where}; `quintain user list` shows roles."
            )
        with self._lock, self._store.transaction() as session:
            session.delete_grants(name, taken)
            self._roles[name] = {one: role for one, role in known.items() if one not in taken}
            if not self._roles[name]:
                del self._roles[name]
        return self.get(name)

    def find_readable(self, user: str) -> frozenset[str] | None:
        """Returns the projects that a user may read, or None for all."""
        roles = self.get(user).roles
        return None if team.ALL_PROJECTS in roles else frozenset(roles)

    def may_read(self, user: str, number: int, name: str = "experiment_id") -> bool:
        """Returns whether a user may read an experiment, or with `trial_id` a trial.

        What is not there is for those who read all projects.
        """
        readable = self.find_readable(user)
        return readable is None or self._find_project(name, str(number)) in readable

    def check(self, user: str, role: team.Role, project: str) -> None:
        """Makes sure that a user has a role over a project.

        Raises:
            UnauthorizedError: If not.
        """
        if not self.get(user).has(role, project):
            raise errors.UnauthorizedError(self._explain(user, role, _show(project)))

    def find_problem(
        self, user: str, rule: path_rules.Rule, ids: Sequence[tuple[str, str]]
    ) -> str | None:
        """Returns why a user may not ask for an address, or None if they may.

        Args:
            user: Who asks.
            rule: The rule of the address.
            ids: Names and values of what it is about, as in `experiment_id`.
        """
        found = self.get(user)
        if found.has(rule.role, team.ALL_PROJECTS):
            return None
        if rule.is_any and not ids and any(found.has(rule.role, one) for one in found.roles):
            return None
        projects = {self._find_project(name, text) for name, text in ids}
        if projects and all(one is not None and found.has(rule.role, one) for one in projects):
            return None
        where = ", ".join(f"{name.removesuffix('_id')} {text[:40]}" for name, text in ids)
        where = f"the project of {where}" if ids else f"all projects{rule.why}"
        return self._explain(user, rule.role, where)

    def _find_project(self, name: str, text: str) -> str | None:
        """Returns the project of an experiment, a trial or a checkpoint, or None if unknown."""
        try:
            if name == "uuid":
                number = self._calls.get_checkpoint(text).experiment_id
            elif not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
                return None
            elif name == "trial_id":
                number = self._calls.get_trial(int(text)).experiment_id
            else:
                number = int(text)
            return self._calls.get_experiment(number).project
        except (errors.NotFoundError, errors.ConfigError):
            return None

    def _explain(self, user: str, role: team.Role, where: str) -> str:
        roles = self.get(user).roles
        has = " and ".join(f"{each.value} of {_show(one)}" for one, each in sorted(roles.items()))
        return (
            f"User {user} is {has or 'without a role'}, but this is for {role.value}s of {where}. "
            f"An admin gives roles by `quintain user grant {user} {role.value}`."
        )


def _show(project: str) -> str:
    return f"project {project!r}" if project else "all projects"
