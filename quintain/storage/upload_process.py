"""Upload process of a trial's checkpoints, so that the trial can train meanwhile.

The clients of object stores draw random numbers, which a trial must not miss, and need processor
time; so a thread would not do. `python -m quintain.storage.upload_process` reads requests from its
standard input, one a line, and answers each with a line. It ends when its trial does, however that
ends: what is half uploaded then has no manifest.
"""

import json
import logging
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from quintain import errors
from quintain.process import process_end
from quintain.storage import checkpoint_storage, fsspec_storage, retries

_WATCH_SECS: Final = 0.1
_WAITS: Final = "waits"

_saying: Final = threading.Lock()
"""Files are sent, and may be waited for, by several threads."""


class UploadProcess:
    """Starts the process when it is needed for the first time, and talks to it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Starts it, unless it runs.

        Raises:
            CheckpointError: If it can't be started.
        """
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "quintain.storage.upload_process", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise errors.CheckpointError(
                f"The process that uploads checkpoints can't be started: {error}."
            ) from error

    def commit(self, request: Mapping[str, Any], directory: pathlib.Path, name: str) -> None:
        """Makes a staged directory a checkpoint; see `TrialStorage.commit`.

        Raises:
            CheckpointError: If it can't be written, or the process ended.
        """
        process = self._process
        assert process is not None, "it is started before"
        assert process.stdin is not None, "a pipe was asked for"
        assert process.stdout is not None, "a pipe was asked for"
        try:
            line = json.dumps({**request, "directory": str(directory), "name": name})
            process.stdin.write(line + "\n")
            process.stdin.flush()
            while _WAITS in (answer := json.loads(process.stdout.readline() or "{}")):
                retries.note(self, answer[_WAITS])
        except OSError:
            answer = {}
        if not answer:
            raise errors.CheckpointError(
                f"checkpoint {name}: the process that uploads it ended with exit code "
                f"{process.wait()}."
            )
        if answer["error"]:
            raise errors.CheckpointError(answer["error"])

    def close(self) -> None:
        """Ends it, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None


def main(parent: int) -> int:
    """Does what the standard input says until that ends, or the process does that started this."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with retries.wait_listener(lambda text: _say({_WAITS: text})):
        for line in sys.stdin:
            _say({"error": _commit(json.loads(line))})
    return 0


def _say(answer: Mapping[str, str]) -> None:
    with _saying:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _commit(request: Mapping[str, Any]) -> str:
    """Uploads a checkpoint; returns what went wrong, or an empty text."""
    storage = fsspec_storage.FsspecStorage(
        request["url"],
        request["options"],
        checkpoint_storage.Writer(**request["writer"]),
        patience_secs=request["patience_secs"],
        answer_secs=request["answer_secs"],
    )
    try:
        storage.commit(pathlib.Path(request["directory"]), request["name"])
    except errors.CheckpointError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - the border of the process
        return f"{storage.locate(request['name'])}: {type(error).__name__}: {error}"
    return ""


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_SECS)
    os._exit(0)


if __name__ == "__main__":
    process_end.leave(main(int(sys.argv[1])))
