"""Times `quintain --help`, and `quintain train` up to its first step, beside importing TensorFlow.

python benchmarks/startup.py [ROUNDS]
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FIRST_STEP = [
    "train",
    "--experiment=translation/local",
    "--mode=train",
    "--quiet",
    "--params_override=trainer.train_steps=1,trainer.steps_per_loop=1,trainer.summary_interval=1",
]


def time_command(command: list[str]) -> float:
    """Returns the seconds that a command takes."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def time_first_step() -> float:
    """Returns the seconds from the start of `quintain train` to the end of its first step.

    The checkpoint that is saved after it, and the end of the process, are in it as well.
    """
    directory = tempfile.mkdtemp()
    try:
        return time_command([quintain(), *FIRST_STEP, f"--model_dir={directory}/run"])
    finally:
        shutil.rmtree(directory)


def quintain() -> str:
    """Returns the path of the command beside this interpreter."""
    return os.path.join(os.path.dirname(sys.executable), "quintain")


def main() -> None:
    """Prints the medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    helps, imports, steps = [], [], []
    for _ in range(rounds):
        helps.append(time_command([quintain(), "--help"]))
        imports.append(time_command([sys.executable, "-c", "import tensorflow"]))
        steps.append(time_first_step())
    extra = [step - imported for step, imported in zip(steps, imports, strict=True)]
    print(f"quintain --help               {statistics.median(helps) * 1000:6.0f} ms (bar: 150 ms)")
    print(f"import tensorflow             {statistics.median(imports):6.2f} s")
    print(f"quintain train to first step  {statistics.median(steps):6.2f} s")
    print(f"  above importing TensorFlow  {statistics.median(extra):6.2f} s (bar: 6 s)")


if __name__ == "__main__":
    main()
