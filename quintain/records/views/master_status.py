"""Status of a running master: slots, experiments, addresses."""

import dataclasses
from typing import Final

from quintain.records.rows import states

OTHERS: Final = 0
"""Number in place of those of an experiment, and its trial, that who asks may not read."""


@dataclasses.dataclass(frozen=True)
class SlotStatus:
    """One slot and who holds it."""

    id: int
    kind: str
    """`cpu` or `gpu`."""

    device: str = ""
    """Name of the device; empty for shares of the CPU."""

    num_threads: int | None = None
    """CPU threads of the slot; None for TensorFlow's choice."""

    trial_id: int | None = None
    """Trial that holds it; None if it is free, `OTHERS` if that is not for who asks."""

    experiment_id: int | None = None
    node: str = ""
    """Machine of the slot; empty for that of the master."""


@dataclasses.dataclass(frozen=True)
class _ExperimentProgress:
    """Progress of an experiment that has not ended."""

    experiment_id: int
    state: states.ExperimentState
    progress: float = 0.0
    """Part of the search that is done, from 0 to 1."""

    eta_secs: float | None = None
    """Seconds until the search is over, as far as can be told; None where it can't."""

    _: dataclasses.KW_ONLY

    lack: str = ""
    """What waiting trials need that no machine has. Empty if one does."""

    waits_for: str = ""
    """What a running trial waits for, such as its storage, and how many do. Empty if none does."""


@dataclasses.dataclass(frozen=True)
class TrialWork:
    """Work of a running trial: what it does now, and how far it is."""

    trial_id: int
    doing: str
    """In a word or two, such as `starting`, `training 40/200` (batches of the trial), `saving`."""

    progress: float
    """Part of what it was asked so far that is done, from 0 to 1."""


@dataclasses.dataclass(frozen=True)
class ExperimentStatus(_ExperimentProgress):
    """Progress of an experiment that has not ended, with its trials."""

    running_trials: tuple[int, ...] = ()
    """Trials that hold slots."""

    work: tuple[TrialWork, ...] = ()
    """What each of these does."""

    waiting_trials: tuple[int, ...] = ()
    """Trials that have work to do and wait for slots."""


@dataclasses.dataclass(frozen=True)
class ExperimentSummary(_ExperimentProgress):
    """Progress of an experiment that has not ended, in numbers."""

    num_running: int = 0
    """Trials that hold slots."""

    num_waiting: int = 0
    """Trials that have work to do and wait for slots."""

    num_slots: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class _MasterProblems:
    """Reasons for which a master works less than it could."""

    problem: str = ""
    """Why no work is handed out now: the store can't be written, say. Empty if there is none."""

    slow_start: str = ""
    """Why trials start more slowly than they could. Empty if they don't."""


@dataclasses.dataclass(frozen=True)
class MasterStatus(_MasterProblems):
    """Status of all slots and experiments."""

    slots: tuple[SlotStatus, ...] = ()
    """All slots, by number."""

    experiments: tuple[ExperimentStatus, ...] = ()
    """All experiments that have not ended, by number."""


@dataclasses.dataclass(frozen=True)
class MasterSummary(_MasterProblems):
    """The status in numbers: as short with thousands of slots and trials as with ten."""

    num_slots: int = 0
    """All slots but those of lost machines."""

    num_remote_slots: int = 0
    """Those of other machines than the master's."""

    num_busy_slots: int = 0
    """Those that trials hold."""

    lost_nodes: tuple[str, ...] = ()
    """Machines of which nothing is heard."""

    awaited_nodes: tuple[str, ...] = ()
    """Machines that are there, and on which nothing can be started yet."""

    experiments: tuple[ExperimentSummary, ...] = ()
    """All experiments that have not ended, by number."""


@dataclasses.dataclass(frozen=True)
class MasterInfo:
    """Identity and version of a master."""

    version: str
    home: str
    url: str
    pid: int
    start_time: float
    """When the process was started, in seconds since the epoch."""

    is_embedded: bool = False
    """Whether it lives in a command that follows its own experiment."""

    run_dirs: tuple[str, ...] = ()
    """Directories whose runs of `quintain train` it shows."""

    fingerprint: str = ""
    """SHA-256 of the certificate that it shows at its address; empty if it shows none."""

    database: str = ""
    """Where it keeps experiments: a file, or an address without its password."""


@dataclasses.dataclass(frozen=True)
class PageLink:
    """A link that opens the page of a master once."""

    url: str
