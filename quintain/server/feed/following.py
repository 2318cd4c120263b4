"""Incremental updates for an experiment follower."""

from typing import TYPE_CHECKING

from quintain.records.views import following, master_status
from quintain.server.feed import cursors

if TYPE_CHECKING:
    from quintain.store import reading


def read(
    session: "reading.Reader",
    experiment_id: int,
    cursor: str,
    status: master_status.ExperimentStatus | None,
    summary: master_status.MasterSummary,
) -> following.Following:
    """Returns an experiment, and the trials that have changed since a moment.

    Args:
        session: Reads.
        experiment_id: The experiment.
        cursor: The moment; all trials are told if it is empty, or not known any more.
        status: What the master says of the experiment. It was asked before: so an experiment that
            is over then has its last trials here.
        summary: What it says of its machines.
    """
    experiment = session.get_experiment(experiment_id)
    oldest, newest = session.get_change_bounds()
    after = cursors.parse(cursor, cursors.find_home(session))
    is_whole = after is None or not oldest <= after <= newest
    ids = None if after is None or is_whole else session.list_changed_trials(experiment_id, after)
    return following.Following(
        cursor=cursors.find_newest(session),
        is_whole=is_whole,
        trials=session.list_trials(experiment_id, ids=ids),
        experiment=experiment,
        status=status,
        master=summary,
    )
