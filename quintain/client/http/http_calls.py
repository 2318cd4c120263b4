"""Calls of a table as requests to a master."""

from collections.abc import Mapping
from typing import Any

from quintain.client import call_table
from quintain.client.http import connection
from quintain.records.rows import codec


class HttpCalls:
    """Sends the calls that a class declares.

    Args:
        connected: Connection to the master.
        **fields: What stands in the paths of calls besides their arguments.
    """

    def __init__(self, connected: connection.Connection, **fields: Any) -> None:
        self._connection = connected
        self._fields = fields

    def ask(self, call: call_table.Call, arguments: Mapping[str, Any]) -> Any:
        """Returns the answer to a call.

        Raises:
            MasterUnreachableError: If the master is away for longer than the connection waits.
            QuintainError: What the master raised, of the same class.
        """
        request = call.build(arguments, self._fields)
        answer = self._connection.request(**vars(request))
        return codec.from_plain(call.answer, answer)
