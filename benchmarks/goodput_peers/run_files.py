"""Files by which `goodput.py` follows a training: its steps, and its process."""

import argparse
import json
import os
import pathlib
import time


class Record:
    """Log of steps, beside a file that names the process."""

    def __init__(self, directory: pathlib.Path) -> None:
        """Names this process."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "run.lock").write_text(json.dumps({"pid": os.getpid()}))
        self._path = directory / "training.jsonl"

    def write(self, step: int) -> None:
        """Writes a line."""
        with self._path.open("a") as file:
            file.write(json.dumps({"step": step, "time_secs": time.time()}) + "\n")


def parse_arguments() -> tuple[pathlib.Path, int]:
    """Returns the directory, and the steps from one checkpoint to the next."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--steps-per-save", type=int, default=20)
    options = parser.parse_args()
    return options.directory, options.steps_per_save
