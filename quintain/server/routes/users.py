"""Routes of the calls in `client.calls`: what users, their programs and the page ask for."""

import contextlib
import dataclasses
import os
import pathlib
import time
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final

import fastapi
import pydantic

from quintain import errors
from quintain.client import call_table
from quintain.client import calls as calls_lib
from quintain.master import new_experiments, user_commands
from quintain.records import team
from quintain.records.rows import checkpoint, codec, experiment, registered_model
from quintain.records.views import master_status
from quintain.server.routes import declared
from quintain.server.routes import parts as parts_lib
from quintain.server.security import access

_BY_HAND: Final = frozenset(
    {"build_link", "follow", "get_status", "get_summary", "get_table", "get_user"}
    | {"list_experiments", "list_logs", "list_nodes", "select_trials"}
)
"""Calls whose addresses take or give more, or ask who asks; see `trial_data` and `overview`."""

_MOST_FOLDERS: Final = 100
_CHANGEABLE: Final = tuple(experiment.Changes.__annotations__)
_CHANGES: Final = pydantic.TypeAdapter(experiment.Changes)


def build_router(parts: parts_lib.Parts) -> fastapi.APIRouter:
    """Returns all addresses of users that are declared."""
    master, calls = parts.master, parts.calls

    def stop_master(drain: bool) -> master_status.MasterInfo:
        parts.stop(drain)
        return parts.info

    def create_experiment(
        commands: user_commands.Commands, *, model_dir: str | None, upload: str | None, **given: Any
    ) -> experiment.Experiment:
        with contextlib.ExitStack() as opened:
            code = None if model_dir is None else _read_path(model_dir)
            if upload is not None:
                if code is not None:
                    raise errors.ConfigError(
                        "upload: got together with model_dir; give one of them."
                    )
                text, overrides, source = (
                    given[name] for name in ("config_text", "overrides", "source")
                )
                content = commands.read_content(text, overrides, source, None)
                limits = new_experiments.build_config(content).code
                code = opened.enter_context(parts.uploads.unpacking(upload, limits))
            return commands.create_experiment(model_dir=code, **given)

    def update_experiment(
        commands: user_commands.Commands, experiment_id: int, changes: Mapping[str, Any]
    ) -> experiment.Experiment:
        return commands.update_experiment(experiment_id, check_changes(changes))

    def delete_checkpoint(commands: user_commands.Commands, uuid: str) -> checkpoint.Checkpoint:
        return commands.delete_checkpoint(calls.get_checkpoint(uuid).uuid)

    def register_model(
        commands: user_commands.Commands, name: str, *, checkpoint: str, **given: Any
    ) -> registered_model.ModelVersion:
        uuid = calls.get_checkpoint(checkpoint).uuid
        return commands.register_model(name, checkpoint=uuid, **given)

    def add_run_dirs(paths: Sequence[str]) -> None:
        parts.runs.add(check_folders(paths))

    all_calls = call_table.list_calls(calls_lib.MasterCalls)
    return declared.build_router(
        {name: call for name, call in all_calls.items() if name not in _BY_HAND},
        {
            **declared.find_answers(calls, calls_lib.Calls),
            "get_info": lambda: dataclasses.replace(
                parts.info, run_dirs=tuple(map(str, parts.runs.directories))
            ),
            "stop_master": stop_master,
            "count_upload": lambda name: {"received": parts.uploads.count(name)},
            "drain_node": lambda name: master.nodes.drain(name),
            "activate_node": lambda name: master.nodes.activate(name),
            "sign_out_all": parts.sign_in.sessions.end_all,
            "add_run_dirs": add_run_dirs,
            "list_users": parts.roles.list_users,
            "grant_role": parts.roles.grant,
            "revoke_roles": parts.roles.revoke,
        },
        {
            "create_experiment": create_experiment,
            "update_experiment": update_experiment,
            "delete_checkpoint": delete_checkpoint,
            "register_model": register_model,
        },
        note=_note,
    )


def _note(
    request: fastapi.Request, call: call_table.Call, arguments: Mapping[str, Any], answer: Any
) -> None:
    """Adds a call, which is done, to the audit log."""
    secret = {each.name for each in call.parameters if each.is_secret}
    told = {name: value for name, value in arguments.items() if value and name not in secret}
    overrides: Sequence[str] = arguments.get("overrides") or ()
    if overrides:  # Without their values.
        told["overrides"] = [each.partition("=")[0] for each in overrides]
    made = answer.id if isinstance(answer, experiment.Experiment) else None
    owner = made or arguments.get("experiment_id") or getattr(answer, "experiment_id", None)
    parts: parts_lib.Parts = request.app.state.parts
    entry = team.AuditEntry(
        id=0,
        time=time.time(),
        user_name=getattr(request.state, access.USER),
        address="" if request.client is None else request.client.host,
        call=call.name,
        experiment_id=owner,
        arguments=codec.to_plain(told),
    )
    with parts.calls.store.transaction() as session:
        session.add_audit(entry)


def check_changes(changes: Mapping[str, Any]) -> experiment.Changes:
    """Returns changes of an experiment without those that are None.

    Raises:
        ConfigError: If one of them can't be changed, or has another type than its field.
    """
    for name in changes:
        if name not in _CHANGEABLE:
            raise errors.ConfigError(
                f"{name}: can't be changed, expected one of {', '.join(_CHANGEABLE)}."
                f"{errors.suggest(name, _CHANGEABLE)}"
            )
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        _CHANGES.validate_python(given, strict=True)
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        raise errors.ConfigError(
            f"{'.'.join(map(str, problem['loc']))}: got {repr(problem['input'])[:200]}, "
            f"{problem['msg'][:1].lower()}{problem['msg'][1:]}."
        ) from error
    return typing.cast(experiment.Changes, given)


def check_folders(names: Sequence[str]) -> list[pathlib.Path]:
    """Returns the paths of folders that are searched for runs.

    Raises:
        ConfigError: If one of them is none, or there are too many.
    """
    if len(names) > _MOST_FOLDERS:
        raise errors.ConfigError(f"paths: got {len(names)}, expected at most {_MOST_FOLDERS}.")
    paths = [pathlib.Path(name) for name in names]
    for path in paths:
        if not path.is_absolute() or not os.path.isdir(path):
            raise errors.ConfigError(
                f"paths: got {str(path)[:200]!r}, expected the absolute path of a directory."
            )
    return paths


def _read_path(text: str) -> pathlib.Path:
    if "\0" in text:
        raise errors.ConfigError(f"model_dir: got {text[:200]!r}, but no path holds a NUL.")
    return pathlib.Path(text)
