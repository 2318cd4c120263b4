"""`/experiments`: lists and trials of searches, and dry runs of new ones."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Annotated, Any, Final

import fastapi

from quintain import errors
from quintain.config import yaml_io
from quintain.master import new_experiments, unexpected_errors
from quintain.records.config import experiment_spec
from quintain.records.rows import checkpoint as checkpoint_lib
from quintain.records.rows import experiment as experiment_lib
from quintain.records.rows import states
from quintain.records.rows import trial as trial_lib
from quintain.records.views import trial_table
from quintain.search import simulate
from quintain.server import page_rights
from quintain.server.http import answers, responses
from quintain.server.routes import parts as parts_lib
from quintain.server.security import access

_MAX_TRIALS: Final = 2000
_MAX_SECS: Final = 1.0

router = responses.build_router("/experiments", tags=["experiments"])


@dataclasses.dataclass
class CheckedExperiment:
    """Body of a dry run."""

    __pydantic_config__ = responses.STRICT_FIELDS

    config_text: str | None = None
    """The config as YAML; that of the parent if None."""

    overrides: responses.Texts = dataclasses.field(default_factory=list)
    """`path=value` texts that win over the config."""

    parent_id: int | None = None
    """Experiment that it would be forked from."""


@router.get("", response_model=list[experiment_lib.Experiment] | list[answers.Summary])
def list_experiments(
    parts: parts_lib.Given,
    request: fastapi.Request,
    *,
    include_archived: bool = False,
    state: Annotated[list[states.ExperimentState], fastapi.Query()] = [],  # noqa: B006
    label: Annotated[list[str], fastapi.Query()] = [],  # noqa: B006
    project: Annotated[list[str], fastapi.Query()] = [],  # noqa: B006
    summary: bool = False,
) -> fastapi.Response:
    """Lists experiments that one may read, or summaries of them (see `answers.Summary`)."""
    readable = parts.roles.find_readable(getattr(request.state, access.USER))
    if readable is not None:
        project = [one for one in project or readable if one in readable]
        if not project:
            return responses.to_response([])
    read = parts.calls.summarise_experiments if summary else parts.calls.list_experiments
    found = read(
        include_archived=include_archived, state_names=state, labels=label, projects=project
    )
    return responses.to_response(found)


@router.post("/check", response_model=answers.Check)
def check_experiment(commands: page_rights.Commands, new: CheckedExperiment) -> fastapi.Response:
    """Says what an experiment would be, without creating it."""
    text = "" if new.parent_id is None and new.config_text is None else new.config_text
    content = commands.read_content(text, new.overrides, "config", new.parent_id)
    config = new_experiments.build_config(content)
    written = {"config": config.as_dict(), "config_text": yaml_io.dump(content)}
    return responses.to_response(_play(config) | written)


@router.get("/{experiment_id}/trials", response_model=list[trial_lib.TrialRecord])
def select_trials(
    parts: parts_lib.Given,
    experiment_id: int,
    *,
    where: str = "",
    sort: str = "",
    limit: Annotated[int | None, fastapi.Query(ge=0)] = None,
    offset: Annotated[int, fastapi.Query(ge=0)] = 0,
    state: Annotated[list[states.TrialState], fastapi.Query()] = [],  # noqa: B006
    fields: str = "",
) -> fastapi.Response:
    """Lists its trials; the header `X-Total-Count` has their number without a limit.

    `where` is an expression (see `records/views/trial_filter.py`), `sort` and `fields` are names
    divided by commas. Prefix a name in `sort` with `-` for descending order.
    """
    selection = trial_table.Selection(where, sort, limit, offset)
    names = _read_fields(fields)
    found: Sequence[Any]
    if names == ["id"] and where:  # What the page asks for, as trials change and people type.
        ids, total = parts.calls.select_ids(experiment_id, selection, state)
        found = [{"id": trial_id} for trial_id in ids]
    else:
        found, total = parts.calls.select_and_count(experiment_id, selection, state)
        if names:
            found = [{name: getattr(one, name) for name in names} for one in found]
    answer = responses.to_response(found)
    answer.headers["X-Total-Count"] = str(total)
    return answer


@router.get("/{experiment_id}/checkpoints", response_model=list[checkpoint_lib.Checkpoint])
def list_checkpoints(parts: parts_lib.Given, experiment_id: int) -> fastapi.Response:
    """Lists its checkpoints."""
    return responses.to_response(parts.calls.list_checkpoints(experiment_id=experiment_id))


def _read_fields(fields: str) -> list[str]:
    """Returns the fields of trials that a request names; none stand for all.

    Raises:
        ConfigError: If there is no such field.
    """
    names = [name.strip() for name in fields.split(",") if name.strip()]
    known = [field.name for field in dataclasses.fields(trial_lib.TrialRecord)]
    for name in names:
        if name not in known:
            raise errors.ConfigError(
                f"fields: got {errors.show(name)}, expected some of {', '.join(known)}."
                f"{errors.suggest(name, known)}"
            )
    return names


def _play(config: experiment_spec.ExperimentSpec) -> dict[str, Any]:
    """Returns how many trials a search would have, and how long they would train.

    Raises:
        ConfigError: If it can't be played.
    """
    deadline_secs = time.monotonic() + _MAX_SECS
    with unexpected_errors.search_errors_explained():
        estimate = simulate.estimate(
            config, _MAX_TRIALS, lambda _: time.monotonic() >= deadline_secs
        )
    return {
        "name": config.name,
        "searcher": config.searcher.name,
        "metric": config.searcher.metric,
        "num_trials": estimate.num_trials,
        "total_batches": estimate.total_length * config.searcher.batches_per_unit,
        "max_concurrent_trials": estimate.max_concurrent_trials,
        "is_extrapolated": estimate.is_extrapolated,
    }
