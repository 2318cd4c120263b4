"""Interpretation of a trial process' exit."""

import signal
from collections.abc import Iterable
from typing import Final

from quintain.master import entries
from quintain.master.processes import launcher as launcher_lib
from quintain.records.rows import exit_codes, launch, workload

_LONGEST_LINE: Final = 300
"""Characters of a line that are part of a reason."""

_FINAL_CODES: Final = {
    exit_codes.ExitCode.INVALID_HPARAMS: workload.ExitedReason.INVALID_HP,
    exit_codes.ExitCode.UNUSABLE: workload.ExitedReason.UNUSABLE,
}
"""Exits after which a trial is not started again."""


def describe(
    entry: entries.Entry,
    live: entries.LiveLaunch,
    ended: launcher_lib.ProcessExit,
) -> dict[str, object] | None:
    """Returns the event of an exit, or None if nothing is lost by it."""
    machine = entry.machine_of(live.record.trial_id)
    is_told = live.record.state is launch.LaunchState.ENDING
    if machine.state.is_terminal or live.is_exit_known or (is_told and machine.is_saved):
        return None
    if live.is_killed and not live.kill_reason and entry.machine.state.is_stopping:
        return None
    code = ended.exit_code
    if code is not None and code in _FINAL_CODES:
        return {
            "kind": "exit",
            "request_id": live.request_id,
            "exited_reason": _FINAL_CODES[exit_codes.ExitCode(code)].value,
            "reason": explain(ended),
        }
    is_harmless = is_lost(ended) or code in (
        exit_codes.ExitCode.NOT_WANTED,
        exit_codes.ExitCode.LOST_MASTER,
        exit_codes.ExitCode.LOST_MEMBER,
        exit_codes.ExitCode.NO_ROOM,
    )
    return {
        "kind": "failure",
        "request_id": live.request_id,
        "reason": live.kill_reason or explain(ended),
        "is_counted": bool(live.kill_reason) or not is_harmless,
    }


def is_regular(ended: launcher_lib.ProcessExit) -> bool:
    """Returns whether a process ended as one does that was told to end."""
    return ended.exit_code == 0


def is_lost(ended: launcher_lib.ProcessExit) -> bool:
    """Returns whether it is not known how a process ended."""
    return ended.exit_code is None and ended.signal is None


def find_cause(live: entries.LiveLaunch) -> launcher_lib.ProcessExit:
    """Returns which exit says why the processes of a start have ended.

    It is that of a process that is lost, which the others can't know; else the first that was no
    regular one, for what is left of a trial is ended after it.
    """
    found = list(live.ended.values())
    lost = [each for each in found if is_lost(each)]
    failed = [each for each in found if not is_regular(each)]
    return (lost or failed or found)[0]


def explain(ended: launcher_lib.ProcessExit) -> str:
    """Returns how a process ended, with its last lines."""
    if is_lost(ended):
        text = ended.reason or "The process was lost; how it ended is not known."
    elif ended.out_of_memory or ended.exit_code == exit_codes.ExitCode.OUT_OF_MEMORY:
        text = "The process ran out of memory. Lower the batch size, or run fewer trials at once."
    elif ended.exit_code == exit_codes.ExitCode.NO_ROOM:
        text = _explain_disk(ended.last_lines)
    elif ended.signal is not None:
        text = f"The process was ended by {_name_signal(ended.signal)}."
    elif ended.exit_code == 0:
        text = "The process ended by itself, though it had work to do."
    else:
        text = f"The process ended with code {ended.exit_code}."
    lines = [line[:_LONGEST_LINE] for line in ended.last_lines]
    return "\n".join([text, *(["Its last lines:", *lines] if lines else [])])


def _explain_disk(lines: Iterable[str]) -> str:
    """Returns that a disk was full or lost: which one, as its last lines say, and what to do."""
    said = [line for line in lines if line.startswith(exit_codes.DISK_FAILS)]
    if not said:
        return "A disk of its machine was full, broken or not mounted."
    place = said[-1].removeprefix(exit_codes.DISK_FAILS).strip()
    return f"A disk of its machine can't be used: {place[:_LONGEST_LINE]}"


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
