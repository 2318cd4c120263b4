"""`/experiments/{id}/table` and the like: what tables, charts and logs of many trials show."""

from typing import Annotated

import fastapi

from quintain.records.rows import checkpoint as checkpoint_lib
from quintain.records.rows import log, log_levels
from quintain.server import log_pages
from quintain.server.http import answers, responses
from quintain.server.routes import parts as parts_lib

router = responses.build_router(tags=["tables"])


async def _read_page(
    *,
    after: int = 0,
    before: int | None = None,
    limit: Annotated[int, fastapi.Query(ge=1, le=100_000)] = 1000,
    last: Annotated[int | None, fastapi.Query(ge=0)] = None,
    source: log.LogSource | None = None,
    contains: str | None = None,
    level: log_levels.LogLevel = log_levels.LogLevel.INFO,
) -> log_pages.Page:
    return log_pages.Page(after, before, limit, last, source, contains, level=level)


Page = Annotated[log_pages.Page, fastapi.Depends(_read_page)]
"""The lines that a request asks for."""


@router.get("/experiments/{experiment_id}/table", response_model=answers.Table)
def get_table(parts: parts_lib.Given, experiment_id: int) -> fastapi.Response:
    """Returns all trials as columns."""
    text = parts.calls.write_table(experiment_id)
    return fastapi.Response(text, media_type="application/json")


@router.get("/experiments/{experiment_id}/table.csv", response_class=fastapi.Response)
def get_csv(
    parts: parts_lib.Given, experiment_id: int, where: str = "", sort: str = ""
) -> fastapi.Response:
    """Returns trials as CSV, with all hyperparameters and metrics."""
    table = parts.calls.get_table(experiment_id)
    name = f"experiment_{experiment_id}.csv"
    return fastapi.Response(
        table.write_csv(table.select(where, sort)),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@router.get("/experiments/{experiment_id}/curves", response_class=fastapi.Response)
def get_curves(
    parts: parts_lib.Given,
    experiment_id: int,
    metric: Annotated[list[str], fastapi.Query()] = [],  # noqa: B006
    trial_id: Annotated[list[int], fastapi.Query()] = [],  # noqa: B006
) -> fastapi.Response:
    """Returns how metrics went, in few points for each trial, as `tables.read_curves` says.

    It is: the length of the header as uint32; the header, JSON with `cursor` and `curves` (trial,
    metric, number of points); then for each curve its batches, values and times as float64.
    Numbers are little-endian.
    """
    content = parts.calls.read_curves(experiment_id, metric, trial_id)
    return fastapi.Response(content, media_type="application/octet-stream")


@router.get("/experiments/{experiment_id}/search", response_model=answers.Search)
def get_search(parts: parts_lib.Given, experiment_id: int) -> fastapi.Response:
    """Shows what the search knows: its rungs, and which trials were copied."""
    return responses.to_response(parts.calls.get_search(experiment_id))


@router.get("/experiments/{experiment_id}/logs", response_model=list[log.LogRow])
def list_experiment_logs(
    parts: parts_lib.Given, experiment_id: int, page: Page
) -> fastapi.Response:
    """Lists lines that its trials wrote."""
    return responses.to_response(parts.calls.page_logs(page, experiment_id=experiment_id))


@router.get("/trials/{trial_id}/logs", response_model=list[log.LogRow])
def list_logs(parts: parts_lib.Given, trial_id: int, page: Page) -> fastapi.Response:
    """Lists lines that it wrote."""
    return responses.to_response(parts.calls.page_logs(page, trial_id=trial_id))


@router.get("/trials/{trial_id}/checkpoints", response_model=list[checkpoint_lib.Checkpoint])
def list_checkpoints(parts: parts_lib.Given, trial_id: int) -> fastapi.Response:
    """Lists its checkpoints."""
    return responses.to_response(parts.calls.list_checkpoints(trial_id=trial_id))


@router.get("/trials/{trial_id}/points", response_model=answers.Points)
def get_points(
    parts: parts_lib.Given,
    trial_id: int,
    metric: str,
    *,
    first: Annotated[int | None, fastapi.Query(alias="from")] = None,
    last: Annotated[int | None, fastapi.Query(alias="to")] = None,
) -> fastapi.Response:
    """Returns all points of a metric between two numbers of batches, both included."""
    return responses.to_response(parts.calls.list_points(trial_id, metric, first, last))
