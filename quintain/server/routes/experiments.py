"""`/experiments`: searches over hyperparameters."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Annotated, Any

import fastapi

from quintain import errors
from quintain.records.config import provenance as provenance_lib
from quintain.records.rows import checkpoint as checkpoint_lib
from quintain.records.rows import experiment as experiment_lib
from quintain.records.rows import states
from quintain.records.rows import trial as trial_lib
from quintain.records.views import following as following_lib
from quintain.records.views import trial_table
from quintain.server import (
    checkpoint_files,
    code_uploads,
    direct_calls,
    experiment_changes,
    page_rights,
    search_check,
)
from quintain.server.http import answers, archives, responses
from quintain.server.routes import tables


@dataclasses.dataclass
class NewExperiment:
    """Body of a request that creates an experiment."""

    __pydantic_config__ = responses.STRICT_FIELDS

    config_text: str
    """The config as YAML."""

    model_dir: str | None = None
    """Directory with the user's code, on the machine of the master; it is copied."""

    upload: str | None = None
    """The user's code in place of a directory: SHA-256 of an archive; see `/uploads`."""

    source: str = "config"
    """Name of the config for messages."""

    overrides: responses.Texts = dataclasses.field(default_factory=list)
    """`path=value` texts that win over the config."""

    parent_id: int | None = None
    """Experiment it was forked from."""

    activate: bool = True
    """Whether it starts at once."""

    provenance: provenance_lib.Provenance | None = None
    """Where it comes from."""


@dataclasses.dataclass
class Fork:
    """Changes of a fork."""

    __pydantic_config__ = responses.STRICT_FIELDS

    config_text: str | None = None
    """The config as YAML; that of the first experiment if None."""

    overrides: responses.Texts = dataclasses.field(default_factory=list)
    """`path=value` texts that win over the config."""


@dataclasses.dataclass
class CheckedExperiment:
    """Answer of a dry run."""

    __pydantic_config__ = responses.STRICT_FIELDS

    config_text: str | None = None
    """The config as YAML; that of the parent if None."""

    overrides: responses.Texts = dataclasses.field(default_factory=list)
    """`path=value` texts that win over the config."""

    parent_id: int | None = None
    """Experiment that it would be forked from."""


@dataclasses.dataclass
class Continuation:
    """Changes of an experiment that goes on."""

    __pydantic_config__ = responses.STRICT_FIELDS

    overrides: responses.Texts = dataclasses.field(default_factory=list)
    """`path=value` texts that win over the config."""


def build_router(
    calls: direct_calls.DirectCalls,
    uploads: code_uploads.CodeUploads,
) -> fastapi.APIRouter:
    """Returns the addresses below `/experiments`.

    Args:
        calls: What answers what users read.
        uploads: What they sent from other machines.
    """
    router = fastapi.APIRouter(prefix="/experiments", tags=["experiments"])

    @router.get("", response_model=list[experiment_lib.Experiment] | list[answers.Summary])
    def list_experiments(
        *,
        include_archived: bool = False,
        state: Annotated[list[states.ExperimentState], fastapi.Query()] = [],  # noqa: B006
        label: Annotated[list[str], fastapi.Query()] = [],  # noqa: B006
        summary: bool = False,
    ) -> fastapi.Response:
        """Lists experiments, or summaries of them (see `answers.Summary`)."""
        if summary:
            return responses.to_response(
                calls.summarise_experiments(
                    include_archived=include_archived, state_names=state, labels=label
                )
            )
        return responses.to_response(
            calls.list_experiments(
                include_archived=include_archived, state_names=state, labels=label
            )
        )

    @router.post("", response_model=experiment_lib.Experiment, status_code=201)
    def create_experiment(commands: page_rights.Commands, new: NewExperiment) -> fastapi.Response:
        """Creates an experiment."""
        with contextlib.ExitStack() as opened:
            model_dir = None if new.model_dir is None else _read_path(new.model_dir)
            if new.upload is not None:
                if model_dir is not None:
                    raise errors.ConfigError("upload: got together with model_dir.")
                config = commands.read_config(new.config_text, new.overrides, new.source, None)
                model_dir = opened.enter_context(uploads.unpacking(new.upload, config.code))
            experiment = commands.create_experiment(
                new.config_text,
                model_dir,
                source=new.source,
                overrides=new.overrides,
                parent_id=new.parent_id,
                activate=new.activate,
                origin=new.provenance,
            )
        return responses.to_response(experiment, 201)

    @router.post("/check", response_model=answers.Check)
    def check_experiment(
        commands: page_rights.Commands, new: CheckedExperiment
    ) -> fastapi.Response:
        """Says what an experiment would be, without creating it."""
        text = "" if new.parent_id is None and new.config_text is None else new.config_text
        config = commands.read_config(text, new.overrides, "config", new.parent_id)
        return responses.to_response(search_check.check(config))

    @router.get("/{experiment_id}", response_model=experiment_lib.Experiment)
    def get_experiment(experiment_id: int) -> fastapi.Response:
        """Returns an experiment."""
        return responses.to_response(calls.get_experiment(experiment_id))

    @router.patch("/{experiment_id}", response_model=experiment_lib.Experiment)
    def update_experiment(
        commands: page_rights.Commands,
        experiment_id: int,
        changes: Annotated[dict[str, Any], fastapi.Body()],
    ) -> fastapi.Response:
        """Changes what may be changed while it runs."""
        return responses.to_response(
            commands.update_experiment(experiment_id, experiment_changes.check(changes))
        )

    @router.delete("/{experiment_id}", status_code=204)
    def delete_experiment(commands: page_rights.Commands, experiment_id: int) -> fastapi.Response:
        """Deletes an experiment that has ended."""
        commands.delete_experiment(experiment_id)
        return fastapi.Response(status_code=204)

    _add_parts(router, calls)

    @router.post("/{experiment_id}/fork", response_model=experiment_lib.Experiment, status_code=201)
    def fork(commands: page_rights.Commands, experiment_id: int, changes: Fork) -> fastapi.Response:
        """Creates an experiment from this one."""
        new = commands.fork_experiment(experiment_id, changes.config_text, changes.overrides)
        return responses.to_response(new, 201)

    @router.post("/{experiment_id}/continue", response_model=experiment_lib.Experiment)
    def continue_experiment(
        commands: page_rights.Commands, experiment_id: int, changes: Continuation
    ) -> fastapi.Response:
        """Goes on with an experiment that has ended."""
        return responses.to_response(commands.continue_experiment(experiment_id, changes.overrides))

    @router.post("/{experiment_id}/{command}", response_model=experiment_lib.Experiment)
    def apply(commands: page_rights.Commands, experiment_id: int, command: str) -> fastapi.Response:
        """Pauses, activates, cancels, kills, archives or unarchives an experiment."""
        return responses.to_response(commands.apply(experiment_id, command))

    return router


def _read_path(text: str) -> pathlib.Path:
    if "\0" in text:
        raise errors.ConfigError(f"model_dir: got {text[:200]!r}, but no path holds a NUL.")
    return pathlib.Path(text)


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


def _add_parts(router: fastapi.APIRouter, calls: direct_calls.DirectCalls) -> None:
    """Adds what belongs to one experiment."""

    @router.get("/{experiment_id}/trials", response_model=list[trial_lib.TrialRecord])
    def list_trials(
        experiment_id: int,
        selection: Annotated[trial_table.Selection, fastapi.Depends(tables.read_selection)],
        state: Annotated[list[states.TrialState], fastapi.Query()] = [],  # noqa: B006
        fields: str = "",
    ) -> fastapi.Response:
        """Lists its trials; the header `X-Total-Count` has their number without a limit.

        `where` is an expression (see `records/views/trial_filter.py`), `sort` and `fields` are
        names divided by commas; with a `-` before a name, what is sorted by it is so backwards.
        """
        names = _read_fields(fields)
        found: Sequence[Any]
        if (
            names == ["id"] and selection.where
        ):  # What the page asks for, as trials change and people type.
            ids, total = calls.select_ids(experiment_id, selection, state)
            found = [{"id": trial_id} for trial_id in ids]
        else:
            found, total = calls.select_and_count(experiment_id, selection, state)
            if names:
                found = [{name: getattr(one, name) for name in names} for one in found]
        answer = responses.to_response(found)
        answer.headers["X-Total-Count"] = str(total)
        return answer

    @router.get("/{experiment_id}/following", response_model=following_lib.Following)
    def follow(experiment_id: int, cursor: str = "") -> fastapi.Response:
        """Returns it, and the trials that have changed since the answer with a cursor; or all."""
        return responses.to_response(calls.follow(experiment_id, cursor))

    @router.get("/{experiment_id}/checkpoints", response_model=list[checkpoint_lib.Checkpoint])
    def list_checkpoints(experiment_id: int) -> fastapi.Response:
        """Lists its checkpoints."""
        return responses.to_response(calls.list_checkpoints(experiment_id=experiment_id))

    @router.get("/{experiment_id}/events", response_model=list[dict[str, Any]])
    def list_events(experiment_id: int, *, after: int = 0) -> fastapi.Response:
        """Lists what happened to it."""
        return responses.to_response(calls.list_events(experiment_id, after=after))

    @router.get("/{experiment_id}/provenance", response_model=provenance_lib.Provenance)
    def get_provenance(experiment_id: int) -> fastapi.Response:
        """Says where it comes from."""
        return responses.to_response(calls.get_provenance(experiment_id))

    @router.get("/{experiment_id}/files.tar", response_class=fastapi.Response)
    def get_code(experiment_id: int) -> fastapi.Response:
        """Returns its code as one archive."""
        files = checkpoint_files.StoredFiles.below(calls.find_model_dir(experiment_id))
        return archives.to_response(files, f"experiment-{experiment_id}")

    @router.get("/{experiment_id}/files", response_model=list[str])
    def list_files(experiment_id: int) -> fastapi.Response:
        """Lists the files of its code."""
        files = checkpoint_files.StoredFiles.below(calls.find_model_dir(experiment_id))
        return responses.to_response(list(files.list_sizes()))

    @router.get("/{experiment_id}/files/{name:path}", response_class=fastapi.responses.FileResponse)
    def get_file(experiment_id: int, name: str) -> fastapi.Response:
        """Returns a file of its code."""
        files = checkpoint_files.StoredFiles.below(calls.find_model_dir(experiment_id))
        return archives.to_file_response(files, name)
