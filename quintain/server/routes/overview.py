"""Views of a whole master: `/slots`, `/metrics`, `/timeline`, `/runs` of `quintain train`."""

import dataclasses
from typing import Annotated, Any, Final

import fastapi
import pydantic
from typing_extensions import TypedDict

from quintain import errors
from quintain.records import team
from quintain.records.rows import node as node_lib
from quintain.records.views import following, master_status
from quintain.server import monitoring, saved_views
from quintain.server.http import responses
from quintain.server.routes import parts as parts_lib
from quintain.server.runs import run_samples
from quintain.server.security import access, visible_slots

_MOST_SPANS: Final = 20_000

router = responses.build_router(tags=["master"])


class SlotKind(TypedDict):
    """A slot that there is now."""

    id: int
    kind: str
    device: str
    node: str
    """Its machine; empty for that of the master."""


class Timeline(TypedDict):
    """Launches by slot and time."""

    slots: list[SlotKind]
    spans: list[list[Any]]
    """`[slot, trial, experiment, start, end]` each; the end is null while it runs."""


@dataclasses.dataclass
class Shown:
    """Trials and runs for TensorBoard."""

    __pydantic_config__ = responses.STRICT_FIELDS

    experiment_id: int | None = None
    """All trials of this experiment."""

    trial_ids: Annotated[list[int], pydantic.FailFast()] = dataclasses.field(default_factory=list)
    """These trials."""

    runs: Annotated[list[str], pydantic.FailFast()] = dataclasses.field(default_factory=list)
    """These runs of `quintain train`, as `/runs` names them."""


@dataclasses.dataclass
class NewView:
    """A view of the page to be saved."""

    __pydantic_config__ = responses.STRICT_FIELDS

    name: str
    address: str
    """What follows `#` in the page's address."""


@router.get("/slots", response_model=list[master_status.SlotStatus])
def list_slots(
    parts: parts_lib.Given,
    visible: visible_slots.Given,
    after: int = -1,
    limit: Annotated[int | None, fastapi.Query(ge=1)] = None,
    trial_id: int | None = None,
) -> fastapi.Response:
    """Lists slots and who holds them, by number: those after one, and at most so many."""
    found = parts.master.list_slots(after=after, limit=limit, trial_id=trial_id)
    return responses.to_response(visible.of_holders(found))


@router.get("/master/status", response_model=master_status.MasterStatus)
def get_status(parts: parts_lib.Given, visible: visible_slots.Given) -> fastapi.Response:
    """Returns what runs where."""
    return responses.to_response(visible.of_status(parts.calls.get_status()))


@router.get("/master/summary", response_model=master_status.MasterSummary)
def get_summary(parts: parts_lib.Given, visible: visible_slots.Given) -> fastapi.Response:
    """Returns the status in numbers, which is quick however many slots there are."""
    return responses.to_response(visible.of_status(parts.master.summary()))


@router.get("/nodes", response_model=list[node_lib.NodeStatus])
def list_nodes(parts: parts_lib.Given, visible: visible_slots.Given) -> fastapi.Response:
    """Returns the machines."""
    return responses.to_response(visible.of_nodes(parts.master.nodes.list_nodes()))


@router.get("/experiments/{experiment_id}/following", response_model=following.Following)
def follow(
    parts: parts_lib.Given, visible: visible_slots.Given, experiment_id: int, cursor: str = ""
) -> fastapi.Response:
    """Returns an experiment, and the trials that have changed since it was asked last."""
    found = parts.calls.follow(experiment_id, cursor)
    return responses.to_response(dataclasses.replace(found, master=visible.of_status(found.master)))


@router.get("/metrics", response_class=fastapi.responses.PlainTextResponse)
def get_metrics(parts: parts_lib.Given) -> fastapi.Response:
    """Returns the metrics of the master in Prometheus' text format."""
    return fastapi.Response(parts.metrics.format(), media_type=monitoring.CONTENT_TYPE)


@router.get("/timeline", response_model=Timeline)
def get_timeline(
    parts: parts_lib.Given,
    visible: visible_slots.Given,
    *,
    experiment_id: int | None = None,
    since: float | None = None,
) -> fastapi.Response:
    """Lists who ran where: `[slot, trial, experiment, start, end]`, the newest 20,000.

    Trial and experiment are 0 where they belong to a project that one may not read.
    """
    slots = [
        {"id": slot.id, "kind": slot.kind, "device": slot.device, "node": slot.node}
        for slot in parts.calls.get_status().slots
    ]
    listed = [
        [slot, span.trial_id, span.experiment_id, span.start_time, span.end_time]
        for span in visible.of_holders(parts.calls.list_spans(experiment_id, since=since))
        for slot in span.slots
    ]
    return responses.to_response({"slots": slots, "spans": listed[-_MOST_SPANS:]})


@router.post("/tensorboard")
def open_tensorboard(parts: parts_lib.Given, shown: Shown) -> fastapi.Response:
    """Starts a TensorBoard, unless one shows the same already, and returns its address."""
    if shown.experiment_id is None and not shown.trial_ids and not shown.runs:
        raise errors.ConfigError(
            "body: says nothing to show; expected experiment_id, trial_ids or runs."
        )
    if shown.experiment_id is not None:
        parts.calls.get_experiment(shown.experiment_id)
    for trial_id in shown.trial_ids:
        parts.calls.get_trial(trial_id)
    url = parts.tensorboards.open(
        experiment_id=shown.experiment_id,
        trial_ids=shown.trial_ids,
        run_dirs=[parts.runs.get(name).path for name in shown.runs],
    )
    return responses.to_response({"url": url})


@router.get("/whoami", response_model=team.User)
def get_user(parts: parts_lib.Given, request: fastapi.Request) -> fastapi.Response:
    """Returns who asks, with their roles."""
    return responses.to_response(parts.roles.get(getattr(request.state, access.USER)))


@dataclasses.dataclass
class LinkOptions:
    """Body of a request for a link."""

    __pydantic_config__ = responses.STRICT_FIELDS

    stays: bool = False
    """Whether it is good until it is used; otherwise for ten minutes."""


@router.post("/master/sign-in", response_model=master_status.PageLink)
def build_link(
    parts: parts_lib.Given, request: fastapi.Request, options: LinkOptions
) -> fastapi.Response:
    """Returns a link that opens the page in a browser once."""
    user = getattr(request.state, access.USER)
    url = parts.sign_in.build_link(stays=options.stays, user=user)
    return responses.to_response(master_status.PageLink(url))


@router.post("/master/sign-out")
def sign_out(parts: parts_lib.Given, request: fastapi.Request) -> fastapi.Response:
    """Ends the session of the browser that asks."""
    session = getattr(request.state, access.SESSION, None)
    if session is None:
        raise errors.StateError(
            "The request carries no cookie; only a browser that `quintain ui` signed in can sign "
            "out."
        )
    parts.sign_in.sessions.end(session)
    return responses.to_response({})


@router.get("/views", response_model=list[saved_views.SavedView])
def list_views(parts: parts_lib.Given) -> fastapi.Response:
    """Lists named views of the page."""
    return responses.to_response(parts.views.list_views())


@router.put("/views", response_model=list[saved_views.SavedView])
def save_view(parts: parts_lib.Given, view: NewView) -> fastapi.Response:
    """Saves a view of the page, in place of one of the same name, and lists all."""
    parts.views.save(view.name, view.address)
    return list_views(parts)


@router.delete("/views", response_model=list[saved_views.SavedView])
def delete_view(parts: parts_lib.Given, name: str) -> fastapi.Response:
    """Deletes a named view, and lists all others."""
    parts.views.delete(name)
    return list_views(parts)


@router.get("/runs")
def list_runs(parts: parts_lib.Given) -> fastapi.Response:
    """Lists runs of `quintain train`, the latest first."""
    found = parts.runs.list_runs()
    parts.run_reader.forget_all_but(run.path for run in found)
    runs = [parts.run_reader.summarize(run) for run in found]
    return responses.to_response(sorted(runs, key=lambda run: run.time, reverse=True))


@router.get("/runs/{name}")
def get_run(parts: parts_lib.Given, name: str) -> fastapi.Response:
    """Returns a run with its settings, its checkpoints and how it was started."""
    return responses.to_response(parts.run_reader.describe(parts.runs.get(name)))


@router.post("/runs/{name}/stop")
def stop_run(parts: parts_lib.Given, name: str) -> fastapi.Response:
    """Asks a run to save a checkpoint and to end; returns the command that goes on with it."""
    return responses.to_response({"command": parts.run_reader.stop(parts.runs.get(name))})


@router.get("/runs/{name}/curves")
def get_curves(parts: parts_lib.Given, name: str, *, after: str = "") -> fastapi.Response:
    """Returns its metrics as columns; those that are new since the cursor `after`."""
    return responses.to_response(parts.run_reader.read_curves(parts.runs.get(name), after))


@router.get("/runs/{name}/samples")
def get_samples(
    parts: parts_lib.Given,
    name: str,
    *,
    file: str = "",
    contains: str = "",
    offset: Annotated[int, fastapi.Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, fastapi.Query(ge=1, le=1000)] = 50,
) -> fastapi.Response:
    """Returns translations of one of its evaluations."""
    found = run_samples.read(
        parts.runs.get(name).path, file, contains=contains, offset=offset, limit=limit
    )
    return responses.to_response(found)
