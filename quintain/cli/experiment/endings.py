"""Summaries and exit codes of ended experiments."""

from typing import Final

from quintain.cli import columns, output
from quintain.cli.display import experiment_display
from quintain.cli.display import snapshot as snapshot_lib
from quintain.records.rows import experiment as experiment_lib
from quintain.records.rows import states
from quintain.terminal import printable

EXIT_CODES: Final = {
    states.ExperimentState.COMPLETED: 0,
    states.ExperimentState.ERROR: 1,
    states.ExperimentState.CANCELED: 3,
    states.ExperimentState.PAUSED: 4,
}
"""What commands return that wait for an experiment, by how it ended."""

_MAX_FAILURES: Final = 3


def describe_end(experiment: experiment_lib.Experiment) -> str:
    """Returns a line that says how an experiment ended."""
    took = ""
    if experiment.end_time is not None:
        took = f" after {output.format_secs(experiment.end_time - experiment.start_time)}"
    reason = f": {printable.clean(experiment.reason)}" if experiment.reason else "."
    return f"Experiment {experiment.id} is {experiment.state.value}{took}{reason}"


def describe_result(snapshot: snapshot_lib.Snapshot, checkpoint_uuid: str | None) -> list[str]:
    """Returns lines on what came out of an experiment.

    Args:
        snapshot: The experiment when it ended.
        checkpoint_uuid: The best checkpoint, if there is one.
    """
    lines = []
    if snapshot.trials:
        lines.append(f"Trials: {columns.count_states(snapshot.trials)}")
    best = snapshot.best
    if best is not None:
        lines.append(f"Best: {columns.describe_best(best, snapshot.searcher)}")
        lines += [f"  {line}" for line in columns.flatten_hparams(best.hparams)]
    if best is not None and len(columns.find_objectives(snapshot.searcher)) > 1:
        number = snapshot.experiment.id
        lines.append(f"Best in all metrics: quintain experiment pareto {number}")
    if checkpoint_uuid is not None:
        lines.append(f"Its model: quintain checkpoint export {checkpoint_uuid} --output=best")
    failed = [trial for trial in snapshot.trials if trial.state.value == "ERROR"]
    for trial in failed[:_MAX_FAILURES]:
        reason = experiment_display.shorten(trial.reason) or "see its logs"
        lines.append(f"Failed: trial {trial.id}: {reason}")
        lines.append(f"  quintain trial logs {trial.id} --tail 20")
    if len(failed) > _MAX_FAILURES:
        lines.append(f"  ... and {len(failed) - _MAX_FAILURES} more trials failed")
    lines.append("Page: quintain ui")
    return [printable.clean(line) for line in lines]
