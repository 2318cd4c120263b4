"""What it means that a process of a trial has ended."""

import signal
from typing import Final

from quintain.records import exit_codes, run, workload
from quintain.scheduler import entries
from quintain.scheduler import launcher as launcher_lib

_LONGEST_LINE: Final = 300
"""Characters of a line that are part of a reason."""

_FINAL_CODES: Final = {
    exit_codes.ExitCode.INVALID_HPARAMS: workload.ExitedReason.INVALID_HP,
    exit_codes.ExitCode.UNUSABLE: workload.ExitedReason.UNUSABLE,
}
"""Exits after which a trial is not started again."""


def describe(
    entry: entries.Entry,
    live: entries.LiveRun,
    ended: launcher_lib.ProcessExit | None,
    reason: str,
) -> dict[str, object] | None:
    """Returns the event of an exit, or None if nothing is lost by it.

    Args:
        entry: The experiment.
        live: The process.
        ended: How it ended, or None if that is not known.
        reason: Why, if `ended` is None.
    """
    machine = entry.machine_of(live.record.trial_id)
    is_told = live.record.state is run.RunState.ENDING
    if machine.state.is_terminal or live.is_exit_known or (is_told and machine.is_saved):
        return None
    if live.is_killed and not live.kill_reason and entry.machine.state.is_stopping:
        return None
    code = None if ended is None else ended.exit_code
    if code is not None and code in _FINAL_CODES:
        return {
            "kind": "exit",
            "request_id": live.request_id,
            "exited_reason": _FINAL_CODES[exit_codes.ExitCode(code)].value,
            "reason": explain(ended, ""),
        }
    is_unknown = ended is None or (code is None and ended.signal is None)
    is_harmless = is_unknown or code in (
        exit_codes.ExitCode.NOT_WANTED,
        exit_codes.ExitCode.LOST_MASTER,
        exit_codes.ExitCode.LOST_MEMBER,
    )
    return {
        "kind": "failure",
        "request_id": live.request_id,
        "reason": live.kill_reason or reason or explain(ended, reason),
        "is_counted": bool(live.kill_reason) or not is_harmless,
    }


def explain(ended: launcher_lib.ProcessExit | None, reason: str) -> str:
    """Returns how a process ended, with its last lines."""
    if ended is None or (ended.exit_code is None and ended.signal is None):
        text = reason or "The process was lost; how it ended is not known."
    elif ended.out_of_memory or ended.exit_code == exit_codes.ExitCode.OUT_OF_MEMORY:
        text = "The process ran out of memory. Lower the batch size, or run fewer trials at once."
    elif ended.signal is not None:
        text = f"The process was ended by {_name_signal(ended.signal)}."
    elif ended.exit_code == 0:
        text = "The process ended by itself, though it had work to do."
    else:
        text = f"The process ended with code {ended.exit_code}."
    lines = [] if ended is None else [line[:_LONGEST_LINE] for line in ended.last_lines]
    return "\n".join([text, *(["Its last lines:", *lines] if lines else [])])


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
