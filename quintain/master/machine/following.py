"""What a trial will be asked after a checkpoint, as far as that is certain already."""

import copy
from typing import Final

from quintain.master.machine import trial_machine
from quintain.records.rows import workload

_MOST: Final = 100
"""Workloads that are told at most."""


def find_following(
    machine: trial_machine.TrialMachine, checkpoint: workload.Workload
) -> tuple[workload.Workload, ...]:
    """Returns the workloads after a checkpoint, up to the first whose outcome decides what is next.

    That is a validation; before it, only training is certain. Where the search method waits for the
    checkpoint to decide, there is nothing.

    Args:
        machine: The trial, which is to be saved next.
        checkpoint: The workload that asks for it.
    """
    # What happens to a copy is told to nobody; it needs the newest validation only.
    shared = {
        id(machine.hparams): machine.hparams,
        id(machine.validations): machine.validations[-1:],
    }
    ahead = copy.deepcopy(machine, shared)
    ahead.record_checkpoint("")
    while ahead.next_event(0.0) is not None:
        pass
    found: list[workload.Workload] = []
    while len(found) < _MOST:
        step = ahead.next_step()
        if step is None or step.kind is workload.WorkloadKind.CHECKPOINT:
            break
        found.append(
            workload.Workload(
                kind=step.kind,
                experiment_id=checkpoint.experiment_id,
                trial_id=checkpoint.trial_id,
                number=checkpoint.number + 1 + len(found),
                num_batches=step.num_batches,
                total_batches=ahead.total_batches,
            )
        )
        if step.kind is workload.WorkloadKind.VALIDATE:
            break
        ahead.record_training(step.num_batches)
    return tuple(found)
