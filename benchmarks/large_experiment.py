"""Times the commands that show an experiment of many trials.

python benchmarks/large_experiment.py [TRIALS]

Each command is a process of its own, as users run it. The time is that of its processor, the least
of five runs, so that what else the machine does does not count.
"""

import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile

from quintain import store as stores
from quintain.records.rows import checkpoint, experiment, states, trial

RUNS = 5
COMMANDS = (
    ("experiment", "describe", "1"),
    ("experiment", "describe", "1", "--json"),
    ("experiment", "list-trials", "1", "--json"),
    ("experiment", "best", "1"),
    ("--version",),
)


def fill(home: pathlib.Path, num_trials: int) -> None:
    """Writes an ended experiment into the database of a home directory."""
    draw = random.Random(1)
    store = stores.open_store(home / "quintain.db")
    with store.transaction() as session:
        config = {"searcher": {"name": "random", "metric": "loss", "max_trials": num_trials}}
        owner = session.add_experiment(
            experiment.Experiment(0, states.ExperimentState.COMPLETED, config, "", "")
        )
        for number in range(num_trials):
            loss = draw.random()
            hparams = {"rate": draw.random(), "units": draw.randrange(64), "kind": "a"}
            added = session.add_trial(
                trial.TrialRecord(
                    0,
                    owner.id,
                    str(number),
                    states.TrialState.COMPLETED,
                    hparams,
                    number,
                    total_batches=100,
                    best_metric=loss,
                    latest_metric=loss,
                    progress=1.0,
                    start_time=1.0,
                    end_time=2.0,
                )
            )
            session.add_checkpoint(
                checkpoint.Checkpoint(f"{number:08x}", added.id, owner.id, 100, metric=loss)
            )
    store.close()


def time_command(arguments: tuple[str, ...], home: str) -> float:
    """Returns the least seconds of the processor that a command takes."""
    secs = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run(
            [sys.executable, "-m", "quintain.cli.main", *arguments],
            env={**os.environ, "QUINTAIN_HOME": home},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        secs.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    return min(secs)


def main() -> None:
    """Prints the times."""
    num_trials = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as home:
        fill(pathlib.Path(home), num_trials)
        print(f"{num_trials:,} trials")
        for arguments in COMMANDS:
            print(f"  {time_command(arguments, home):5.2f} s  quintain {' '.join(arguments)}")


if __name__ == "__main__":
    main()
