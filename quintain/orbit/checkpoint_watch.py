"""Polling for checkpoints that another process writes."""

import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Final

from google.protobuf import text_format
from tensorflow.python.training import checkpoint_state_pb2

from quintain.files import file_io, file_paths

POLL_SECS: Final = 1.0

logger = logging.getLogger(__name__)


def iterate_new_checkpoints(
    directory: str,
    *,
    timeout_secs: float | None,
    timeout_fn: Callable[[], bool] | None,
    wait: Callable[[float], bool],
    clock: Callable[[], float] = time.monotonic,
    every: bool = False,
    is_finished: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """Yields checkpoints of a directory as they come.

    Args:
        directory: Where the checkpoints are; need not exist yet.
        timeout_secs: Seconds to wait for another checkpoint. None waits without limit.
        timeout_fn: Called after every time-out; iteration ends when it returns True. None ends it
            at the first time-out.
        wait: Sleeps for a number of seconds; iteration ends when it returns True.
        clock: Returns seconds.
        every: Whether to yield all checkpoints, by rising number, beginning with those that are
            there. Otherwise it is only the latest, and checkpoints that come and go while the
            caller is busy with one are not seen.
        is_finished: Called after every checkpoint; iteration ends when it returns True and there is
            no other checkpoint. None goes on to wait.

    Yields:
        Paths of checkpoints.
    """
    last_path: str | None = None
    deadline = None if timeout_secs is None else clock() + timeout_secs
    while True:
        path = _find_next(directory, last_path, every=every)
        if path is not None:
            yield path
            last_path = path
            has_more = _find_next(directory, last_path, every=every) is not None
            if not has_more and is_finished is not None and is_finished():
                return
        elif deadline is not None and clock() >= deadline:
            if timeout_fn is None or timeout_fn():
                return
        elif wait(POLL_SECS if deadline is None else max(min(POLL_SECS, deadline - clock()), 0.0)):
            return
        else:
            continue
        deadline = None if timeout_secs is None else clock() + timeout_secs


def _find_next(directory: str, last_path: str | None, *, every: bool) -> str | None:
    """Returns the checkpoint to look at after `last_path`, or None if there is none yet."""
    if not every:
        path = find_latest(directory)
        return None if path == last_path else path
    last_number = -1 if last_path is None else _number(last_path)
    newer = sorted(
        (path for path in list_recorded(directory) if _number(path) > last_number), key=_number
    )
    return next((path for path in newer if file_io.exists(f"{path}.index")), None)


def find_latest(directory: str) -> str | None:
    """Returns the checkpoint that a directory's file `checkpoint` calls the newest, if it is there.

    This is what `tf.train.latest_checkpoint` does, which takes paths for patterns.
    """
    recorded = list_recorded(directory)
    return recorded[-1] if recorded and file_io.exists(f"{recorded[-1]}.index") else None


def list_recorded(directory: str) -> list[str]:
    """Returns the checkpoints that a directory's file `checkpoint` lists, the newest last.

    In place of a file that can't be understood the directory is looked through.
    """
    path = file_paths.join(directory, "checkpoint")
    if not file_io.exists(path):
        return []
    with file_io.open(path, "rb") as file:
        data = file.read()
    state = checkpoint_state_pb2.CheckpointState()
    try:
        text_format.Parse(data, state)
    except (text_format.ParseError, UnicodeDecodeError):
        state.Clear()
    newest = state.model_checkpoint_path
    names = [*(one for one in state.all_model_checkpoint_paths if one != newest), newest]
    if not newest:
        logger.warning("%s: can't be understood; looking for the files themselves.", path)
        indexes = (name for name in file_io.listdir(directory) if name.endswith(".index"))
        found = (name.removesuffix(".index") for name in indexes)
        names = sorted((name for name in found if _number(name) >= 0), key=_number)
    return [file_paths.join(directory, name) for name in names]


def _number(path: str) -> int:
    match = re.search(r"-(\d+)$", path)
    return int(match[1]) if match else -1
