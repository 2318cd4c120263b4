"""Client calls about machines."""

import urllib.parse
from typing import Final

from quintain.client.http import connection
from quintain.records.rows import codec
from quintain.records.rows import node as node_lib

_PREFIX: Final = "/api/v1/nodes"


class NodeCalls:
    """Asks a master for its machines, and steers them.

    Args:
        connected: Connection to the master.
    """

    def __init__(self, connected: connection.Connection) -> None:
        self._connection = connected

    def list_nodes(self) -> list[node_lib.NodeStatus]:
        """Returns the machines."""
        return codec.from_plain(list[node_lib.NodeStatus], self._connection.request("GET", _PREFIX))

    def drain(self, name: str) -> node_lib.NodeStatus:
        """Lets trials of a machine save themselves and go on elsewhere, and starts none there."""
        return self._ask(name, "drain")

    def activate(self, name: str) -> node_lib.NodeStatus:
        """Starts trials on a machine again."""
        return self._ask(name, "activate")

    def _ask(self, name: str, command: str) -> node_lib.NodeStatus:
        path = f"{_PREFIX}/{urllib.parse.quote(name, safe='')}/{command}"
        answer = self._connection.request("POST", path, is_repeatable=True)
        return codec.from_plain(node_lib.NodeStatus, answer)
