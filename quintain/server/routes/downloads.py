"""Downloads: the code of experiments, the files of checkpoints, and models exported from them."""

import fastapi

from quintain.server import checkpoint_files
from quintain.server.http import answers, archives, responses
from quintain.server.routes import parts as parts_lib

router = responses.build_router(tags=["downloads"])


@router.get("/experiments/{experiment_id}/files.tar", response_class=fastapi.Response)
def get_code_archive(parts: parts_lib.Given, experiment_id: int) -> fastapi.Response:
    """Returns its code as one archive."""
    return archives.to_response(_find_code(parts, experiment_id), f"experiment-{experiment_id}")


@router.get("/experiments/{experiment_id}/files", response_model=list[str])
def list_code(parts: parts_lib.Given, experiment_id: int) -> fastapi.Response:
    """Lists the files of its code."""
    return responses.to_response(list(_find_code(parts, experiment_id).list_sizes()))


@router.get(
    "/experiments/{experiment_id}/files/{name:path}", response_class=fastapi.responses.FileResponse
)
def get_code_file(parts: parts_lib.Given, experiment_id: int, name: str) -> fastapi.Response:
    """Returns a file of its code."""
    return archives.to_file_response(_find_code(parts, experiment_id), name)


@router.get("/checkpoints/{uuid}/files", response_model=list[str])
def list_checkpoint_files(parts: parts_lib.Given, uuid: str) -> fastapi.Response:
    """Lists the files of a checkpoint."""
    return responses.to_response(list(parts.calls.find_checkpoint_files(uuid).list_sizes()))


@router.get("/checkpoints/{uuid}/files/{name:path}", response_class=fastapi.responses.FileResponse)
def get_checkpoint_file(parts: parts_lib.Given, uuid: str, name: str) -> fastapi.Response:
    """Returns one of its files."""
    return archives.to_file_response(parts.calls.find_checkpoint_files(uuid), name)


@router.get("/checkpoints/{uuid}/archive.tar", response_class=fastapi.Response)
def get_archive(parts: parts_lib.Given, uuid: str) -> fastapi.Response:
    """Returns all of its files as one archive."""
    found = parts.calls.get_checkpoint(uuid).uuid
    return archives.to_response(parts.calls.find_checkpoint_files(found), f"checkpoint-{found}")


@router.post("/checkpoints/{uuid}/export", response_model=answers.Export)
def export(parts: parts_lib.Given, uuid: str) -> fastapi.Response:
    """Exports its models below the home, which takes a while; once done, it is there."""
    found = parts.calls.get_checkpoint(uuid).uuid
    parts.calls.find_checkpoint_files(found)
    directory = parts.exports.export(found)
    files = list(checkpoint_files.StoredFiles.below(directory).list_sizes())
    return responses.to_response({"directory": str(directory), "files": files})


@router.get("/checkpoints/{uuid}/export.tar", response_class=fastapi.Response)
def get_export(parts: parts_lib.Given, uuid: str) -> fastapi.Response:
    """Returns its exported models as one archive."""
    found = parts.calls.get_checkpoint(uuid).uuid
    files = checkpoint_files.StoredFiles.below(parts.exports.find(found))
    return archives.to_response(files, f"export-{found}")


def _find_code(parts: parts_lib.Parts, experiment_id: int) -> checkpoint_files.StoredFiles:
    return checkpoint_files.StoredFiles.below(parts.calls.find_model_dir(experiment_id))
