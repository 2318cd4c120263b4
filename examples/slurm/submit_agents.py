"""Joins machines of a Slurm cluster to a master, by submitit: one agent on each.

python submit_agents.py --master=https://login1:8443 --fingerprint=3f5c... \
    --token-file=~/agent.token --agents=8 --partition=gpu

`--cluster=local` starts them on this machine, to try it without Slurm.
"""

import argparse
import contextlib
import getpass
import os
import pathlib
import signal
import socket
import subprocess
import sys

import submitit


class AgentJob:
    """What a job does: it runs an agent until its time is over.

    Args:
        arguments: Arguments of `quintain agent`, apart from its name and directory.
        cache: Directory below which agents have theirs, on disks of the machines themselves; empty
            for the one of this user in `/tmp`.
    """

    def __init__(self, arguments: list[str], cache: str) -> None:
        self._arguments = arguments
        self._cache = cache
        self._agent: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """Runs the agent, and returns its exit code."""
        job = submitit.JobEnvironment().job_id
        name = f"{socket.gethostname()}-{job}".lower()
        cache = os.path.expandvars(self._cache) or f"/tmp/quintain-{getpass.getuser()}"
        # Slurm tells all processes of a job that its time is over; only this one is to act on it.
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        self._agent = subprocess.Popen(
            [
                *(sys.executable, "-m", "quintain.cli.main", "agent", *self._arguments),
                *(f"--name={name}", f"--cache={cache}/{name}"),
            ],
            preexec_fn=lambda: [
                signal.signal(number, signal.SIG_IGN)
                for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
            ],
        )
        self._wait()
        return self._agent.wait()

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Lets trials save themselves before the job ends, and asks Slurm for another one."""
        self._end()
        self._wait()
        return submitit.helpers.DelayedSubmission(AgentJob(self._arguments, self._cache))

    def _end(self) -> None:
        if self._agent is not None:
            self._agent.send_signal(signal.SIGTERM)

    def _wait(self) -> None:
        # `Popen.wait` holds a lock: `checkpoint`, which a signal calls in the middle of it, would
        # wait for that lock for ever.
        if self._agent is not None and self._agent.returncode is None:
            with contextlib.suppress(ChildProcessError):  # `_end` may have seen the end.
                os.waitid(os.P_PID, self._agent.pid, os.WEXITED | os.WNOWAIT)


def main() -> None:
    """Submits the jobs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--master", required=True, help="Address of the master.")
    parser.add_argument("--token-file", required=True, help="File with the token of agents.")
    parser.add_argument("--fingerprint", default="", help="Fingerprint of its certificate.")
    parser.add_argument("--agents", type=int, default=1, help="How many machines.")
    parser.add_argument("--slots", type=int, default=2, help="Trials at once on each.")
    parser.add_argument("--cpus", type=int, default=8, help="CPU cores of each.")
    parser.add_argument("--gpus", type=int, default=0, help="GPUs of each.")
    parser.add_argument("--hours", type=float, default=24.0, help="How long each may run.")
    parser.add_argument("--partition", default="", help="Partition of Slurm.")
    parser.add_argument("--cache", default="", help="Directory on each; /tmp/quintain-USER.")
    parser.add_argument("--logs", default="agent_logs", help="Directory of submitit.")
    parser.add_argument("--cluster", default="slurm", choices=["slurm", "local"])
    given = parser.parse_args()

    executor = submitit.AutoExecutor(folder=given.logs, cluster=given.cluster)
    executor.update_parameters(
        name="quintain-agent",
        timeout_min=int(given.hours * 60),
        cpus_per_task=given.cpus,
        gpus_per_node=given.gpus,
    )
    if given.cluster == "slurm":
        executor.update_parameters(slurm_signal_delay_s=120)
        if given.partition:
            executor.update_parameters(slurm_partition=given.partition)
    arguments = [
        f"--master={given.master}",
        f"--token-file={pathlib.Path(given.token_file).expanduser().resolve()}",
        f"--slots={given.slots}",
        "--patience=600",
    ]
    if given.fingerprint:
        arguments.append(f"--fingerprint={given.fingerprint}")
    job = AgentJob(arguments, given.cache)
    with executor.batch():
        jobs = [executor.submit(job) for _ in range(given.agents)]
    print("Jobs:", *(each.job_id for each in jobs))


if __name__ == "__main__":
    main()
