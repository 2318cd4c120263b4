"""Launcher interface: starts, watches and ends trial processes.

The scheduler decides; a launcher obeys. It knows nothing about experiments and never talks to the
store, so that another one (for many machines, say) can take its place.
"""

import abc
import dataclasses

from quintain.master.placing import demand, slots
from quintain.records.rows import log, trial
from quintain.records.rows import node as node_lib


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One start of a trial's process."""

    launch_id: str
    """Name of this start. It becomes part of file names: letters, digits, `-`, `_` and `.`."""

    trial_id: int
    """The trial."""

    experiment_id: int
    """The experiment."""

    slots: tuple[slots.Slot, ...]
    """What the process may use."""

    environment: dict[str, str] = dataclasses.field(repr=False)
    """Variables to add to the environment of the launcher's own process."""

    scratch_dir: str
    """Directory for the files of this process. Made if it is not there."""

    model_dir: str = ""
    """Directory with the user's code, on the machine of the master; empty if there is none."""

    node: str = node_lib.OWN
    """Machine to start it on; that of all its slots."""

    rank: int = 0
    """Number of this process among those of the trial."""

    size: int = 1
    """Processes of the trial."""


@dataclasses.dataclass(frozen=True)
class ProcessExit:
    """End of a process. If it can't be found out, `exit_code` and `signal` are None."""

    launch_id: str
    """Name of the start."""

    trial_id: int
    """The trial."""

    exit_code: int | None
    """A `records.rows.exit_codes.ExitCode`, or another number; None if a signal ended it."""

    signal: int | None
    """Number of the signal that ended it, or None if it ended by itself."""

    last_lines: tuple[str, ...] = ()
    """The last lines that it wrote, of both streams."""

    out_of_memory: bool = False
    """Whether it ended because there was no memory left."""

    reason: str = ""
    """Why it ended, where neither a code nor a signal says so: it could not be started, say, or its
    machine is gone."""


class Launcher(abc.ABC):
    """Starts and ends processes. All methods may be called from several threads."""

    @abc.abstractmethod
    def start(self, launch: LaunchRequest) -> trial.ProcessIdentity | None:
        """Starts a process and returns what it can be recognised by.

        Returns:
            The process; None if another machine starts it, which is not waited for. If it can't,
            `poll` reports an exit with a reason.

        Raises:
            ClusterError: If the process can't be started; the message says why.
        """

    @abc.abstractmethod
    def adopt(
        self,
        launch_id: str,
        trial_id: int,
        identity: trial.ProcessIdentity | None,
        scratch_dir: str,
        node: str = node_lib.OWN,
    ) -> bool:
        """Takes over a process that another launcher started.

        Also a process that ended meanwhile is taken over if it is known how: then True is
        returned, and `poll` reports its exit like that of any other.

        Args:
            launch_id: Name of the start.
            trial_id: The trial.
            identity: What `start` returned, or the process itself told.
            scratch_dir: `scratch_dir` of the launch.
            node: `node` of the launch.

        Returns:
            True for a process of a machine that has not called yet: if it does not come back,
            `poll` reports the exit. False if the process is not alive and has left nothing to read:
            `poll` does not report it.
        """

    @abc.abstractmethod
    def kill(self, launch_id: str) -> None:
        """Ends a process and all that it started.

        They are asked by SIGTERM and forced by SIGKILL after a grace, which `poll` watches. The
        exit is reported by `poll`. A name that is not known (any more) is no error.
        """

    def forget(self, launch_id: str) -> None:
        """Says that the exit which `poll` reported is kept, and need not be reported again.

        Without this, the launcher of a restarted master reports it once more if it is adopted. The
        files of the process are deleted once their lines are kept as well.
        """
        del launch_id

    @abc.abstractmethod
    def poll(self) -> list[ProcessExit]:
        """Returns the processes that have ended, each of them once.

        An exit is not returned before the next call of `read_logs` gives the last lines of the
        process: who keeps those lines first has all of them when it takes the exit.
        """

    @abc.abstractmethod
    def read_logs(self) -> list[log.LogRow]:
        """Returns the lines that were written since the last call, by each process in order.

        A call confirms that the lines of the call before it are kept: they are not read again,
        not even by the launcher of a restarted master.
        """

    @abc.abstractmethod
    def close(self, *, kill: bool) -> None:
        """Ends the launcher.

        Args:
            kill: Whether to end all processes and wait for that; else they go on, and another
                launcher can adopt them.
        """

    def read_usage(self) -> dict[str, dict[str, float]]:
        """Returns what processes of other machines use, by launch, as told since the last call."""
        return {}

    def list_nodes(self) -> list[node_lib.Node]:
        """Returns the machines, beside that of the master, on which it starts processes now."""
        return []

    def list_awaited(self) -> list[str]:
        """Returns the names of machines that are there, and on which nothing can be started yet."""
        return []

    def find_slowness(self) -> str:
        """Returns why processes start more slowly than they could, or an empty text."""
        return ""

    def find_most_slots(self) -> int | None:
        """Returns up to how many slots machines are added for trials that wait; None if never."""
        return None

    def ask(self, wanted: demand.Demand) -> None:
        """Takes what trials want that wait, where machines are added. It waits for nothing."""
        del wanted
