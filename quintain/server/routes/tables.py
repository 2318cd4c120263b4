"""`/experiments/{id}/table` and the like: what tables and charts of many trials show."""

from typing import Annotated

import fastapi

from quintain.records.rows import log, log_levels
from quintain.records.views import importance, trial_table
from quintain.server import direct_calls, log_pages
from quintain.server.http import answers, responses

Names = Annotated[list[str], fastapi.Query()]


def build_router(calls: direct_calls.DirectCalls) -> fastapi.APIRouter:
    """Returns addresses below `/experiments` and `/trials`."""
    router = fastapi.APIRouter(tags=["tables"])

    @router.get("/experiments/{experiment_id}/table", response_model=answers.Table)
    def get_table(experiment_id: int) -> fastapi.Response:
        """Returns all trials as columns."""
        text = calls.write_table(experiment_id)
        return fastapi.Response(text, media_type="application/json")

    @router.get("/experiments/{experiment_id}/table.csv", response_class=fastapi.Response)
    def get_csv(experiment_id: int, where: str = "", sort: str = "") -> fastapi.Response:
        """Returns trials as CSV, with all hyperparameters and metrics."""
        table = calls.get_table(experiment_id)
        name = f"experiment_{experiment_id}.csv"
        return fastapi.Response(
            table.write_csv(table.select(where, sort)),
            media_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    @router.get("/experiments/{experiment_id}/curves", response_class=fastapi.Response)
    def get_curves(
        experiment_id: int,
        metric: Names = [],  # noqa: B006
        trial_id: Annotated[list[int], fastapi.Query()] = [],  # noqa: B006
    ) -> fastapi.Response:
        """Returns how metrics went, in few points for each trial, as `tables.read_curves` says.

        It is: the length of the header as uint32; the header, JSON with `cursor` and `curves`
        (trial, metric, number of points); then for each curve its batches, values and times as
        float64. Numbers are little-endian.
        """
        content = calls.read_curves(experiment_id, metric, trial_id)
        return fastapi.Response(content, media_type="application/octet-stream")

    @router.get("/trials/{trial_id}/points", response_model=answers.Points)
    def get_points(
        trial_id: int,
        metric: str,
        *,
        first: Annotated[int | None, fastapi.Query(alias="from")] = None,
        last: Annotated[int | None, fastapi.Query(alias="to")] = None,
    ) -> fastapi.Response:
        """Returns all points of a metric between two numbers of batches, both included."""
        return responses.to_response(calls.list_points(trial_id, metric, first, last))

    @router.get("/experiments/{experiment_id}/importance", response_model=importance.Importances)
    def get_importances(
        experiment_id: int,
        metric: str = "",
        evaluator: importance.Evaluator = importance.Evaluator.AUTO,
    ) -> fastapi.Response:
        """Says how much each hyperparameter decides about a metric, the searched one by default."""
        found = calls.get_importances(experiment_id, metric_name=metric, evaluator=evaluator)
        return responses.to_response(found)

    @router.get("/experiments/{experiment_id}/search", response_model=answers.Search)
    def get_search(experiment_id: int) -> fastapi.Response:
        """Shows what the search knows: its rungs, and which trials were copied."""
        return responses.to_response(calls.get_search(experiment_id))

    @router.get("/experiments/{experiment_id}/logs", response_model=list[log.LogRow])
    def list_logs(
        experiment_id: int, page: Annotated[log_pages.Page, fastapi.Depends(read_page)]
    ) -> fastapi.Response:
        """Lists lines that its trials wrote."""
        return responses.to_response(calls.page_logs(page, experiment_id=experiment_id))

    return router


def read_page(
    *,
    after: int = 0,
    before: int | None = None,
    limit: Annotated[int, fastapi.Query(ge=1, le=100_000)] = 1000,
    last: Annotated[int | None, fastapi.Query(ge=0)] = None,
    source: log.LogSource | None = None,
    contains: str | None = None,
    level: log_levels.LogLevel = log_levels.LogLevel.INFO,
) -> log_pages.Page:
    """Returns which lines a request asks for."""
    return log_pages.Page(after, before, limit, last, source, contains, level=level)


def read_selection(
    *,
    where: str = "",
    sort: str = "",
    limit: Annotated[int | None, fastapi.Query(ge=0)] = None,
    offset: Annotated[int, fastapi.Query(ge=0)] = 0,
) -> trial_table.Selection:
    """Returns which trials a request asks for."""
    return trial_table.Selection(where, sort, limit, offset)
