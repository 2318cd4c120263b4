"""Which of the master's addresses are for whom: one table.

The first rule that fits an address holds. What no other rule names is for users, and for the page
of a user who is signed in.
"""

import enum
import re
from typing import Final


class Client(enum.Flag):
    """Who asks, as the request shows."""

    USER = enum.auto()
    """Has the user's token."""

    BROWSER = enum.auto()
    """Has the cookie of a user."""

    LAUNCH = enum.auto()
    """Has the token of one start of a trial: its process."""

    AGENT = enum.auto()
    """Has the token of agents, which start processes on other machines."""


RULES: Final = tuple(
    (re.compile(pattern), clients)
    for pattern, clients in (
        # They match as routes do: there may be a line's end behind.
        (r"/trials/[^/]*/runs(/|$)", Client.USER | Client.LAUNCH),
        (r"/agents(/|$)", Client.AGENT),
        (r"/master/sign-in$", Client.USER),
        (r"", Client.USER | Client.BROWSER),
    )
)


def find_clients(path: str) -> Client:
    """Returns who may ask for an address.

    A launch may only for its own ones, which this does not say.

    Args:
        path: The address below the prefix of all of them.

    Example:
        >>> find_clients("/agents/a/poll") == Client.AGENT
        True
        >>> find_clients("/experiments") == Client.USER | Client.BROWSER
        True
    """
    return next(clients for pattern, clients in RULES if pattern.match(path))


def has_steps(path: str) -> bool:
    """Returns whether an address has parts that lead elsewhere, or nowhere.

    Example:
        >>> [has_steps(path) for path in ("/agents/a", "/agents/../master", "/agents//a")]
        [False, True, True]
    """
    return any(part in ("", ".", "..") for part in path.split("/")[1:])
