"""Seconds from the launch of a trial process to its first line, TensorFlow imported.

Run: `python benchmarks/launcher.py [STARTS]`. Compares copies of the fork server with fresh
interpreters that start the same code.
"""

import os
import pathlib
import statistics
import sys
import tempfile
import time

from quintain.master.placing import slots
from quintain.master.processes import launcher as launcher_lib
from quintain.master.processes import process_launcher

WORKER = """
import sys
import tensorflow as tf
import keras

def main():
    print("first line", tf.__version__, keras.__version__, flush=True)
    return 0

if __name__ == "__main__":
    sys.exit(main())
"""


def measure(launcher: launcher_lib.Launcher, scratch_dir: str, launch_id: str) -> float:
    """Returns the seconds until the first line of one process."""
    start = time.time()
    launcher.start(
        launcher_lib.LaunchRequest(
            launch_id, 1, 1, (slots.Slot(0, num_threads=1),), {}, str(scratch_dir)
        )
    )
    first = None
    is_over = False
    while not is_over or first is None:
        for row in launcher.read_logs():
            if row.text.startswith("first line"):
                first = row.time - start
        is_over = is_over or bool(launcher.poll())
        time.sleep(0.002)
    return first


def main() -> None:
    """Prints the times of both ways."""
    num_starts = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory, "benchmark_worker.py").write_text(WORKER)
        os.environ["PYTHONPATH"] = f"{directory}:{os.environ.get('PYTHONPATH', '')}"
        for method in process_launcher.StartMethod:
            launcher = process_launcher.ProcessLauncher(
                start_method=method,
                worker="benchmark_worker",
                preloaded=("tensorflow", "keras", "benchmark_worker"),
            )
            times = [
                measure(launcher, directory, f"{method.value}-{number}")
                for number in range(num_starts + 1)
            ]
            launcher.close(kill=True)
            print(
                f"{method.value:5s}  first {times[0]:6.3f} s, then median "
                f"{statistics.median(times[1:]):6.3f} s, slowest {max(times[1:]):6.3f} s "
                f"({num_starts} starts)"
            )


if __name__ == "__main__":
    main()
