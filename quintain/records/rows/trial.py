"""Trials: the order that a process gets to run one, and the record of the store."""

import dataclasses
from typing import Any

from quintain.records.rows import states


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialOrder:
    """Order of a master to a trial's process, wherever that runs: names, and no paths."""

    experiment_id: int
    """The experiment; 0 where there is no master."""

    trial_id: int
    """The trial; 0 where there is no master."""

    experiment_config: dict[str, Any]
    """The complete config of the experiment, as plain data."""

    hparams: dict[str, Any]
    """Values of the hyperparameters; nested where the space is."""

    seed: int
    """Seed of all random numbers, below 2 ** 31."""

    entrypoint: str | None
    """`module:Class`, `experiment:NAME`, or None to search the model directory for a trial."""

    checkpoint: str | None = None
    """UUID of the checkpoint to go on from, or None to start anew."""

    checkpoint_experiment_id: int | None = None
    """The experiment of that checkpoint."""

    checkpoint_storage: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Part `checkpoint_storage` of the config of that experiment."""

    checkpoint_files: dict[str, int] = dataclasses.field(default_factory=dict)
    """Sizes in bytes of the files of that checkpoint, as they were when it was saved."""

    is_warm_start: bool = False
    """Whether that checkpoint belongs to another trial: weights and optimizer are taken over,
    counters and data position are not."""

    slots: tuple[int, ...] = ()
    """Numbers of the slots that the process may use."""

    num_threads: int | None = None
    """CPU threads to use; None for TensorFlow's choice."""

    home_id: str = ""
    """The home of the experiment; empty where there is no master."""

    launch_id: str = ""
    """This start of the trial; empty where there is no master."""

    code_name: str = ""
    """Where the code lies in the home of the master."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialSpec(TrialOrder):
    """Order of a trial with the paths of one machine."""

    model_dir: str
    """Directory with the user's code."""

    checkpoint_dir: str
    """Directory in which each checkpoint gets a directory of its own."""

    scratch_dir: str
    """Directory for files of this process that nobody else needs."""

    latest_checkpoint: str | None = None
    """Directory of the checkpoint to go on from, or None to start anew."""

    tensorboard_dir: str = ""
    """Directory of event files that the trial writes itself; empty takes one in `scratch_dir`."""

    rank: int = 0
    """Number of this process among those of the trial."""

    peers: tuple["Peer", ...] = ()
    """All processes of the trial by their rank; none if there is only this one."""

    exchange_key: bytes = dataclasses.field(default=b"", repr=False)
    """Secret of these processes, which authenticates what they tell each other."""


@dataclasses.dataclass(frozen=True)
class Peer:
    """Address of one of the processes that train a trial together."""

    node: str
    """Its machine; empty for that of the master."""

    host: str
    """The address by which the machine reaches the master."""

    outside: str
    """The address of the machine in its network, where `host` is one of the machine itself."""

    port: int
    """The port that it keeps free for them."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Tells one process from all others, also after its number was given to another one."""

    pid: int
    start_time: float
    """When it was started, in seconds since the epoch: for display, as clocks are corrected."""

    launch_id: str
    """Name that the launcher gave to this start."""

    mark: str = ""
    """What no other process of this number has (`process_identity.find_mark`). What versions stored
    that knew none is no living process."""

    node: str = ""
    """Machine that it runs on; empty for that of the master."""


@dataclasses.dataclass(frozen=True)
class TrialRecord:
    """Record of a trial in the store."""

    id: int
    experiment_id: int
    request_id: str
    """Name that the search method gave it."""

    state: states.TrialState
    hparams: dict[str, Any]
    seed: int
    parent_trial_id: int | None = None
    """Trial from whose checkpoint it started."""

    restarts: int = 0
    """How often it was started again after a failure."""

    total_batches: int = 0
    latest_checkpoint: str | None = None
    best_metric: float | None = None
    latest_metric: float | None = None
    progress: float = 0.0
    """Part of the work that was asked of it so far which is done, from 0 to 1."""

    start_time: float | None = None
    """Seconds since the epoch, when it was created."""

    end_time: float | None = None
    """Seconds since the epoch, when it ended."""

    reason: str = ""
    """Why it ended, if not because the search method closed it."""

    note: str = ""
    """The user's words for it."""

    held_secs: float = 0.0
    """Seconds for which its launches that have ended held slots; it follows from those."""

    held_since: float | None = None
    """Seconds since the epoch, when the launch that holds slots now got them; it follows, too."""

    def find_duration(self, now: float) -> float | None:
        """Returns the seconds for which it held slots until now; None if it never did."""
        return find_duration(self.held_secs, self.held_since, now)


def find_duration(held_secs: float | None, held_since: float | None, now: float) -> float | None:
    """Returns what a trial took until now; see `TrialRecord.held_secs`.

    Example:
        >>> [find_duration(*held, now=9.0) for held in ((2.0, None), (2.0, 5.0), (0.0, None))]
        [2.0, 6.0, None]
    """
    current = 0.0 if held_since is None else max(now - held_since, 0.0)
    return (held_secs or 0.0) + current if held_secs or held_since is not None else None
