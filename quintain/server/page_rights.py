"""Rights of a browser's cookie over configs: an allowlist of what a request by cookie may change.

A config can name commands, directories and modules, so that whoever writes one runs code. A cookie
is worth less than a token: it changes the points that are searched, and nothing that runs.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import fastapi

from quintain import errors
from quintain.master import user_commands
from quintain.records import team
from quintain.records.config import experiment_spec
from quintain.server.security import access

_SECTIONS: Final = (
    *("description", "hyperparameters", "labels", "name", "project", "resources", "searcher"),
)
_ALLOWED: Final = (*_SECTIONS, "reproducibility.experiment_seed")
"""Dotted paths of a config that a cookie may change, with all below them."""


def check(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Checks that a cookie may change one config into another one.

    Complete configs are compared, so that it does not matter in which words a value is given. What
    follows from allowed sections, such as the batches of an epoch, is no change of its own.

    Args:
        before: The config as it is, in either dialect.
        after: The config as it is asked for.

    Raises:
        ConfigError: If that is not valid.
        UnauthorizedError: Naming what only a token may change.
    """
    kept = {name: value for name, value in before.items() if name not in _SECTIONS}
    taken = {name: value for name, value in after.items() if name in _SECTIONS}
    granted = _complete({**kept, **taken}) or _complete(before)
    refused = [
        path
        for path in _find_differences(granted, experiment_spec.parse(after).as_dict())
        if not any(path == each or path.startswith(f"{each}.") for each in _ALLOWED)
    ]
    if refused:
        raise errors.UnauthorizedError(
            f"{', '.join(refused)}: a browser may change {', '.join(_ALLOWED)}, and nothing else "
            "of a config. Use the command line, or a token, for this change."
        )


async def find_commands(request: fastapi.Request) -> user_commands.Commands:
    """Returns the commands of a master, with the rights that a request has."""
    parts, user = request.app.state.parts, request.scope["state"][access.USER]
    is_browser = request.scope["state"][access.IS_BROWSER]

    def check_all(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        project = str(after.get("project") or team.DEFAULT_PROJECT)
        parts.roles.check(user, team.Role.EDITOR, project)
        for name, number in _list_sources(after):
            if not parts.roles.may_read(user, number, name):
                raise errors.UnauthorizedError(
                    f"searcher: {name.removesuffix('_id')} {number} is not there, or in a project "
                    f"that user {user} may not read. An admin gives roles by `quintain user grant`."
                )
        if is_browser:
            check(before, after)

    commands: user_commands.Commands = parts.master.commands
    return commands.restricted_by(check_all)


Commands = Annotated[user_commands.Commands, fastapi.Depends(find_commands)]
"""Parameter of routes that do what users ask for."""


def _list_sources(content: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yields the experiments and trials whose results or weights a search begins with."""
    searcher = experiment_spec.parse(content).searcher
    yield from (("experiment_id", number) for number in searcher.learn_from)
    yield from (("trial_id", number) for number in searcher.inherited)
    if searcher.source_trial_id is not None:
        yield "trial_id", searcher.source_trial_id


def _complete(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a config with all defaults, or nothing if it is not valid."""
    try:
        return experiment_spec.parse(content).as_dict()
    except errors.ConfigError:
        return {}


def _find_differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yields the dotted paths of values that differ; lists are compared as a whole."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in sorted({*one, *other}, key=str):
            here = f"{path}.{name}" if path else str(name)
            if name in one and name in other:
                yield from _find_differences(one[name], other[name], here)
            else:
                yield here
    elif one != other or type(one) is not type(other):
        yield path
