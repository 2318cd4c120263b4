"""`/checkpoints`: saved states of trials."""

from typing import Annotated

import fastapi

from quintain.records.rows import checkpoint as checkpoint_lib
from quintain.server import checkpoint_files, direct_calls, page_rights
from quintain.server import exports as exports_lib
from quintain.server.http import answers, archives, responses


def build_router(
    calls: direct_calls.DirectCalls, exports: exports_lib.Exports
) -> fastapi.APIRouter:
    """Returns the addresses below `/checkpoints`."""
    router = fastapi.APIRouter(prefix="/checkpoints", tags=["checkpoints"])

    @router.get("", response_model=list[checkpoint_lib.Checkpoint])
    def list_checkpoints(
        *,
        experiment_id: int | None = None,
        trial_id: int | None = None,
        state: Annotated[list[checkpoint_lib.CheckpointState], fastapi.Query()] = [],  # noqa: B006
    ) -> fastapi.Response:
        """Lists checkpoints."""
        found = calls.list_checkpoints(
            experiment_id=experiment_id, trial_id=trial_id, state_names=state
        )
        return responses.to_response(found)

    # No UUID is like this.
    @router.get("/orphans", response_model=list[checkpoint_lib.Orphan])
    def list_orphans() -> fastapi.Response:
        """Lists the directories among the checkpoints that the store does not know."""
        return responses.to_response(calls.list_orphans())

    @router.post("/orphans/{name}/adopt", response_model=checkpoint_lib.Checkpoint)
    def adopt_orphan(commands: page_rights.Commands, name: str) -> fastapi.Response:
        """Gives one of them to the experiment that it names."""
        return responses.to_response(commands.adopt_orphan(name))

    @router.delete("/orphans/{name}", response_model=checkpoint_lib.Orphan)
    def delete_orphan(commands: page_rights.Commands, name: str) -> fastapi.Response:
        """Deletes one of them."""
        return responses.to_response(commands.delete_orphan(name))

    @router.get("/{uuid}", response_model=checkpoint_lib.Checkpoint)
    def get_checkpoint(uuid: str) -> fastapi.Response:
        """Returns a checkpoint."""
        return responses.to_response(calls.get_checkpoint(uuid))

    @router.delete("/{uuid}", response_model=checkpoint_lib.Checkpoint)
    def delete_checkpoint(commands: page_rights.Commands, uuid: str) -> fastapi.Response:
        """Deletes its files."""
        return responses.to_response(commands.delete_checkpoint(calls.get_checkpoint(uuid).uuid))

    @router.get("/{uuid}/files", response_model=list[str])
    def list_files(uuid: str) -> fastapi.Response:
        """Lists its files."""
        return responses.to_response(list(calls.find_checkpoint_files(uuid).list_sizes()))

    @router.get("/{uuid}/files/{name:path}", response_class=fastapi.responses.FileResponse)
    def get_file(uuid: str, name: str) -> fastapi.Response:
        """Returns one of its files."""
        return archives.to_file_response(calls.find_checkpoint_files(uuid), name)

    @router.get("/{uuid}/archive.tar", response_class=fastapi.Response)
    def get_archive(uuid: str) -> fastapi.Response:
        """Returns all of its files as one archive."""
        found = calls.get_checkpoint(uuid).uuid
        return archives.to_response(calls.find_checkpoint_files(found), f"checkpoint-{found}")

    @router.post("/{uuid}/export", response_model=answers.Export)
    def export(uuid: str) -> fastapi.Response:
        """Exports its models below the home, which takes a while; once done, it is there."""
        found = calls.get_checkpoint(uuid).uuid
        calls.find_checkpoint_files(found)
        directory = exports.export(found)
        files = list(checkpoint_files.StoredFiles.below(directory).list_sizes())
        return responses.to_response({"directory": str(directory), "files": files})

    @router.get("/{uuid}/export.tar", response_class=fastapi.Response)
    def get_export(uuid: str) -> fastapi.Response:
        """Returns its exported models as one archive."""
        found = calls.get_checkpoint(uuid).uuid
        return archives.to_response(
            checkpoint_files.StoredFiles.below(exports.find(found)), f"export-{found}"
        )

    return router
