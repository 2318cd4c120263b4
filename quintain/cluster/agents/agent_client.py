"""Client of an agent: its calls to the master, all of which are idempotent."""

import urllib.parse
from typing import Final

from quintain.client import address as address_lib
from quintain.client.http import connection as connection_lib
from quintain.cluster.agents import agent_protocol

RETRIES: Final = connection_lib.Retries(max_pause_secs=1.0)
"""An agent is back soon after its master is."""

_EXTRA_WAIT_SECS = 20.0
"""Time for an answer beyond the time that the master was asked to wait."""


class AgentClient:
    """The calls of one agent.

    Args:
        connection: Connection to the master.
        name: Name of the machine.
    """

    def __init__(self, connection: connection_lib.Connection, name: str) -> None:
        self._connection = connection
        self._path = f"{agent_protocol.PATH}/{urllib.parse.quote(name, safe='')}"

    @property
    def address(self) -> address_lib.Address:
        """Address of the master for this machine, and for the trials on it."""
        return self._connection.address

    def register(self, hello: agent_protocol.Hello) -> agent_protocol.Welcome:
        """Says that the agent is there, and begins a session.

        Raises:
            ConfigError: If the master is of another version, or something is wrong with `hello`.
            MasterUnreachableError: If the master is away for longer than the connection waits.
            StateError: If another agent of this name is there.
            UnauthorizedError: If the token is not that of the master's agents.
        """
        answer = self._connection.request("PUT", self._path, body=agent_protocol.to_plain(hello))
        return agent_protocol.from_plain(agent_protocol.Welcome, answer)

    def find_orders(
        self, session: str, *, after: int, kept: int, wait_secs: float
    ) -> agent_protocol.Orders:
        """Returns what there is to do, once there is something or the time is over.

        Args:
            session: The session.
            after: Orders up to this number are carried out.
            kept: What is known of kept reports.
            wait_secs: Seconds that the master may wait.

        Raises:
            GoneError: If the session has ended.
            MasterUnreachableError: If the master is away for longer than the connection waits.
        """
        answer = self._connection.request(
            "GET",
            f"{self._path}/orders",
            query={"session": session, "after": after, "kept": kept, "wait": wait_secs},
            timeout_secs=wait_secs + _EXTRA_WAIT_SECS,
        )
        return agent_protocol.from_plain(agent_protocol.Orders, answer)

    def report(self, session: str, report: agent_protocol.Report) -> None:
        """Tells what has happened.

        Raises:
            GoneError: If the session has ended.
            MasterUnreachableError: If the master is away for longer than the connection waits.
        """
        self._connection.request(
            "POST",
            f"{self._path}/reports",
            query={"session": session},
            body=agent_protocol.to_plain(report),
            is_repeatable=True,
        )

    def leave(self, session: str) -> None:
        """Says that the agent ends, and has no launches.

        Raises:
            GoneError: If the session has ended.
            MasterUnreachableError: If the master is away for longer than the connection waits.
        """
        self._connection.request("DELETE", self._path, query={"session": session})
