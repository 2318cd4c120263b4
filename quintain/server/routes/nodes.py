"""`/nodes`: the machines, and which of them take trials."""

from typing import Any

import fastapi

from quintain.master import node_commands
from quintain.records.rows import node as node_lib
from quintain.server.http import responses


def build_router(commands: node_commands.NodeCommands) -> fastapi.APIRouter:
    """Returns the addresses below `/nodes`.

    Args:
        commands: What answers.
    """
    router = fastapi.APIRouter(tags=["nodes"])
    answer: dict[str, Any] = {"response_model": node_lib.NodeStatus}

    @router.get("/nodes", response_model=list[node_lib.NodeStatus])
    def list_nodes() -> fastapi.Response:
        """Lists the machines; that of the master is called `master`."""
        return responses.to_response(commands.list_nodes())

    @router.post("/nodes/{name}/drain", **answer)
    def drain(name: str) -> fastapi.Response:
        """Lets trials of a machine save themselves and go on elsewhere, and starts none there."""
        return responses.to_response(commands.drain(name))

    @router.post("/nodes/{name}/activate", **answer)
    def activate(name: str) -> fastapi.Response:
        """Starts trials on a machine again."""
        return responses.to_response(commands.activate(name))

    return router
