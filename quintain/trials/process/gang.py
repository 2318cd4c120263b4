"""Gang of processes that train one trial: one talks to the master, all do what it is told."""

import contextlib
import functools
import os
import time
from collections.abc import Iterator
from typing import Final

import tensorflow as tf

from quintain import errors
from quintain.orbit import cluster
from quintain.records.rows import trial
from quintain.trials import distributed_context, trial_context
from quintain.trials.process import peer_addresses

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


def require_common_checkpoint(
    distributed: distributed_context.DistributedContext, spec: trial.TrialSpec
) -> None:
    """Checks that all processes go on from the same checkpoint.

    Raises:
        ClusterError: If not: one of them found it damaged, and told the master.
    """
    found = distributed.allgather(spec.checkpoint)
    if any(each != found[0] for each in found):
        raise errors.ClusterError(
            "The processes of this trial begin with different checkpoints, as some found the "
            "newest one damaged. They are started again."
        )


def await_others(distributed: distributed_context.DistributedContext) -> None:
    """Returns when all processes are done; whoever is gone already came this far, too."""
    with contextlib.suppress(*cluster.LOST_WORKER_ERRORS):
        distributed.allgather(None)
