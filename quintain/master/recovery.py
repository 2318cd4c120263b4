"""Recovery after a restart: experiments from their events, processes by identity.

A process that is still there is taken over, and goes on as if nothing had happened. One that ended
meanwhile counts as whatever its exit code says. One that vanished without a trace, because the
machine was restarted, say, is nobody's fault: its trial goes back to its last checkpoint, and none
of its restarts is used up (up to five times in a row).
"""

import logging
import time

from quintain.master import entries, scheduling, shared_state
from quintain.master.cleanup import home_identity
from quintain.master.machine import active_time
from quintain.master.processes import launcher as launcher_lib
from quintain.master.transfer import model_files
from quintain.records.rows import launch
from quintain.records.rows import node as node_lib

logger = logging.getLogger(__name__)


def recover(
    shared: shared_state.SharedState,
    processes: scheduling.Scheduling,
    launcher: launcher_lib.Launcher,
    *,
    accept_new_database: bool = False,
) -> None:
    """Loads all experiments that have not ended, and takes over their processes.

    Raises:
        StateError: If the database is not that of the home; nothing was changed then.
    """
    model_files.clear_staging(shared.home)
    with shared.condition:
        shared.deletions.home_id = home_identity.claim(
            shared.home, shared.store, accept_new_database=accept_new_database
        )
        with shared.store.reading() as session:
            records = session.list_experiments(include_archived=True)
            runs = session.list_launches()
            known = session.list_nodes()
        shared.nodes.restore(known)
        for record in records:
            if not record.state.is_terminal:
                with shared.failures_contained(record.id, "while it was loaded"):
                    entry = shared.entries[record.id] = shared.load(record.id)
                    if entry.config.searcher.time_budget is not None:
                        shared.apply(entry, {"kind": active_time.TAKEN_UP})
        for each in runs:
            with shared.failures_contained(
                each.experiment_id, "while its processes were taken over"
            ):
                _take_over(shared, processes, launcher, each)
        for entry in shared.entries.values():
            logger.info(
                "Experiment %d goes on: %s, %d trials.",
                entry.id,
                entry.machine.state.value,
                len(entry.machine.trials),
            )


def _take_over(
    shared: shared_state.SharedState,
    processes: scheduling.Scheduling,
    launcher: launcher_lib.Launcher,
    record: launch.Launch,
) -> None:
    scratch = str(entries.scratch_dir(shared.home, record))
    processes.deduplication.expect(record.trial_id)
    lost = []
    for rank, member in enumerate(record.members):
        name, trial_id = launch.member_name(record.launch_id, rank), record.trial_id
        was_started = member.identity is not None or member.node != node_lib.OWN
        if not was_started or not launcher.adopt(
            name, trial_id, member.identity, scratch, member.node
        ):
            lost.append(rank)
    is_there = len(lost) < len(record.members)
    entry = shared.entries.get(record.experiment_id)
    if entry is None:
        if is_there:
            for rank in range(len(record.members)):
                launcher.kill(launch.member_name(record.launch_id, rank))
        shared.write(lambda session: scheduling.forget_launch(shared, session, record))
        return
    live = entries.LiveLaunch(record, entry.request_ids[record.trial_id], time.monotonic())
    live.has_begun = record.state is not launch.LaunchState.LAUNCHING
    shared.add_launch(live)
    for rank in lost:
        processes.note_lost(live, rank, "The process was lost while no master watched it.")
