"""Cost of the master: a search of many trials with simulated workers, then its replay.

Usage: `python benchmarks/master.py [--trials 10000] [--slots 8]`. Prints milliseconds of the master
for each trial, the growth of memory, and seconds to take up the search again in the middle.
"""

import argparse
import json
import pathlib
import resource
import tempfile
import time

from quintain.master import master as master_lib
from quintain.master.placing import slots as slots_lib
from quintain.master.processes import launcher as launcher_lib
from quintain.records.rows import log, trial, workload
from quintain.store import store as store_lib


class SimulatedLauncher(launcher_lib.Launcher):
    """Starts nothing, and says so at once."""

    def __init__(self) -> None:
        """Starts with nothing."""
        self.alive: dict[str, launcher_lib.LaunchRequest] = {}
        self.exits: list[launcher_lib.ProcessExit] = []

    def start(self, launch: launcher_lib.LaunchRequest) -> trial.ProcessIdentity:
        """Notes the process."""
        self.alive[launch.launch_id] = launch
        return trial.ProcessIdentity(1, 1.0, launch.launch_id)

    def adopt(
        self,
        launch_id: str,
        trial_id: int,
        identity: trial.ProcessIdentity | None,
        scratch_dir: str,
        node: str = "",
    ) -> bool:
        """Knows all that it started."""
        del trial_id, identity, scratch_dir, node
        return launch_id in self.alive

    def kill(self, launch_id: str) -> None:
        """Ends a process."""
        self.end(launch_id)

    def end(self, launch_id: str) -> None:
        """Notes the exit."""
        launch = self.alive.pop(launch_id)
        self.exits.append(launcher_lib.ProcessExit(launch_id, launch.trial_id, 0, None))

    def poll(self) -> list[launcher_lib.ProcessExit]:
        """Returns the exits."""
        exits, self.exits = self.exits, []
        return exits

    def read_logs(self) -> list[log.LogRow]:
        """Returns nothing."""
        return []

    def close(self, *, kill: bool) -> None:
        """Has nothing to close."""
        del kill


def work(master: master_lib.Master, launcher: SimulatedLauncher, launch_id: str) -> None:
    """Does one workload of a process."""
    launch = launcher.alive[launch_id]
    work = master.workers.next_workload(launch.trial_id, launch_id, 0.0)
    if work is None:
        return
    if work.kind is workload.WorkloadKind.TERMINATE:
        launcher.end(launch_id)
        return
    metrics = {"loss": (launch.trial_id * 7919 % 10007) / 10007}
    stored = workload.StoredCheckpoint(f"{launch_id}-{work.number}", {"state": 1})
    result = workload.WorkloadResult(
        work,
        0.0,
        0.1,
        metrics=metrics,
        batch_metrics=[metrics] * work.num_batches,
        checkpoint=stored if work.kind is workload.WorkloadKind.CHECKPOINT else None,
    )
    master.workers.report(launch.trial_id, launch_id, result)


def main() -> None:
    """Runs the search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--slots", type=int, default=8)
    arguments = parser.parse_args()
    config = {
        "searcher": {
            "name": "random",
            "metric": "loss",
            "max_length": {"batches": 4},
            "max_trials": arguments.trials,
        },
        "hyperparameters": {"lr": {"type": "double", "minval": 0, "maxval": 1}},
        "reproducibility": {"experiment_seed": 1},
    }
    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory)
        store = store_lib.open_store(home / "quintain.db")
        launcher = SimulatedLauncher()
        slots = [slots_lib.Slot(index) for index in range(arguments.slots)]

        def new_master() -> tuple[master_lib.Master, float]:
            master = master_lib.Master(store, launcher, slots, home, idle_secs=0.0)
            begin = time.perf_counter()
            master.recover()
            return master, time.perf_counter() - begin

        master, _ = new_master()
        begin = time.perf_counter()
        experiment = master.commands.create_experiment(json.dumps(config), None)
        print(f"create: {time.perf_counter() - begin:.2f} s")
        begin, middle, memory = time.perf_counter(), None, []
        pause = 0.0
        while launcher.alive or master.status_of(experiment.id) is not None:
            master.tick()
            for launch_id in list(launcher.alive):
                work(master, launcher, launch_id)
            status = master.status_of(experiment.id)
            progress = 1.0 if status is None else status.progress
            if progress >= 0.1 * (len(memory) + 1):
                memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            if middle is None and progress > 0.95:
                master, middle = new_master()
                pause = middle
                print(f"replay at {progress:.0%}: {middle:.2f} s")
        secs = time.perf_counter() - begin - pause
        print(f"run: {secs:.1f} s, {1000 * secs / arguments.trials:.2f} ms a trial")
        print("peak MiB by tenths of the search:", " ".join(f"{each:.0f}" for each in memory))


if __name__ == "__main__":
    main()
