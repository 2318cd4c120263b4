"""`/trials`: the points of searches."""

import dataclasses
from typing import Annotated

import fastapi

from quintain.records.rows import checkpoint as checkpoint_lib
from quintain.records.rows import experiment as experiment_lib
from quintain.records.rows import log, metric, states
from quintain.records.rows import trial as trial_lib
from quintain.server import direct_calls, log_pages, page_rights
from quintain.server.http import responses
from quintain.server.routes import tables


@dataclasses.dataclass
class Continuation:
    """Changes of a trial that goes on."""

    __pydantic_config__ = responses.STRICT_FIELDS

    overrides: responses.Texts = dataclasses.field(default_factory=list)
    """`path=value` texts that win over the config."""


@dataclasses.dataclass
class Changes:
    """Mutable fields of a trial."""

    __pydantic_config__ = responses.STRICT_FIELDS

    note: str
    """The user's words for it."""


def build_router(
    calls: direct_calls.DirectCalls,
) -> fastapi.APIRouter:
    """Returns the addresses below `/trials` that users ask."""
    router = fastapi.APIRouter(prefix="/trials", tags=["trials"])

    @router.get("", response_model=list[trial_lib.TrialRecord])
    def list_trials(
        *,
        experiment_id: int | None = None,
        state: Annotated[list[states.TrialState], fastapi.Query()] = [],  # noqa: B006
    ) -> fastapi.Response:
        """Lists trials."""
        return responses.to_response(calls.list_trials(experiment_id, state_names=state))

    @router.get("/{trial_id}", response_model=trial_lib.TrialRecord)
    def get_trial(trial_id: int) -> fastapi.Response:
        """Returns a trial."""
        return responses.to_response(calls.get_trial(trial_id))

    @router.patch("/{trial_id}", response_model=trial_lib.TrialRecord)
    def change(commands: page_rights.Commands, trial_id: int, changes: Changes) -> fastapi.Response:
        """Replaces its note."""
        return responses.to_response(commands.note_trial(trial_id, changes.note))

    @router.get("/{trial_id}/metrics", response_model=list[metric.MetricRow])
    def list_metrics(
        trial_id: int, *, group: metric.MetricGroup | None = None, after_batches: int = -1
    ) -> fastapi.Response:
        """Lists its metrics."""
        rows = calls.list_metrics(trial_id, group=group, after_batches=after_batches)
        return responses.to_response(rows)

    @router.get("/{trial_id}/batch_metrics", response_model=list[metric.BatchRow])
    def list_batch_metrics(trial_id: int, *, after_batches: int = -1) -> fastapi.Response:
        """Lists what each of its batches of training reported."""
        return responses.to_response(
            calls.list_batch_metrics(trial_id, after_batches=after_batches)
        )

    @router.get("/{trial_id}/logs", response_model=list[log.LogRow])
    def list_logs(
        trial_id: int, page: Annotated[log_pages.Page, fastapi.Depends(tables.read_page)]
    ) -> fastapi.Response:
        """Lists lines that it wrote."""
        return responses.to_response(calls.page_logs(page, trial_id=trial_id))

    @router.get("/{trial_id}/checkpoints", response_model=list[checkpoint_lib.Checkpoint])
    def list_checkpoints(trial_id: int) -> fastapi.Response:
        """Lists its checkpoints."""
        return responses.to_response(calls.list_checkpoints(trial_id=trial_id))

    @router.post("/{trial_id}/kill", response_model=trial_lib.TrialRecord)
    def kill(commands: page_rights.Commands, trial_id: int) -> fastapi.Response:
        """Ends it at once."""
        return responses.to_response(commands.kill_trial(trial_id))

    @router.post("/{trial_id}/rerun", response_model=experiment_lib.Experiment, status_code=201)
    def rerun(commands: page_rights.Commands, trial_id: int) -> fastapi.Response:
        """Creates an experiment of one trial like this one."""
        return responses.to_response(commands.rerun_trial(trial_id), 201)

    @router.post("/{trial_id}/continue", response_model=experiment_lib.Experiment, status_code=201)
    def continue_trial(
        commands: page_rights.Commands, trial_id: int, changes: Continuation
    ) -> fastapi.Response:
        """Creates an experiment of one trial that begins with the newest checkpoint of this one."""
        return responses.to_response(commands.continue_trial(trial_id, changes.overrides), 201)

    return router
