"""Times the start of `quintain train` and of `quintain translate`, beside importing TensorFlow.

python benchmarks/startup.py [ROUNDS]

The first step ends when the line of progress tells of it. Beside it: the whole command, with the
checkpoint and the end of the process; and the same experiment a second time, which goes on with the
run that the first has left. The seconds of the processor are told as well: they say on a machine
that does other things how much there is to do. The package is compiled before, as by `pip install`.
"""

import compileall
import importlib.util
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

SENTENCE = "Sunday, the twenty-second of March"


def train(model_dir: str, steps: int) -> list[str]:
    """Returns the command that trains a run up to a step."""
    return [
        quintain(),
        "train",
        "--experiment=translation/local",
        "--mode=train",
        "--params_override="
        f"trainer.train_steps={steps},trainer.steps_per_loop=1,trainer.summary_interval=1",
        f"--model_dir={model_dir}",
    ]


def time_command(command: list[str], mark: str = "") -> dict[str, float]:
    """Returns the seconds that a command takes, by what they are.

    Args:
        command: The command.
        mark: How the line begins by which it tells of what is waited for; the end without one.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    reached = None
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None, "it was asked for"
        for line in process.stdout:
            if mark and reached is None and line.startswith(mark):
                reached = time.perf_counter() - start
    end = time.perf_counter() - start
    if process.returncode or (mark and reached is None):
        raise SystemExit(f"{command} ended with {process.returncode}, without {mark!r}.")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"reached": end if reached is None else reached, "end": end, "processor": spent}


def quintain() -> str:
    """Returns the path of the command beside this interpreter."""
    return os.path.join(os.path.dirname(sys.executable), "quintain")


def compile_package() -> None:
    """Compiles the package, which `pip install --editable` leaves to each first import."""
    spec = importlib.util.find_spec("quintain")
    for directory in (spec and spec.submodule_search_locations) or ():
        compileall.compile_dir(directory, quiet=1)


def name_processor() -> str:
    """Returns the name of the processor, and how many there are."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = (line.partition(":")[2].strip() for line in lines if "model name" in line)
            name = next(names, name)
    return f"{name}, {os.cpu_count()} processors"


def main() -> None:
    """Prints the medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    compile_package()
    times: dict[str, list[dict[str, float]]] = defaultdict(list)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as home:
            os.environ["QUINTAIN_HOME"] = os.path.join(home, "home")
            run = os.path.join(home, "run")
            commands = {
                "quintain --help (bar: 0.15)": ([quintain(), "--help"], ""),
                "quintain experiment list (bar: 0.3)": ([quintain(), "experiment", "list"], ""),
                "quintain experiment create --help": (
                    [quintain(), "experiment", "create", "--help"],
                    "",
                ),
                "import tensorflow": ([sys.executable, "-c", "import tensorflow"], ""),
                "quintain train, first start (bar: 5)": (train(run, 1), "step 1/"),
                "quintain train, second start (bar: 3)": (train(run, 2), "step 2/"),
                "quintain translate (bar: 2.5)": (
                    [quintain(), "translate", f"--model_dir={run}", SENTENCE],
                    "",
                ),
            }
            for name, (command, mark) in commands.items():
                times[name].append(time_command(command, mark))
    print(f"{name_processor()}; medians of {rounds}, in seconds")
    print(f"{'':40}{'first step':>12}{'end':>8}{'processor':>11}")
    for name, found in times.items():
        one = {key: statistics.median(time[key] for time in found) for key in found[0]}
        print(f"{name:40}{one['reached']:12.2f}{one['end']:8.2f}{one['processor']:11.2f}")


if __name__ == "__main__":
    main()
