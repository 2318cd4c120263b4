"""The README's main job and its search: processor time beside wall time, and seconds of idleness.

`python benchmarks/main_job.py` trains `translation/local` and searches the digits, each in a
directory that is thrown away. A second is idle if the command and all that it started used less
than a twentieth of a core in it. Nothing else should run on the machine.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import psutil

_EXAMPLE = pathlib.Path(__file__).parents[1] / "examples" / "platform" / "tensorflow_digits"
_IDLE_SHARE = 0.05
_SAMPLES = 5
"""In a second: what short-lived processes use between the last one and their end is not seen."""


def _measure_tree(root: psutil.Process, seen: dict[tuple[int, float], float]) -> float:
    """Returns the processor seconds of a process and all that it started, those that ended too."""
    try:
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        processes = []
    for process in processes:
        try:
            times = process.cpu_times()
            seen[process.pid, process.create_time()] = times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return sum(seen.values())


def _run(name: str, command: list[str], home: str, cwd: str) -> None:
    start = time.monotonic()
    environment = {**os.environ, "QUINTAIN_HOME": home}
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    root, seen, idle_secs, cpu_secs = psutil.Process(process.pid), {}, 0, [0.0]
    while process.poll() is None:
        time.sleep(1.0 / _SAMPLES)
        cpu_secs.append(_measure_tree(root, seen))
        # The second in which the command ends is none to judge: it is no whole one.
        if len(cpu_secs) > _SAMPLES and process.poll() is None:
            idle_secs += cpu_secs[-1] - cpu_secs[0] < _IDLE_SHARE
            del cpu_secs[:_SAMPLES]
    wall_secs = time.monotonic() - start
    idle = 1.0 - cpu_secs[-1] / (wall_secs * len(os.sched_getaffinity(0)))
    print(
        f"{name:<24} exit {process.returncode}  wall {wall_secs:6.1f} s  processor "
        f"{cpu_secs[-1]:6.1f} s  idle share {idle:4.0%}  idle seconds {idle_secs}",
        flush=True,
    )


def main() -> None:
    """Runs both and prints a line for each."""
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    names = {line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line}
    print(f"{len(os.sched_getaffinity(0))} cores, {', '.join(names) or 'unknown processor'}")
    with tempfile.TemporaryDirectory() as scratch:
        home, search = f"{scratch}/home", f"{scratch}/search"
        shutil.copytree(_EXAMPLE, search)
        create = ["quintain", "experiment", "create", "adaptive.yaml", "."]
        _run("tensorflow_digits", create, home, search)
        train = ["quintain", "train", "--experiment=translation/local"]
        train += ["--mode=train_and_eval", f"--model_dir={scratch}/run"]
        _run("translation/local", train, home, scratch)


if __name__ == "__main__":
    main()
