"""Validation of the messages of trial processes to the master.

A process may be of anybody's code. What it says of itself is never an error of the master's, and
what it can't know, such as the machine that it was put on, is not taken from it.
"""

import math
import os
import pathlib
import stat
from typing import Final

from quintain import errors
from quintain.files import changing_files
from quintain.master.cleanup import deletions
from quintain.master.transfer import uploads
from quintain.records import checkpoint_manifest
from quintain.records.rows import launch, trial, workload
from quintain.records.rows import node as node_lib
from quintain.records.views import file_listing

MOST: Final = 2**53
"""Largest count. All of these are exact as JSON of any language, and fit into any database."""

LATEST_SECS: Final = 253_402_300_799.0
"""The end of the year 9999, in seconds since the epoch."""

MOST_TEXT: Final = 100_000
"""Characters of a message that are kept."""

MOST_METRICS: Final = 10_000
"""Metrics of a result: the master keeps a curve of each, and does nothing else meanwhile."""

_MOST_PID: Final = 2**31 - 1
_MOST_NAME: Final = 300
_MOST_PORT: Final = 65535


def check_identity(identity: trial.ProcessIdentity) -> None:
    """Checks what a process says of itself.

    Raises:
        MessageError: If no process is like that.
    """
    _check_count("pid", identity.pid, least=1, most=_MOST_PID)
    _check_time("start_time", identity.start_time)
    _check_name("mark", identity.mark)
    _check_name("node", identity.node)


def complete(member: launch.Member, identity: trial.ProcessIdentity) -> trial.ProcessIdentity:
    """Returns the identity of a process with what is known of it better than by itself.

    Args:
        member: What is known of it.
        identity: What it says. It is believed where its launcher, which is on another machine or
            in another namespace, could not say it.
    """
    if member.node == node_lib.OWN and member.identity is not None:
        return member.identity
    return trial.ProcessIdentity(
        identity.pid, identity.start_time, identity.launch_id, identity.mark, member.node
    )


def check_peer(size: int, known_size: int, member: trial.Peer) -> None:
    """Checks where a process says that it is reached by the others of its trial.

    Raises:
        MessageError: If that can't be.
    """
    if size != known_size:
        raise errors.MessageError(f"size: got {size}, but the trial has {known_size} processes.")
    _check_count("member.port", member.port, least=1, most=_MOST_PORT)
    for name in ("node", "host", "outside"):
        _check_name(f"member.{name}", getattr(member, name))


def check_result(trial_id: int, result: workload.WorkloadResult) -> None:
    """Checks what a process says that a workload gave.

    Raises:
        MessageError: If it can't be the result of a workload of this trial.
    """
    work = result.workload
    if work.trial_id != trial_id:
        raise errors.MessageError(
            f"workload.trial_id: got {work.trial_id}, expected {trial_id}, the trial that it is of."
        )
    for name in ("number", "num_batches", "total_batches"):
        _check_count(f"workload.{name}", getattr(work, name))
    _check_count("num_inputs", result.num_inputs)
    _check_time("start_time", result.start_time)
    _check_time("end_time", result.end_time)
    for metrics in (result.metrics, *result.batch_metrics):
        if len(metrics) > MOST_METRICS:
            raise errors.MessageError(
                f"metrics: got {len(metrics):,}, expected at most {MOST_METRICS:,}."
            )
        for name in metrics:
            _check_name("metrics: a name", name)
    if result.checkpoint is not None:
        if not deletions.is_plain_name(result.checkpoint.uuid):
            raise errors.MessageError(
                f"checkpoint.uuid: got {errors.show(result.checkpoint.uuid)}, expected the name of "
                "a directory among the checkpoints."
            )
        _check_files(result.checkpoint.files)


def check_experiment(experiment_id: int, work: workload.Workload) -> None:
    """Checks that a workload is one of an experiment.

    Raises:
        MessageError: If it names another one.
    """
    if work.experiment_id != experiment_id:
        raise errors.MessageError(
            f"workload.experiment_id: got {work.experiment_id}, expected {experiment_id}."
        )


def check_owner(directory: pathlib.Path, experiment_id: int, trial_id: int) -> None:
    """Checks that a directory of the master's machine is a checkpoint of a trial.

    Otherwise a process could name what others have written, and have it read to it, or deleted.

    Args:
        directory: The directory; one that is not there is nobody's.
        experiment_id: The experiment.
        trial_id: The trial.

    Raises:
        MessageError: If it is something else.
    """
    try:
        # `pathlib` takes some errors for an answer: a directory that can't be looked at is no link.
        mode = os.lstat(directory).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise errors.MessageError(f"checkpoint.uuid: {directory} is a link.")
    try:
        found = checkpoint_manifest.read(directory)
    except errors.CheckpointError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and not changing_files.is_gone(cause):
            raise cause from None  # That is the disk's fault, and asked again.
        raise errors.MessageError(
            f"checkpoint.uuid: {directory} is no checkpoint of trial {trial_id}: {error}"
        ) from error
    owner = (found.experiment_id, found.trial_id)
    if owner != (experiment_id, trial_id):
        raise errors.MessageError(
            f"checkpoint.uuid: {directory} is a checkpoint of experiment {owner[0]}, trial "
            f"{owner[1]}, and none of experiment {experiment_id}, trial {trial_id}."
        )


def cut(text: str) -> str:
    """Returns what is kept of a message."""
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]} (...)"


def _check_files(files: dict[str, int]) -> None:
    if len(files) > uploads.MOST_FILES:
        raise errors.MessageError(
            f"checkpoint.files: got {len(files)}, expected at most {uploads.MOST_FILES}."
        )
    for name, size in files.items():
        try:
            file_listing.check_path(name.removesuffix("/"))
        except errors.ConfigError as error:
            raise errors.MessageError(f"checkpoint.files: {error}") from error
        _check_count(f"checkpoint.files: {errors.show(name)}", size)


def _check_count(name: str, value: int, *, least: int = 0, most: int = MOST) -> None:
    if not least <= value <= most:
        raise errors.MessageError(
            f"{name}: got {errors.show(value)}, expected an integer from {least} to {most}."
        )


def _check_time(name: str, value: float) -> None:
    if not (math.isfinite(value) and 0.0 <= value <= LATEST_SECS):
        raise errors.MessageError(
            f"{name}: got {value!r}, expected seconds since the epoch, at most {LATEST_SECS:.0f}."
        )


def _check_name(name: str, text: str) -> None:
    if len(text) > _MOST_NAME:
        raise errors.MessageError(
            f"{name}: got {len(text)} characters, expected at most {_MOST_NAME}."
        )
