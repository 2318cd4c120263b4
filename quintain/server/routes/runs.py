"""`/runs`: the runs of `quintain train` that are on this machine."""

import dataclasses
import os
import pathlib
from typing import Annotated

import fastapi
import pydantic

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.client.notebook import run_notes
from quintain.records.views import master_status
from quintain.server.http import responses
from quintain.server.runs import run_index, run_reader, run_samples


@dataclasses.dataclass
class Folders:
    """Folders that are searched for runs."""

    __pydantic_config__ = responses.STRICT_FIELDS

    paths: Annotated[responses.Texts, pydantic.Field(max_length=100)]
    """Absolute paths."""


def build_index(info: master_status.MasterInfo) -> run_index.RunIndex:
    """Returns what finds the runs in the folders of a master, and those noted in its home."""
    home = home_lib.Home(pathlib.Path(info.home))
    return run_index.RunIndex(map(pathlib.Path, info.run_dirs), lambda: run_notes.list_paths(home))


def build_router(index: run_index.RunIndex) -> fastapi.APIRouter:
    """Returns the addresses below `/runs`.

    Args:
        index: Finds runs.
    """
    router = fastapi.APIRouter(prefix="/runs", tags=["runs"])
    reader = run_reader.RunReader()

    @router.get("")
    def list_runs() -> fastapi.Response:
        """Lists runs of `quintain train`, the latest first."""
        found = index.list_runs()
        reader.forget_all_but(run.path for run in found)
        runs = [reader.summarize(run) for run in found]
        return responses.to_response(sorted(runs, key=lambda run: run.time, reverse=True))

    @router.post("/folders")
    def add_folders(folders: Folders) -> fastapi.Response:
        """Shows the runs below further folders, until the master ends."""
        paths = [pathlib.Path(path) for path in folders.paths]
        for path in paths:
            if not path.is_absolute() or not os.path.isdir(path):
                raise errors.ConfigError(
                    f"paths: got {str(path)[:200]!r}, expected the absolute path of a directory."
                )
        index.add(paths)
        return responses.to_response({})

    @router.get("/{name}")
    def get_run(name: str) -> fastapi.Response:
        """Returns a run with its settings, its checkpoints and how it was started."""
        return responses.to_response(reader.describe(index.get(name)))

    @router.get("/{name}/curves")
    def get_curves(name: str, *, after: str = "") -> fastapi.Response:
        """Returns its metrics as columns; those that are new since the cursor `after`."""
        return responses.to_response(reader.read_curves(index.get(name), after))

    @router.get("/{name}/samples")
    def get_samples(
        name: str,
        *,
        file: str = "",
        contains: str = "",
        offset: Annotated[int, fastapi.Query(ge=0, le=2**53)] = 0,
        limit: Annotated[int, fastapi.Query(ge=1, le=1000)] = 50,
    ) -> fastapi.Response:
        """Returns translations of one of its evaluations."""
        found = run_samples.read(
            index.get(name).path, file, contains=contains, offset=offset, limit=limit
        )
        return responses.to_response(found)

    return router
