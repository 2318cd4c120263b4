"""`/tensorboard`: opens TensorBoard for the page."""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Annotated

import fastapi
import pydantic

from quintain import errors
from quintain.server import direct_calls
from quintain.server import tensorboards as tensorboards_lib
from quintain.server.http import responses


@dataclasses.dataclass
class Shown:
    """Trials and runs for TensorBoard."""

    __pydantic_config__ = responses.STRICT_FIELDS

    experiment_id: int | None = None
    """All trials of this experiment."""

    trial_ids: Annotated[list[int], pydantic.FailFast()] = dataclasses.field(default_factory=list)
    """These trials."""

    runs: responses.Texts = dataclasses.field(default_factory=list)
    """These runs of `quintain train`, as `/runs` names them."""


def build_router(
    calls: direct_calls.DirectCalls,
    find_run: Callable[[str], pathlib.Path],
    tensorboards: tensorboards_lib.TensorBoards,
) -> fastapi.APIRouter:
    """Returns the address `/tensorboard`.

    Args:
        calls: Knows experiments and trials.
        find_run: Returns the directory of a run.
        tensorboards: Starts them.
    """
    router = fastapi.APIRouter(tags=["tensorboard"])

    @router.post("/tensorboard")
    def open_tensorboard(shown: Shown) -> fastapi.Response:
        """Starts a TensorBoard, unless one shows the same already, and returns its address."""
        if shown.experiment_id is None and not shown.trial_ids and not shown.runs:
            raise errors.ConfigError(
                "body: says nothing to show; expected experiment_id, trial_ids or runs."
            )
        if shown.experiment_id is not None:
            calls.get_experiment(shown.experiment_id)
        for trial_id in shown.trial_ids:
            calls.get_trial(trial_id)
        url = tensorboards.open(
            experiment_id=shown.experiment_id,
            trial_ids=shown.trial_ids,
            run_dirs=[find_run(name) for name in shown.runs],
        )
        return responses.to_response({"url": url})

    return router
