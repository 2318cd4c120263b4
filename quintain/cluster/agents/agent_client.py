"""Client of an agent: its calls to the master, all of which are idempotent."""

# Declarations have no bodies; `call` gives them one.
# mypy: disable-error-code="empty-body"

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from quintain.client import address as address_lib
from quintain.client import call_table
from quintain.client.call_table import call
from quintain.client.http import connection as connection_lib
from quintain.client.http import http_calls
from quintain.cluster.agents import agent_protocol

RETRIES: Final = connection_lib.Retries(max_pause_secs=1.0)
"""An agent is back soon after its master is."""

_EXTRA_WAIT_SECS: Final = 20.0
"""Time for an answer beyond the time that the master was asked to wait."""


class AgentClient(http_calls.HttpCalls):
    """The calls of one agent.

    All raise `MasterUnreachableError` if the master is away for longer than the connection waits,
    and all but `register` raise `GoneError` if the session has ended.

    Args:
        connection: Connection to the master.
        name: Name of the machine.
    """

    def __init__(self, connection: connection_lib.Connection, name: str) -> None:
        super().__init__(connection, name=name)

    @property
    def address(self) -> address_lib.Address:
        """Address of the master for this machine, and for the trials on it."""
        return self._connection.address

    @override
    def ask(self, call: call_table.Call, arguments: Mapping[str, Any]) -> Any:
        plain = {name: agent_protocol.to_plain(value) for name, value in arguments.items()}
        answer = self._connection.request(**vars(call.build(plain, self._fields)))
        is_empty = call.answer is type(None)
        return None if is_empty else agent_protocol.from_plain(call.answer, answer)

    @call("PUT", "/agents/{name}", body="hello")
    def register(self, hello: agent_protocol.Hello) -> agent_protocol.Welcome:
        """Says that the agent is there, and begins a session.

        Raises:
            ConfigError: If the master is of another version, or something is wrong with `hello`.
            StateError: If another agent of this name is there.
            UnauthorizedError: If the token is not that of the master's agents.
        """

    @call("GET", "/agents/{name}/orders", timeout_secs=_EXTRA_WAIT_SECS, wait_secs="wait")
    def find_orders(
        self, session: str, *, after: int, kept: int, wait_secs: float
    ) -> agent_protocol.Orders:
        """Returns what there is to do, once there is something or the time is over.

        Args:
            session: The session.
            after: Orders up to this number are carried out.
            kept: What is known of kept reports.
            wait_secs: Seconds that the master may wait.
        """

    @call("POST", "/agents/{name}/reports", body="report", is_repeatable=True)
    def report(self, session: str, report: agent_protocol.Report) -> None:
        """Tells what has happened."""

    @call("DELETE", "/agents/{name}")
    def leave(self, session: str) -> None:
        """Says that the agent ends, and has no launches."""
