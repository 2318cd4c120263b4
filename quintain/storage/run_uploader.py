"""Uploader of another process' run to an object store.

`python -m quintain.storage.run_uploader train|read URL DIRECTORY` is a process of its own, so that
a training shares neither its processor time nor its random numbers. First it copies the run into
the directory, which is empty, and writes a line of JSON: how many `files` there are, or an `error`.
A reader is done then. For a training, whenever a checkpoint was written, a snapshot of the
directory becomes the next generation. It reads `finish` on its standard input when nothing is
written any more, and tells how that went by another line; if the input ends without it, the
training was killed, and so is this.
"""

import json
import logging
import pathlib
import select
import shutil
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final

from quintain import errors
from quintain.process import process_end
from quintain.storage import remote_calls, remote_systems, run_mirror

FINISH: Final = "finish\n"
"""Line on the standard input when the run is over."""

TRAIN: Final = "train"
READ: Final = "read"

_POLL_SECS: Final = 0.5
_CHECK_SECS: Final = 5.0
_PATIENCE_SECS: Final = 1800.0
_RETRY_VARIABLE: Final = "QUINTAIN_RETRY_TIMEOUT"
_ANSWER_VARIABLE: Final = "QUINTAIN_ANSWER_TIMEOUT"


def main(arguments: Sequence[str]) -> int:
    """Does what the arguments say; returns the exit code.

    Args:
        arguments: `train` or `read`, the URL of the run, and an empty directory of this machine.
            Beside that, a directory with `.snapshot` at the end of its name is used.
    """
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    # Ctrl-C is for the training, which then saves what it has, and says when it is over.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    what, url, directory = arguments[0], arguments[1], pathlib.Path(arguments[2])
    snapshot = directory.with_name(f"{directory.name}.snapshot")
    try:
        if what == TRAIN:
            remote_systems.check(url, {}, patience_secs=_CHECK_SECS)
        patience_secs = remote_calls.read_secs(_RETRY_VARIABLE, _PATIENCE_SECS)
        mirror = run_mirror.RunMirror(url)
        mirror.calls.answer_secs = remote_calls.read_secs(
            _ANSWER_VARIABLE, remote_calls.ANSWER_SECS
        )
        _tell(files=mirror.pull(directory))
        if what == TRAIN:
            mirror.calls.patience_secs = patience_secs
            mirror.calls.outlasts_refusals = True
            _upload(mirror, directory, snapshot)
    except errors.QuintainError as error:
        _tell(error=str(error), is_bad_input=isinstance(error, errors.ConfigError))
        return 1
    except OSError as error:
        _tell(error=f"{directory}: {error}.")
        return 1
    finally:
        shutil.rmtree(snapshot, ignore_errors=True)
    return 0


def _tell(**content: Any) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def _upload(mirror: run_mirror.RunMirror, directory: pathlib.Path, snapshot: pathlib.Path) -> None:
    mirror.claim()
    uploaded = run_mirror.read_states(directory)
    while not select.select([sys.stdin], [], [], _POLL_SECS)[0]:
        if run_mirror.read_states(directory) != uploaded:
            taken = run_mirror.take_snapshot(directory, snapshot)
            if taken is not None:
                mirror.push(snapshot)
                uploaded = taken
    if sys.stdin.readline() == FINISH:
        mirror.push(directory)
        mirror.settle(directory)
        _tell(files=len(run_mirror.list_paths(directory)))


if __name__ == "__main__":
    process_end.leave(main(sys.argv[1:]))
