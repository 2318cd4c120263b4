"""Gang of processes that train one trial: one talks to the master, all do what it is told."""

import contextlib
import functools
import os
import pathlib
import time
from collections.abc import Iterator
from typing import Final

import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.orbit import cluster
from quintain.records.rows import codec, trial, workload
from quintain.storage import checkpoint_storage
from quintain.trials import distributed_context, trial_context
from quintain.trials.process import peer_addresses, workload_source

LOST_PAUSE_SECS: Final = 3.0
"""How long a process that lost another one stays: the end of that one says why, and comes first."""


def configure(spec: trial.TrialSpec) -> None:
    """Puts the processes of a trial where TensorFlow looks for them; before it computes anything.

    Raises:
        ConfigError: If a machine has no address for the others.
    """
    cluster.reach_directly()
    os.environ["TF_CONFIG"] = peer_addresses.tf_config(spec.peers, spec.rank)


@contextlib.contextmanager
def strategy_scope(context: trial_context.TrialContext) -> Iterator[None]:
    """Builds the strategy of a trial's processes; what is built inside is the same on all.

    Raises:
        TrialError: If TensorFlow has computed something before.
    """
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise errors.TrialError(
            f"Several processes can't train this trial: {error} Code that runs before its model is "
            "built must not compute with TensorFlow."
        ) from error
    connect(context, strategy)
    with strategy.scope():
        yield


def connect(context: trial_context.TrialContext, strategy: tf.distribute.Strategy) -> None:
    """Lets the processes of a trial talk to each other by TensorFlow's collectives."""
    context.distributed.connect(functools.partial(cluster.gather, strategy))


def is_lost(error: BaseException) -> bool:
    """Returns whether an error means that another process is gone."""
    return isinstance(error, (errors.ClusterError, *cluster.LOST_WORKER_ERRORS))


def await_cause() -> None:
    """Lets the end of the process that was lost be noticed before that of this one."""
    time.sleep(LOST_PAUSE_SECS)


class GangSource(workload_source.WorkloadSource):
    """Lets the first process ask and report, and all do what it is given."""

    def __init__(
        self,
        source: workload_source.WorkloadSource,
        distributed: distributed_context.DistributedContext,
    ) -> None:
        """Stores what the first process asks.

        Args:
            source: The master, as this process reaches it.
            distributed: The processes.
        """
        self._source = source
        self._distributed = distributed

    def agree(self, spec: trial.TrialSpec) -> None:
        """Checks that all processes go on from the same checkpoint.

        Raises:
            ClusterError: If not: one of them found it damaged, and told the master.
        """
        found = self._distributed.allgather(spec.checkpoint)
        if any(each != found[0] for each in found):
            raise errors.ClusterError(
                "The processes of this trial begin with different checkpoints, as some found the "
                "newest one damaged. They are started again."
            )

    @override
    def start(self) -> trial.TrialSpec:
        """Returns all that has to be known to run the trial."""
        return self._source.start()

    @override
    def open_storage(self, spec: trial.TrialSpec) -> checkpoint_storage.TrialStorage:
        """Returns where new checkpoints of the trial are kept, which the first process writes."""
        return self._source.open_storage(spec)

    @override
    def fetch_checkpoint(self, spec: trial.TrialSpec) -> pathlib.Path:
        """Returns a directory of this machine with the checkpoint that the trial goes on from."""
        return self._source.fetch_checkpoint(spec)

    @override
    def report_damage(self, checkpoint: str, damage: str) -> trial.TrialSpec:
        """Tells that a checkpoint can't be used, and returns the trial with an older one."""
        return self._source.report_damage(checkpoint, damage)

    @override
    def next_workload(self) -> workload.Workload:
        """Returns what to do next, the same on all processes."""
        own = codec.to_plain(self._source.next_workload()) if self._distributed.rank == 0 else None
        return codec.from_plain(workload.Workload, self._distributed.broadcast(own))

    @override
    def report(self, result: workload.WorkloadResult) -> None:
        """Hands in what the first process has; the last one waits until all are done."""
        if self._distributed.rank == 0:
            self._source.report(result)
        if result.workload.kind is workload.WorkloadKind.TERMINATE:
            # Who is gone already came this far, too.
            with contextlib.suppress(*cluster.LOST_WORKER_ERRORS):
                self._distributed.allgather(None)

    @override
    def report_exit(self, reason: workload.ExitedReason, message: str) -> None:
        """Tells why the trial ends; any process may, and the first one counts."""
        self._source.report_exit(reason, message)
